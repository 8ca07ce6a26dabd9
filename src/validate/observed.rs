//! The figures of simulated and live runs by which predictions are compared with measurements.

use crate::report::{Cause, Figure, JobReport, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Practically infinite rate [samples/s], for loaders or trainers whose own rate a run does not show.
const MOST: f64 = 1e12;

/// The figures of a run, over all jobs, by which predictions are compared with measurements.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Throughput, summed over jobs and their copies [samples/s].
    pub samples_per_second: f64,
    /// Time of a step, mean over jobs [s].
    pub step_time: f64,
    /// Share of time that accelerators wait, mean over jobs.
    pub stall: f64,
    /// Parts of `stall` by cause; each contains a rank's own stalls and stalls due to peers.
    pub causes: BTreeMap<String, f64>,
    /// Mean number of samples in the queue, averaged over jobs.
    pub occupancy: f64,
    /// Throughput if trainers never blocked loaders, summed over jobs [samples/s].
    #[serde(default)]
    pub unblocked_rate: f64,
    /// Throughput if loaders never starved trainers, summed over jobs [samples/s].
    #[serde(default)]
    pub unstalled_rate: f64,
}

impl Observed {
    /// Returns the figures of a report; `None` if a job completed no step.
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
        // Workers that are always blocked, or trainers that always starve, show no rate of their own.
        let rate = |figure: &Figure| figure.mean.unwrap_or(MOST) * copies;
        self.unblocked_rate += rate(&queue.unblocked_enqueue_rate);
        self.unstalled_rate += rate(&queue.unstalled_dequeue_rate);
        for (cause, share) in &figures.stall.causes {
            let share = share.mean.unwrap_or(0.0) / all;
            // A live run cannot separate latency (the time until the first byte) from transfer.
            let cause = if cause.cause == Cause::Latency { Cause::Transfer } else { cause.cause };
            *self.causes.entry(cause.name().to_owned()).or_default() += share;
        }
        Some(())
    }

    /// Returns the run with all step times multiplied by `factor`; the additional time counts as stall.
    #[must_use]
    pub fn slowed(mut self, factor: f64) -> Observed {
        self.samples_per_second /= factor;
        self.step_time *= factor;
        self.stall = (1.0 - (1.0 - self.stall) / factor).max(0.0);
        self
    }

    /// Returns the cause whose share differs most between two runs, and both shares; `None` if no share differs.
    #[must_use]
    pub fn most_different<'a>(&'a self, other: &'a Observed) -> Option<(&'a str, f64, f64)> {
        let share = |of: &Observed, name: &str| of.causes.get(name).copied().unwrap_or(0.0);
        let names = Cause::ALL.iter().map(|cause| cause.name());
        let both = names.map(|name| (name, share(self, name), share(other, name)));
        // Reversed, because `max_by` returns the last of equal causes and the first one is wanted.
        both.rev()
            .max_by(|a, b| (a.1 - a.2).abs().total_cmp(&(b.1 - b.2).abs()))
            .filter(|(_, own, others)| own != others)
    }
}
