//! Which steps of a job copy are measured: those behind the warm-up, while the cluster is as it was.

use super::window::{durations, first_epoch};
use super::{JobOutcome, Outcome};
use forebay_engine::stats::mser5;
use forebay_scenario::{Run, Stop, WarmUp};
use std::ops::Range;

/// Places at which the end of the warm-up is looked for, between the one by step times and the middle of the run.
const PLACES: usize = 24;

/// Share of a copy's steps that may lie behind the first end of a job copy and be left out.
const TAIL: usize = 10;

/// What may flow out of buffers beyond what flows in, relative to it, where the length of the run is written.
const DRAIN: f64 = 0.02;

/// Change of what buffers hold that does not matter, relative to what is taken out of them.
const LITTLE: f64 = 2e-4;

/// How often what loaders hold is replaced before figures count.
const TURNS: f64 = 2.0;

/// One in so many steps may be left out at the end for buffers to hold what they held at the beginning.
const LAST: usize = 20;

/// What decides which steps of a job's copies are measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule<'a> {
    /// How the run ends, and what is left out at the beginning.
    pub(super) run: &'a Run,
    /// Samples of the job's data set.
    pub(super) dataset: u64,
    /// Whether reads into its queue and takes out of it need not balance: trainers re-read the slots of a circular queue,
    /// and failures discard samples that were read.
    pub(super) loose: bool,
}

/// The steps of a job copy that figures are about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// Their indices.
    pub(super) steps: Range<usize>,
    /// Whether step times look level behind the warm-up.
    pub(super) level: bool,
    /// Share of the samples taken that came out of filled buffers instead of from reads; `None` if that is negligible.
    pub(super) drained: Option<f64>,
    /// Whether they include steps of the first epoch, when caches are still cold.
    pub(super) cold: bool,
}

impl Measured {
    /// Those of a copy, none of which ends behind `until` [s].
    pub(super) fn new(copy: &JobOutcome, rule: Rule, until: f64) -> Measured {
        let end = last_before(copy, until);
        match rule.run.warm_up {
            WarmUp::Off => {
                Measured { steps: 0..copy.steps.len(), level: true, drained: None, cold: false }
            }
            WarmUp::Steps(n) => {
                let n = usize::try_from(n).unwrap_or(usize::MAX).min(end);
                let level = n <= end / 2;
                let n = n.max(cold_epoch(copy, rule, end));
                let steps = rule.as_full_as_before(copy, n..end);
                let drained = rule.drained(copy, steps.clone());
                let cold = rule.is_cold(copy, n);
                Measured { steps, level, drained, cold }
            }
            WarmUp::Auto => {
                let found = mser5(&durations(copy)[..end]);
                let turned_over = rule.turned_over(copy, end);
                let least = found.values.max(turned_over).max(cold_epoch(copy, rule, end));
                let balanced = |from: &usize| rule.balanced(copy, *from..end);
                let from = places(least, end).find(balanced).unwrap_or(least);
                let steps = rule.as_full_as_before(copy, from..end);
                let drained = rule.drained(copy, steps.clone());
                Measured { steps, level: found.settled, drained, cold: rule.is_cold(copy, from) }
            }
        }
    }
}

