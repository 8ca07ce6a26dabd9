//! Figures of the beginnings of epochs: how long ranks wait for their first batch, and how long the first step takes.

use super::figures::{EpochStart, EpochStarts, JobReport};
use super::format::{seconds, share};
use super::sample::{over_replications, with_quantiles};
use super::{FirstBatch, JobOutcome, StepOutcome};
use forebay_engine::stats::{mean, quantile};
use std::collections::BTreeMap;

/// Maximum number of epochs that are reported one by one.
const MOST_EPOCHS: usize = 100;

/// The ranks of a job copy at the beginning of an epoch.
#[derive(Debug, Clone, Default)]
struct Ranks {
    waits: Vec<f64>,
    /// Number of the first step, and the number of steps of the epoch.
    step: u64,
    steps: u64,
    /// Duration of the first step, if it was completed [s].
    first_step: Option<f64>,
    /// The whole epoch, if the run has it.
    whole: Option<Whole>,
}

/// A whole epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Whole {
    /// Duration [s].
    seconds: f64,
    samples: f64,
    samples_later: f64,
    /// Time that an accelerator computed in the first step, and in all later ones [s].
    first: f64,
    later: f64,
}

impl Ranks {
    fn slowest(&self) -> f64 {
        self.waits.iter().copied().fold(0.0, f64::max)
    }

    /// Returns computing over elapsed time without each rank's own first step, mean over ranks.
    fn utilisation(&self) -> Option<f64> {
        let Whole { seconds, first, later, .. } = self.whole?;
        let of_rank = |wait: &f64| later / (seconds - wait - first);
        (later > 0.0).then(|| mean(&self.waits.iter().map(of_rank).collect::<Vec<_>>()))?
    }

    fn samples_per_second(&self) -> Option<f64> {
        self.whole.filter(|of| of.seconds > 0.0).map(|of| of.samples / of.seconds)
    }

    /// Returns a figure of the epoch without its first step, for each second [1/s]; `None` if it has no other step.
    fn later(&self, of: impl Fn(Whole) -> f64) -> Option<f64> {
        let whole = self.whole.filter(|of| of.samples_later > 0.0)?;
        Some(of(whole) / (whole.seconds - self.first_step?))
    }
}

/// Returns the figures of the beginnings of epochs from a job's copies, grouped by replication; `None` if no rank has got a batch.
pub(super) fn epoch_starts(copies: &[Vec<&JobOutcome>]) -> Option<EpochStarts> {
    let replications: Vec<Vec<BTreeMap<u64, Ranks>>> =
        copies.iter().map(|copies| copies.iter().map(|copy| by_epoch(copy)).collect()).collect();
    let all = || replications.iter().flatten().flat_map(BTreeMap::values);
    let waits = sorted(all().flat_map(|ranks| &ranks.waits).copied().collect());
    if waits.is_empty() {
        return None;
    }
    let figure = |of: &dyn Fn(&Ranks) -> Option<f64>| {
        let one = |copies: &Vec<BTreeMap<u64, Ranks>>| {
            let values = copies.iter().flat_map(BTreeMap::values).filter_map(of);
            mean(&values.collect::<Vec<_>>())
        };
        over_replications(&replications.iter().filter_map(one).collect::<Vec<_>>())
    };
    let of_ranks = figure(&|ranks| mean(&ranks.waits));
    let mut epochs: BTreeMap<u64, Ranks> = BTreeMap::new();
    let mut first_steps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (epoch, ranks) in replications.iter().flatten().flatten() {
        epochs.entry(*epoch).or_default().waits.extend(&ranks.waits);
        first_steps.entry(*epoch).or_default().extend(ranks.first_step);
    }
    let each = epochs.into_iter().take(MOST_EPOCHS).map(|(epoch, ranks)| EpochStart {
        epoch,
        slowest: ranks.slowest(),
        median: quantile(&sorted(ranks.waits), 0.5).unwrap_or_default(),
        first_step: first_steps.get(&epoch).and_then(|steps| mean(steps)),
    });
    Some(EpochStarts {
        first_batch: with_quantiles(of_ranks, &waits),
        slowest_first_batch: figure(&|ranks| Some(ranks.slowest())),
        first_step: figure(&|ranks| ranks.first_step),
        mlperf_v1_utilisation: figure(&Ranks::utilisation),
        mlperf_v1_samples_per_second: figure(&Ranks::samples_per_second),
        mlperf_v2_utilisation: figure(&|ranks| ranks.later(|of| of.later)),
        mlperf_v2_samples_per_second: figure(&|ranks| ranks.later(|of| of.samples_later)),
        epochs: each.collect(),
    })
}

