//! How far results of a sample of nodes may be from those of all nodes.

use super::format::share;
use super::{JobReport, Outcome, SampleOfNodes};
use forebay_engine::stats::{mean, student_975};

/// Error of a step time from which on reports warn.
const FAR: f64 = 0.05;

/// A sample of nodes that was simulated for all.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct SampledReport {
    /// Number of nodes in the sample.
    pub nodes: u32,
    /// Number of nodes for which they stand.
    pub of: u32,
    /// For each job, how far its step time may be from that of all nodes: half-width of the 95 % interval, relative to the step time.
    /// It is part of the intervals of the job's figures. `None` if no step is complete.
    pub step_time: Vec<Option<f64>>,
    /// For each job, how far the share of the time in which its accelerators wait may be from that of all nodes: half-width of the 95 %
    /// interval.
    pub stall: Vec<Option<f64>>,
}

/// How far figures of a job from a sample of nodes may be from those of all nodes, as half-widths of 95 % intervals.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct SamplingError {
    /// Of times, relative to them.
    pub(super) time: f64,
    /// Of shares of the time.
    pub(super) share: f64,
}

/// Returns the errors of sampling nodes for a job: infinite if they are not known, and 0 if all nodes were simulated.
pub(super) fn error_or_infinite(outcomes: &[Outcome], job: usize) -> SamplingError {
    match outcomes.first().is_some_and(|outcome| outcome.sampled.is_some()) {
        false => SamplingError::default(),
        true => sampling_error(outcomes, job)
            .unwrap_or(SamplingError { time: f64::INFINITY, share: f64::INFINITY }),
    }
}

/// Returns the errors of sampling nodes for a job; `None` if all nodes were simulated, or fewer than two samples have a complete step.
fn sampling_error(outcomes: &[Outcome], job: usize) -> Option<SamplingError> {
    let samples = outcomes.first()?.sampled.as_ref()?.samples.len();
    // Mean over replications of each size of sample.
    let of_size = |size: usize| -> Option<(f64, [f64; 2])> {
        let of = |outcome: &Outcome| -> Option<SampleOfNodes> {
            outcome.sampled.as_ref()?.samples.get(size).cloned()
        };
        let all: Vec<SampleOfNodes> = outcomes.iter().filter_map(of).collect();
        let of_job: Vec<[f64; 2]> = all.iter().filter_map(|of| *of.jobs.get(job)?).collect();
        let figure = |index: usize| mean(&of_job.iter().map(|of| of[index]).collect::<Vec<_>>());
        Some((f64::from(all.first()?.nodes), [figure(0)?, figure(1)?]))
    };
    let sizes: Vec<(f64, [f64; 2])> = (0..samples).filter_map(of_size).collect();
    let half = |index: usize| -> Option<f64> {
        half_width(&sizes.iter().map(|(nodes, of)| (*nodes, of[index])).collect::<Vec<_>>())
    };
    let (_, [time, _]) = *sizes.first()?;
    Some(SamplingError { time: half(0)? / time, share: half(1)? })
}

/// Returns the half-width of the 95 % interval around the value of the first sample, given the number of nodes and the value of
/// each; `None` for fewer than two samples.
///
/// The variance of a value is taken as inverse to the number of nodes. How much values of different sizes differ shows it, and
/// also a bias that small samples have.
fn half_width(samples: &[(f64, f64)]) -> Option<f64> {
    let (nodes, _) = *samples.first()?;
    let all: f64 = samples.iter().map(|(nodes, _)| nodes).sum();
    let mean = samples.iter().map(|(nodes, value)| nodes * value).sum::<f64>() / all;
    let squares = samples.iter().map(|(nodes, value)| nodes * (value - mean).powi(2)).sum::<f64>();
    let freedom = samples.len() as f64 - 1.0;
    Some(student_975(freedom)? * (squares / freedom / nodes).sqrt())
}

/// Returns the report's description of the simulated sample of nodes; `None` if all nodes were simulated.
pub(super) fn sampled(outcomes: &[Outcome], jobs: usize) -> Option<SampledReport> {
    let sampled = outcomes.first()?.sampled.as_ref()?;
    let errors: Vec<_> = (0..jobs).map(|job| sampling_error(outcomes, job)).collect();
    Some(SampledReport {
        nodes: sampled.samples.first()?.nodes,
        of: sampled.of,
        step_time: errors.iter().map(|error| Some((*error)?.time)).collect(),
        stall: errors.iter().map(|error| Some((*error)?.share)).collect(),
    })
}

impl SampledReport {
    /// Returns a warning if a step time of all nodes may be far from that of the sample.
    pub(super) fn warning(&self, jobs: &[JobReport]) -> Option<String> {
        let errors = jobs.iter().zip(&self.step_time);
        let known = errors.filter_map(|(job, error)| Some((job, (*error)?)));
        let (job, error) = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (error > FAR).then(|| {
            format!(
                "Step times of `{}` on all {} nodes may differ by {} from those of the {} that were simulated: run longer, or \
                 simulate more of them (`fidelity.nodes = {}`).",
                job.name,
                self.of,
                share(error),
                self.nodes,
                (4 * self.nodes).min(self.of)
            )
        })
    }

    /// Returns the sentence of a report that says how many nodes were simulated.
    pub(super) fn sentence(&self) -> String {
        let known = self.step_time.iter().flatten().copied().reduce(f64::max);
        let unknown = self.step_time.iter().any(Option::is_none);
        let error = match known.filter(|_| !unknown) {
            Some(error) => format!("by {} from theirs, which intervals include", share(error)),
            None => "from theirs by an unknown amount: the run is too short".to_owned(),
        };
        format!(
            "{} of {} nodes were simulated to represent all (`fidelity.nodes`): step times of all nodes may differ {error}.",
            self.nodes, self.of
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use rand_distr::StandardNormal;

    #[test]
    fn intervals_from_three_sizes_hold_the_value_of_all_nodes() {
        // System: values of 64, 32 and 16 nodes around 1, with a variance inverse to the number of nodes. Expectation: about 95 % of the
        // intervals hold 1.
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(3);
        let held = (0..4000).filter(|_| {
            let sizes = [64.0_f64, 32.0, 16.0];
            let value = |n: f64, g: &mut Xoshiro256PlusPlus| {
                1.0 + 0.1 * g.sample::<f64, _>(StandardNormal) / n.sqrt()
            };
            let samples: Vec<(f64, f64)> =
                sizes.iter().map(|n| (*n, value(*n, &mut generator))).collect();
            (samples[0].1 - 1.0).abs() <= half_width(&samples).expect("three sizes")
        });
        let share = held.count() as f64 / 4000.0;
        assert!((0.93..0.98).contains(&share), "{share}");
    }

    #[test]
    fn equal_values_of_all_sizes_have_no_error() {
        assert_eq!(half_width(&[(64.0, 2.0), (32.0, 2.0), (16.0, 2.0)]), Some(0.0));
    }
}
