//! Use of GPUs by learners.

use super::figures::JobFigures;
use super::format::{bytes, number, rate, seconds, share};
use super::sample::over_replications;
use super::window::ratio;
use super::{Figure, JobOutcome};
use forebay_scenario::{Cluster, Dataset, Job};
use serde::{Deserialize, Serialize};

/// Number of bins into which occupancy is divided between 0 and a whole GPU.
const PARTS: usize = 20;

/// Histogram of occupancy: time by the part of a GPU that was in use [s]. Entry i is the time with more than (i − 1) ÷ 20 and
/// at most i ÷ 20 of a GPU in use.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Occupancy {
    seconds: [f64; PARTS + 1],
    /// Integral over time of the part of a GPU in use [GPU·s].
    in_use: f64,
}

impl Occupancy {
    /// Adds `seconds` during which the fraction `part` of a GPU was in use.
    pub fn add(&mut self, part: f64, seconds: f64) {
        // In binary, a part may be a little larger than its decimal value.
        let place = (part * PARTS as f64 - 1e-9).ceil().clamp(0.0, PARTS as f64);
        self.seconds[place as usize] += seconds;
        self.in_use += part * seconds;
    }

    /// Returns the mean part of a GPU in use; `None` if no time has passed.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        ratio(self.in_use, self.seconds.iter().sum())
    }

    /// Returns the share of time in which at most i ÷ 20 of a GPU was in use, for i from 0 to 20.
    #[must_use]
    pub fn cumulative(&self) -> Vec<f64> {
        let all: f64 = self.seconds.iter().sum();
        let sums = self.seconds.iter().scan(0.0, |sum, seconds| {
            *sum += seconds;
            ratio(*sum, all)
        });
        sums.collect()
    }
}

impl std::ops::AddAssign for Occupancy {
    fn add_assign(&mut self, other: Occupancy) {
        self.seconds.iter_mut().zip(other.seconds).for_each(|(sum, more)| *sum += more);
        self.in_use += other.in_use;
    }
}

/// Use of a job copy's GPUs by its learners.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LearnersOutcome {
    /// Learners on each GPU at the end.
    pub per_gpu: u32,
    /// Largest number of buffers for input batches that learners held at once, on the GPU that needed most.
    pub inputs: u32,
    /// Largest number of buffers for activations that learners held at once, on the GPU that needed most.
    pub activations: u32,
    /// Histogram of the part of a GPU in use, from the first kernel to the last, all GPUs together.
    pub occupancy: Occupancy,
    /// Numbers of learners that a policy has tried, in order.
    pub tried: Vec<LearnersTried>,
}

/// A number of learners that a policy has tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LearnersTried {
    /// Time from which on the throughput was measured [s].
    pub since: f64,
    /// Learners on each GPU.
    pub learners: u32,
    /// Throughput with this number of learners [samples/s].
    pub samples_per_second: f64,
}

/// Use of a job's GPUs by its learners.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LearnersReport {
    /// Learners on each GPU at the end, of the first copy.
    pub per_gpu: u32,
    /// Throughput relative to the throughput with one learner on each GPU, if that learner never waits.
    pub gain: Option<f64>,
    /// Share of a GPU in use, from the first kernel to the last.
    pub occupancy: Figure,
    /// Cumulative distribution of occupancy: share of time in which at most 0, 0.05, 0.1, …, 1 of a GPU was in use.
    pub occupancy_cumulative: Vec<f64>,
    /// Buffers that learners share.
    pub buffers: BuffersReport,
    /// Numbers of learners on each GPU that the tuning policy has tried, in the first copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<LearnersTried>,
}

/// Buffers in a GPU's memory that its learners share, on the GPU that needed most.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, schemars::JsonSchema)]
pub struct BuffersReport {
    /// Number of buffers for input batches.
    pub inputs: u32,
    /// Number of buffers for activations.
    pub activations: u32,
    /// Size of all these buffers together [B]; `None` if the size of activations is not known.
    pub bytes: Option<f64>,
    /// Size that the buffers would have together if each learner had one for inputs and one for activations [B].
    pub unshared: Option<f64>,
}