impl Rule<'_> {
    /// Steps of a copy until a node that keeps what it reads has read the data set once: 0 where none does.
    pub(super) fn cold_steps(&self, copy: &JobOutcome) -> usize {
        if copy.keeps_data() { first_epoch(copy, self.dataset) } else { 0 }
    }

    /// Whether steps from `from` on are those of an epoch that later ones differ from, though the run was to show what lasts.
    fn is_cold(&self, copy: &JobOutcome, from: usize) -> bool {
        matches!(self.run.stop, Stop::Known { .. }) && from < self.cold_steps(copy)
    }

    /// Steps until the trainers have taken twice the samples that the loader held at first; 0 if that takes half of the run.
    /// Workers start in lockstep with empty or full buffers, which never happens again.
    fn turned_over(&self, copy: &JobOutcome, end: usize) -> usize {
        let most = end / 2;
        if self.loose {
            return 0;
        }
        let twice = |n: usize| {
            let (read, taken) = flows(copy, 0..n);
            taken >= TURNS * (read - taken).abs()
        };
        // At the end of one epoch loaders hold nothing: what counts is how much they held when they were fullest.
        let last_short = (1..=most).rev().find(|&n| !twice(n));
        last_short.filter(|&n| n < most).unwrap_or(0)
    }

    /// What one flow may exceed the other by, in samples, where `taken` flow out.
    fn allowed(&self, copy: &JobOutcome, taken: f64) -> f64 {
        // Whole batches come and go.
        let batch = copy.steps.last().map_or(0, |step| step.samples) as f64;
        match self.run.stop {
            Stop::Known { precision, .. } => precision * taken,
            Stop::Steps(_) | Stop::Epochs(_) | Stop::Duration(_) => DRAIN * taken + batch,
        }
    }

    /// Drops up to one step in [`LAST`] at the end, so that the loader's buffers hold as many samples at the end as at the
    /// start. Samples taken then equal samples read, and a short run cannot look faster than its storage. Drops nothing
    /// if the run ends with its data, or if the buffers are within [`LITTLE`] anyway.
    fn as_full_as_before(&self, copy: &JobOutcome, steps: Range<usize>) -> Range<usize> {
        let change = |end: usize| {
            let (read, taken) = flows(copy, steps.start..end);
            (taken - read).abs() / taken.max(1.0)
        };
        let keeps = self.loose || matches!(self.run.stop, Stop::Epochs(_));
        if keeps || change(steps.end) <= LITTLE {
            return steps;
        }
        let first = steps.end - steps.len() / LAST;
        let ends = (first..=steps.end).rev();
        let end = ends.min_by(|&a, &b| change(a).total_cmp(&change(b))).unwrap_or(steps.end);
        steps.start..end
    }

    /// Whether the loader's buffers neither fill nor drain.
    fn balanced(&self, copy: &JobOutcome, steps: Range<usize>) -> bool {
        let (read, taken) = flows(copy, steps);
        self.loose || (taken - read).abs() <= self.allowed(copy, taken)
    }

    /// How much they drain, relative to what is taken, if more than is allowed.
    fn drained(&self, copy: &JobOutcome, steps: Range<usize>) -> Option<f64> {
        let (read, taken) = flows(copy, steps);
        let drains = !self.loose && taken - read > self.allowed(copy, taken);
        drains.then(|| (taken - read) / taken)
    }
}

impl Outcome {
    /// When the first job copy ended that others were to outlast by their last steps only [s]; infinite where runs end otherwise.
    pub(super) fn first_end(&self, run: &Run) -> f64 {
        let ends = self.jobs.iter().filter_map(|copy| copy.steps.last()).map(|step| step.end);
        if matches!(run.stop, Stop::Steps(_)) {
            ends.fold(f64::INFINITY, f64::min)
        } else {
            f64::INFINITY
        }
    }
}

impl JobOutcome {
    /// Whether a node keeps what was read, so that later epochs differ from the first one.
    fn keeps_data(&self) -> bool {
        !(self.cache.is_empty() && self.tiers.is_empty() && self.decoded.is_empty())
    }
}

/// The number of steps that end by `until`, or all of them where a tenth or more would be left out: then copies do not just
/// finish one after the other.
fn last_before(copy: &JobOutcome, until: f64) -> usize {
    let all = copy.steps.len();
    let inside = copy.steps.partition_point(|step| step.end <= until);
    if (all - inside) * TAIL < all { inside } else { all }
}

/// The steps of the first epoch, where later ones differ and the run was to show what lasts.
fn cold_epoch(copy: &JobOutcome, rule: Rule, end: usize) -> usize {
    let first = rule.cold_steps(copy);
    if matches!(rule.run.stop, Stop::Known { .. }) && first < end { first } else { 0 }
}

