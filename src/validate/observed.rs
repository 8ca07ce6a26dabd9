//! What is compared of a run, simulated or live.

use crate::report::{Cause, Figure, JobReport, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Stands for a rate that nothing showed [samples/s].
const MOST: f64 = 1e12;

/// What is compared of a run: all jobs together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Samples trained on, summed over jobs and their copies [samples/s].
    pub samples_per_second: f64,
    /// Time of a step, mean over jobs [s].
    pub step_time: f64,
    /// Share of time that accelerators wait, mean over jobs.
    pub stall: f64,
    /// Parts of it by cause, own and peers' together.
    pub causes: BTreeMap<String, f64>,
    /// Samples in the queue, mean over jobs.
    pub occupancy: f64,
    /// Samples trained on if trainers never held up loaders, summed over jobs [samples/s].
    #[serde(default)]
    pub unblocked_rate: f64,
    /// Samples trained on if loaders never starved trainers, summed over jobs [samples/s].
    #[serde(default)]
    pub unstalled_rate: f64,
}

impl Observed {
    /// Of a report; `None` where a job completed no step.
    #[must_use]
    pub fn from_report(report: &Report) -> Option<Observed> {
        let all = report.jobs.len() as f64;
        let mut observed = Observed::default();
        for job in &report.jobs {
            observed.add(job, all)?;
        }
        (all > 0.0).then_some(observed)
    }

    fn add(&mut self, job: &JobReport, all: f64) -> Option<()> {
        let figures = &job.figures;
        self.samples_per_second += figures.samples_per_second.mean? * f64::from(job.copies);
        self.step_time += figures.step_time.mean? / all;
        self.stall += figures.stall.total.mean? / all;
        self.occupancy += job.queue.occupancy.mean.unwrap_or(0.0) / all;
        let (queue, copies) = (&job.queue, f64::from(job.copies));
        // Workers that are always held up, or trainers that always starve, show no rate of their own.
        let rate = |figure: &Figure| figure.mean.unwrap_or(MOST) * copies;
        self.unblocked_rate += rate(&queue.unblocked_enqueue_rate);
        self.unstalled_rate += rate(&queue.unstalled_dequeue_rate);
        for (cause, share) in &figures.stall.causes {
            let share = share.mean.unwrap_or(0.0) / all;
            // A live run cannot tell the first byte of a read from the others.
            let cause = if cause.cause == Cause::Latency { Cause::Transfer } else { cause.cause };
            *self.causes.entry(cause.name().to_owned()).or_default() += share;
        }
        Some(())
    }

    /// The same run, every step of which takes longer by a factor; what it loses is time that
    /// accelerators wait.
    #[must_use]
    pub fn slowed(mut self, factor: f64) -> Observed {
        self.samples_per_second /= factor;
        self.step_time *= factor;
        self.stall = (1.0 - (1.0 - self.stall) / factor).max(0.0);
        self
    }

    /// The cause whose share differs most between two runs, and both shares.
    #[must_use]
    pub fn most_different<'a>(&'a self, other: &'a Observed) -> Option<(&'a str, f64, f64)> {
        let share = |of: &Observed, name: &str| of.causes.get(name).copied().unwrap_or(0.0);
        let names = Cause::ALL.iter().map(|cause| cause.name());
        let both = names.map(|name| (name, share(self, name), share(other, name)));
        // Of equals the first.
        both.rev()
            .max_by(|a, b| (a.1 - a.2).abs().total_cmp(&(b.1 - b.2).abs()))
            .filter(|(_, own, others)| own != others)
    }
}