fn buffers(job: &Job, dataset: &Dataset, copies: &[Vec<&JobOutcome>]) -> BuffersReport {
    let all = || copies.iter().flatten().filter_map(|copy| copy.learners.as_ref());
    let most = |of: fn(&LearnersOutcome) -> u32| all().map(of).max().unwrap_or(0);
    let (inputs, activations) = (most(|of| of.inputs), most(|of| of.activations));
    let sample = dataset.decoded_size.unwrap_or_else(|| dataset.mean_size());
    let input = sample * job.batch as f64;
    let each = job.footprint().map(|held| held.activations / f64::from(job.learners.most));
    let bytes = |inputs: u32, activations: u32| {
        Some(f64::from(inputs) * input + f64::from(activations) * each?)
    };
    let learners = most(|of| of.per_gpu);
    BuffersReport {
        inputs,
        activations,
        bytes: bytes(inputs, activations),
        unshared: bytes(learners, learners),
    }
}

/// Returns the use of GPUs by learners, from the outcomes of a job's copies, grouped by replication; `None` if the scenario neither describes kernels nor
/// sets the number of learners.
pub(super) fn learners(
    (job, dataset): (&Job, &Dataset),
    cluster: &Cluster,
    figures: &JobFigures,
    copies: &[Vec<&JobOutcome>],
) -> Option<LearnersReport> {
    if job.kernels.is_empty() && job.learners.is_one() {
        return None;
    }
    let of = |copy: &&JobOutcome| copy.learners.clone();
    let first = copies.iter().flatten().find_map(of)?;
    let sum = |copies: &mut dyn Iterator<Item = LearnersOutcome>| {
        copies.fold(Occupancy::default(), |mut sum, of| {
            sum += of.occupancy;
            sum
        })
    };
    let each = copies.iter().filter_map(|copies| sum(&mut copies.iter().filter_map(of)).mean());
    let alone = job.step.seconds(job.batch as f64) / cluster.node.gpu_speed;
    let one = f64::from(job.ranks()) * job.batch as f64;
    Some(LearnersReport {
        per_gpu: first.per_gpu,
        gain: figures.samples_per_second.mean.and_then(|rate| ratio(rate * alone, one)),
        occupancy: over_replications(&each.collect::<Vec<_>>()),
        occupancy_cumulative: sum(&mut copies.iter().flatten().filter_map(of)).cumulative(),
        buffers: buffers(job, dataset, copies),
        tried: first.tried,
    })
}

/// Writes the use of GPUs by learners as a sentence.
pub(super) fn line(job: &str, learners: &LearnersReport) -> String {
    let of = if learners.per_gpu == 1 { "learner" } else { "learners" };
    let mut text = format!("GPUs of `{job}` have {} {of} each", learners.per_gpu);
    if let Some(mean) = learners.occupancy.mean {
        text += &format!(" and are occupied to {}", share(mean));
        text += &format!(", more than half {} of the time", share(above_half(learners)));
    }
    if let Some(gain) = learners.gain {
        text += &format!(
            "; together they train {} times as fast as one learner that never waits",
            number(gain)
        );
    }
    let BuffersReport { inputs, activations, bytes: held, .. } = learners.buffers;
    let held = held.map_or(String::new(), |held| format!(", {} in all", bytes(held)));
    text +=
        &format!(". Buffers of a GPU: {inputs} for batches, {activations} for activations{held}");
    let tried = learners.tried.iter().map(|of| {
        format!(
            "{} with {} from {}",
            rate(of.samples_per_second, "samples"),
            of.learners,
            seconds(of.since)
        )
    });
    let tried: Vec<String> = tried.collect();
    if !tried.is_empty() {
        text += &format!(". The policy measured {}", tried.join(", "));
    }
    text + "."
}

fn above_half(learners: &LearnersReport) -> f64 {
    learners.occupancy_cumulative.get(PARTS / 2).map_or(0.0, |below| 1.0 - below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_occupancy_histogram_weights_gpu_utilisation_by_time() {
        // System: idle for 1 s, 0.15 in use for 2 s, all for 1 s. Expectation: 0.325 on average; a quarter of the time
        // nothing, three quarters at most 0.15.
        let mut occupancy = Occupancy::default();
        for (part, seconds) in [(0.0, 1.0), (0.15, 2.0), (1.0, 1.0)] {
            occupancy.add(part, seconds);
        }
        let at_most = occupancy.cumulative();
        assert!((occupancy.mean().expect("time") - 0.325).abs() < 1e-12);
        let found = [at_most[0], at_most[2], at_most[3], at_most[19], at_most[20]];
        assert_eq!(found, [0.25, 0.25, 0.75, 0.75, 1.0]);
        assert_eq!(
            (Occupancy::default().mean(), Occupancy::default().cumulative().len()),
            (None, 0)
        );
    }
}