/// Returns the ranks of a job copy at the beginning of each epoch that it has begun. Epochs with failures have no steps one after the
/// other: of a copy that failed, only the waits count.
fn by_epoch(copy: &JobOutcome) -> BTreeMap<u64, Ranks> {
    let mut epochs: BTreeMap<u64, Ranks> = BTreeMap::new();
    for FirstBatch { epoch, step, steps, seconds, .. } in &copy.first_batches {
        let new = Ranks { step: *step, steps: *steps, ..Ranks::default() };
        let ranks = epochs.entry(*epoch).or_insert(new);
        ranks.waits.push(*seconds);
    }
    if copy.recovery.as_ref().is_some_and(|of| of.failures > 0) {
        return epochs;
    }
    let next: Vec<u64> = epochs.values().skip(1).map(|ranks| ranks.step).collect();
    let next = next.into_iter().chain([u64::MAX]);
    for (ranks, next) in epochs.values_mut().zip(next) {
        let until = ranks.step.saturating_add(ranks.steps).min(next);
        let before = ranks.step.checked_sub(1).and_then(|before| copy.steps.get(before as usize));
        let start = before.map_or(copy.start, |of| of.end);
        let Some(first) = copy.steps.get(ranks.step as usize) else { continue };
        ranks.first_step = Some(first.end - start);
        ranks.whole =
            copy.steps.get(ranks.step as usize..until as usize).and_then(|of| whole(of, start));
    }
    epochs
}

/// Returns the figures of an epoch of these steps that began at `start`.
fn whole(steps: &[StepOutcome], start: f64) -> Option<Whole> {
    let [first, later @ ..] = steps else { return None };
    let samples_later = later.iter().map(|of| of.samples).sum::<u64>() as f64;
    Some(Whole {
        seconds: later.last().unwrap_or(first).end - start,
        samples: first.samples as f64 + samples_later,
        samples_later,
        first: first.compute,
        later: later.iter().map(|of| of.compute).sum(),
    })
}