/// Ends of the warm-up to try, in order.
fn places(least: usize, end: usize) -> impl Iterator<Item = usize> {
    let most = (end / 2).max(least);
    let mut tried: Vec<usize> = (0..=PLACES).map(|i| least + (most - least) * i / PLACES).collect();
    tried.dedup();
    tried.into_iter()
}

/// Samples that the loaders of a copy began to read within a range of steps, and those that its model copies took.
pub(super) fn flows(copy: &JobOutcome, steps: Range<usize>) -> (f64, f64) {
    let totals = |step: usize| {
        let before = step.checked_sub(1).and_then(|before| copy.steps.get(before));
        before.map_or((0, 0), |step| (step.queue.started, step.queue.dequeued))
    };
    let ((read_before, taken_before), (read, taken)) = (totals(steps.start), totals(steps.end));
    (read.saturating_sub(read_before) as f64, taken.saturating_sub(taken_before) as f64)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::copy;
    use super::*;

    /// A copy of 200 steps of 0.1 s that take 10 samples each; `read` gives the samples read in a step.
    fn reading(read: impl Fn(usize) -> u64) -> JobOutcome {
        let mut copy = copy(200, 0.1);
        let mut started = 0;
        for (i, step) in copy.steps.iter_mut().enumerate() {
            started += read(i);
            step.queue.started = started;
        }
        copy
    }

    fn measured(copy: &JobOutcome, stop: Stop, warm_up: WarmUp) -> Measured {
        let run = Run { stop, warm_up, replications: 1, seed: 1 };
        let rule = Rule { run: &run, dataset: 1_000_000, loose: false };
        Measured::new(copy, rule, f64::INFINITY)
    }

    #[test]
    fn buffers_that_drain_are_told_by_how_much() {
        // System: 1,000 samples are read before the first step, 5 in each. Expectation: half of what is taken was there.
        let copy = reading(|step| if step == 0 { 1000 } else { 5 });
        for warm_up in [WarmUp::Auto, WarmUp::Steps(50)] {
            let found = measured(&copy, Stop::Steps(200), warm_up);
            assert!((found.drained.expect("they drain") - 0.5).abs() < 0.01, "{found:?}");
        }
        assert_eq!(measured(&copy, Stop::Steps(200), WarmUp::Off).drained, None);
        let even = reading(|_| 10);
        assert_eq!(measured(&even, Stop::Steps(200), WarmUp::Auto).drained, None);
    }

    #[test]
    fn the_warm_up_ends_when_what_was_held_at_first_has_been_taken_twice() {
        // System: 200 samples are read before the first step, then as many as are taken: all steps take as long.
        let copy = reading(|step| if step == 0 { 210 } else { 10 });
        let found = measured(&copy, Stop::Steps(200), WarmUp::Auto);
        assert_eq!((found.steps.clone(), found.drained), (39..200, None), "{found:?}");
        // Buffers that are larger than half of the run were never turned over: nothing is known of that.
        let large = reading(|step| if step == 0 { 5010 } else { 10 });
        assert!(measured(&large, Stop::Steps(200), WarmUp::Auto).steps.start < 10);
    }

    #[test]
    fn the_warm_up_lasts_until_buffers_are_full() {
        // System: in the first 60 steps 15 samples are read for 10 that are taken. Expectation: those are left out.
        let copy = reading(|step| if step < 60 { 15 } else { 10 });
        let found = measured(&copy, Stop::Steps(200), WarmUp::Auto);
        assert!((50..=100).contains(&found.steps.start), "{found:?}");
    }

    #[test]
    fn steps_behind_the_end_of_another_copy_are_left_out_where_they_are_few() {
        let copy = reading(|_| 10);
        let run = Run { stop: Stop::Steps(200), warm_up: WarmUp::Auto, replications: 1, seed: 1 };
        let rule = Rule { run: &run, dataset: 1_000_000, loose: false };
        // Steps end at 1.1, 1.2, … 21 s.
        assert_eq!(Measured::new(&copy, rule, 20.05).steps.end, 190);
        assert_eq!(Measured::new(&copy, rule, 15.0).steps.end, 200);
    }
}