/// Returns a sentence on the first batches of a job whose ranks wait for them longer than for a second and for a step; `None` for others.
pub(super) fn line(job: &JobReport) -> Option<String> {
    let starts = job.epoch_starts.as_ref()?;
    let known = starts.mlperf_v1_utilisation.mean.zip(starts.mlperf_v2_utilisation.mean);
    let utilisation = known.map_or(String::new(), |(v1, v2)| {
        format!(
            " Utilisation by MLPerf Storage's rules: {} (v1.0), {} (from v2.0 on).",
            share(v1),
            share(v2)
        )
    });
    let (slowest, step) = (starts.slowest_first_batch.mean?, job.figures.step_time.mean?);
    (slowest > step.max(1.0)).then(|| {
        format!(
            "First batch of an epoch of `{}`: {} for half of the ranks, {} for the slowest; the first step takes {}.{utilisation}",
            job.name,
            starts.first_batch.p50.map_or("-".to_owned(), seconds),
            seconds(slowest),
            starts.first_step.mean.map_or("longer than the run".to_owned(), seconds)
        )
    })
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecoveryOutcome;

    #[test]
    fn mlperf_v1_leaves_out_each_ranks_own_first_step_and_charges_the_wait_for_the_slowest() {
        // System: two ranks that wait 1 and 4 s for their first batches, then three steps of 1 s, of which they compute 0.9 s. Expectation:
        // 7 s for 12 samples; 1.8 s of computing in 7 − 1 − 0.9 and in 7 − 4 − 0.9 s.
        let step = |end| StepOutcome { end, compute: 0.9, samples: 4, ..StepOutcome::default() };
        let first = |rank, seconds| FirstBatch { rank, seconds, steps: 3, ..FirstBatch::default() };
        let copy = JobOutcome {
            first_batches: vec![first(0, 1.0), first(1, 4.0)],
            steps: [5.0, 6.0, 7.0].map(step).to_vec(),
            ..JobOutcome::default()
        };
        let found = epoch_starts(&[vec![&copy]]).expect("first batches");
        assert_eq!(found.mlperf_v1_samples_per_second.mean, Some(12.0 / 7.0));
        let expected = (1.8 / 5.1 + 1.8 / 2.1) / 2.0;
        let utilisation = found.mlperf_v1_utilisation.mean.expect("steps");
        assert!((utilisation - expected).abs() < 1e-12, "{utilisation}, not {expected}");
        // From v2.0 on: eight samples and 1.8 s of computing in 2 s.
        assert_eq!(found.mlperf_v2_samples_per_second.mean, Some(4.0));
        assert_eq!(found.mlperf_v2_utilisation.mean, Some(0.9));
        // Of an epoch of four steps the run has three: not the whole.
        let mut part = copy.clone();
        part.first_batches.iter_mut().for_each(|of| of.steps = 4);
        let found = epoch_starts(&[vec![&part]]).expect("first batches");
        assert_eq!((found.first_step.mean, found.mlperf_v1_utilisation.mean), (Some(5.0), None));
        // A failure: steps that came again do not lie one after the other.
        let recovery = RecoveryOutcome { failures: 1, ..RecoveryOutcome::default() };
        let failed = JobOutcome { recovery: Some(recovery), ..copy };
        let found = epoch_starts(&[vec![&failed]]).expect("first batches");
        assert_eq!((found.slowest_first_batch.mean, found.first_step.mean), (Some(4.0), None));
    }

    #[test]
    fn ranks_that_wait_for_their_first_batches_give_a_median_a_slowest_and_a_first_step() {
        // System: three ranks that wait 1, 2 and 6 s in the first epoch and 0, 1 and 2 s in the second, whose first steps end at 7 and 20 s,
        // the second one 3 s after the step before.
        let first = |epoch, step, waits: [f64; 3]| {
            let of = FirstBatch { epoch, step, steps: 2, ..FirstBatch::default() };
            (0..).zip(waits).map(move |(rank, seconds)| FirstBatch { rank, seconds, ..of })
        };
        let ends = [7.0, 17.0, 20.0].map(|end| StepOutcome { end, ..StepOutcome::default() });
        let copy = JobOutcome {
            first_batches: first(0, 0, [1.0, 6.0, 2.0])
                .chain(first(1, 2, [0.0, 2.0, 1.0]))
                .collect(),
            steps: ends.to_vec(),
            ..JobOutcome::default()
        };
        let found = epoch_starts(&[vec![&copy]]).expect("first batches");
        assert_eq!(found.first_batch.mean, Some(2.0));
        assert_eq!(found.slowest_first_batch.mean, Some(4.0));
        assert_eq!(found.first_step.mean, Some(5.0));
        let each: Vec<_> =
            found.epochs.iter().map(|of| (of.median, of.slowest, of.first_step)).collect();
        assert_eq!(each, [(2.0, 6.0, Some(7.0)), (1.0, 2.0, Some(3.0))]);
        assert_eq!(epoch_starts(&[vec![&JobOutcome::default()]]), None);
    }
}
