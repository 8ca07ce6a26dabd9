//! Selects the steps of a job copy that are measured: those after the warm-up and before the first job copy ends.

use super::periods::{self, Anchor, Period, are_even};
use super::window::{durations, first_epoch};
use super::{JobOutcome, Outcome};
use forebay_engine::stats::{mser5, quantile};
use forebay_scenario::{Job, Layout, QueueKind, Run, Scenario, Stop, WarmUp};
use std::ops::Range;

/// Number of steps that are tried as the end of the warm-up, evenly spaced between the end found from step times and the middle
/// of the run.
const PLACES: usize = 24;

/// The last steps of a copy, which end after the first job copy has ended, may be left out if they are fewer than 1 in this many
/// steps of the copy.
const TAIL: usize = 10;

/// Maximum difference between the samples taken out of buffers and those read into them, relative to the samples taken, if the
/// scenario sets the length of the run; also the share of a data set up to which caches that keep it make no difference, and
/// the share of time up to which a written run may leave out what it should hold.
pub(super) const TOLERATED: f64 = 0.02;

/// Change in the number of samples in buffers, relative to the samples taken out, up to which the change is negligible.
const LITTLE: f64 = 2e-4;

/// Share of time up to which waits for requests are negligible: half of the default precision of a run of automatic length.
const LITTLE_WAIT: f64 = 0.0025;

/// Number of times that the content of the loaders' buffers must be replaced before steps are measured.
const TURNS: f64 = 2.0;

/// Number of consecutive steps without a stall from which on step times count as level, where stalls are seldom.
const QUIET: usize = 8;

/// Stalls are seldom if at most 1 in this many steps is held up.
const SELDOM: usize = 8;

/// Maximum relative difference from the usual (median) step time up to which a step counts as not held up.
const ALIKE: f64 = 0.02;

/// At most 1 in this many steps is left out at the end of the measured steps, so that buffers then hold as many samples as at the
/// beginning.
const LAST: usize = 20;

/// Settings that decide which steps of a job's copies are measured.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// Settings of the run: how it ends, and which warm-up is left out at the beginning.
    pub(super) run: Run,
    /// Samples of an epoch.
    pub(super) dataset: u64,
    /// Whether the samples read into the job's queue and those taken out of it may differ in number: trainers read the slots of
    /// a circular queue repeatedly, and failures discard samples that were read.
    pub(super) loose: bool,
    /// What the job does again and again.
    pub(super) periods: Vec<Period>,
    /// Samples that workers hold in addition to those that they have begun to read: a worker that reads a row group, or a large
    /// part of a shard, reads nothing until it has used all of its samples.
    pub(super) in_requests: f64,
    /// Number of workers that hold them.
    pub(super) readers: f64,
    /// Whether caches may keep more of the data set than [`TOLERATED`].
    pub(super) caches: bool,
    /// Indices of the other jobs that use the same storage or nodes, and whose queues are bounded, with their periods.
    pub(super) others: Vec<(usize, Vec<Period>)>,
}

/// The measured steps of a job copy, from which its figures are computed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    /// Indices of the measured steps.
    pub(super) steps: Range<usize>,
    /// If the measured steps are whole periods, the start of the first and the end of each; otherwise empty.
    pub(super) ends: Vec<usize>,
    /// Whether step times have settled after the warm-up.
    pub(super) level: bool,
    /// Samples that the loader's buffers lost in the measured steps, relative to the samples taken, below 0 if they filled;
    /// `None` if this share is negligible.
    pub(super) lost: Option<f64>,
    /// Whether the measured steps include steps of the first epoch, when caches are still cold.
    pub(super) cold: bool,
    /// Whether the buffers of each of the other jobs neither filled nor drained during the measured steps.
    pub(super) others_balanced: bool,
    /// By how much the mean step time may be wrong because the measured steps hold parts of periods, as a share.
    pub(super) edges: f64,
}

impl Measured {
    /// Selects the measured steps of a copy. With a warm-up, steps that end after `until` [s] are left out if they are few.
    /// `others` are the copies of each of the rule's other jobs.
    pub(super) fn new(
        copy: &JobOutcome,
        rule: &Rule,
        until: f64,
        others: &[Vec<&JobOutcome>],
    ) -> Measured {
        let end = last_before(copy, until);
        let (from, level) = match rule.run.warm_up {
            WarmUp::Off => {
                return Measured {
                    steps: 0..copy.steps.len(),
                    ends: Vec::new(),
                    level: true,
                    lost: None,
                    cold: false,
                    others_balanced: true,
                    edges: 0.0,
                };
            }
            WarmUp::Steps(n) => {
                let n = usize::try_from(n).unwrap_or(usize::MAX).min(end);
                (n.max(cold_epoch(copy, rule, end)), n <= end / 2)
            }
            WarmUp::Auto => {
                let durations = rule.without_periods(copy, end);
                let found = mser5(&durations);
                let quiet = first_quiet(&durations, found.values);
                let turned_over = rule.turned_over(copy, end);
                let least = quiet.max(turned_over).max(cold_epoch(copy, rule, end));
                let balanced = |from: &usize| {
                    rule.balanced(copy, *from..end)
                        && rule.others_balanced(copy, *from..end, others)
                };
                (places(least, end).find(balanced).unwrap_or(least), found.settled)
            }
        };
        let of = |anchor| periods::whole(copy, &rule.periods, &(from..end), anchor);
        let ends = match (rule.run.warm_up, rule.run.stop) {
            (WarmUp::Steps(_), Stop::Known { .. }) => of(Anchor::First),
            // The scenario says which steps are measured.
            (WarmUp::Steps(_), _) => Vec::new(),
            (WarmUp::Auto | WarmUp::Off, _) => of(Anchor::Last),
        };
        let (steps, ends) = rule.as_full_as_before(copy, from..end, ends);
        let by_others = rule.others.iter().zip(others).flat_map(|((_, periods), copies)| {
            copies.iter().map(move |copy| (*copy, &periods[..]))
        });
        let by: Vec<_> = [(copy, &rule.periods[..])].into_iter().chain(by_others).collect();
        Measured {
            ends,
            edges: periods::edges(copy, &steps, &by),
            level,
            lost: rule.lost(copy, steps.clone()),
            cold: rule.is_cold(copy, steps.start),
            others_balanced: rule.others_balanced(copy, steps.clone(), others),
            steps,
        }
    }
}

impl Rule {
    /// Returns the rule for the copies of job number `index`.
    pub(super) fn of_job(scenario: &Scenario, index: usize) -> Rule {
        let job = &scenario.jobs[index];
        let others = (0..scenario.jobs.len()).filter(|other| {
            *other != index
                && share_something(scenario, [job, &scenario.jobs[*other]])
                && !ranks_may_diverge(&scenario.jobs[*other])
        });
        Rule {
            run: Run { stop: scenario.stop_of(job), ..scenario.run.clone() },
            dataset: scenario.samples_of_epoch(job),
            loose: ranks_may_diverge(job),
            periods: periods::of_job(scenario, job),
            in_requests: readers(job) * read_at_once(scenario, job),
            readers: readers(job),
            caches: periods::kept_share(scenario, job) > TOLERATED,
            others: others
                .map(|other| (other, periods::of_job(scenario, &scenario.jobs[other])))
                .collect(),
        }
    }

    /// Returns those of all job copies that are of one of the rule's other jobs, job by job.
    pub(super) fn other_copies<'o>(&self, all: &'o [JobOutcome]) -> Vec<Vec<&'o JobOutcome>> {
        let of = |(job, _): &(usize, _)| all.iter().filter(|copy| copy.job == *job).collect();
        self.others.iter().map(of).collect()
    }

    /// Returns the number of steps of a copy's first epoch, in which caches are cold; 0 if nodes cache nothing.
    pub(super) fn cold_steps(&self, copy: &JobOutcome) -> usize {
        if self.caches && copy.keeps_data() { first_epoch(copy, self.dataset) } else { 0 }
    }

    /// Whether step `from` lies in the first epoch, when caches are cold.
    fn is_cold(&self, copy: &JobOutcome, from: usize) -> bool {
        from < self.cold_steps(copy)
    }

    /// Returns the durations of the first `end` steps, less what recurs: from each duration is taken by how much steps at the same
    /// place of all periods take longer than the mean. If the steps hold no two equal periods, returns the durations.
    fn without_periods(&self, copy: &JobOutcome, end: usize) -> Vec<f64> {
        let mut durations = durations(copy);
        durations.truncate(end);
        let ends = periods::whole(copy, &self.periods, &(0..end), Anchor::Last);
        if ends.len() <= 2 || !are_even(&ends) {
            return durations;
        }
        let rest = without_places(&durations, &ends);
        let mean = durations.iter().sum::<f64>() / end as f64;
        rest.iter().map(|rest| mean + rest).collect()
    }
    /// Returns the number of samples of requests that workers of a copy hold, which its measured `steps` have to replace: 0 if reading
    /// them again takes so little time that trainers may wait for it each time without a difference. It takes about as long as the
    /// first step waited beyond the measured ones.
    pub(super) fn to_replace(&self, copy: &JobOutcome, steps: &Range<usize>) -> f64 {
        let all = durations(copy);
        let waits = |step: usize| all[step] - copy.steps[step].compute;
        let usual = steps.clone().map(waits).sum::<f64>() / steps.len().max(1) as f64;
        let waited = if all.is_empty() { 0.0 } else { (waits(0) - usual).max(0.0) };
        let time = |step: usize| step.checked_sub(1).map_or(copy.start, |i| copy.steps[i].end);
        let rate = flows(copy, steps.clone()).1 / (time(steps.end) - time(steps.start));
        let lasts = self.in_requests / rate;
        if self.readers * waited <= LITTLE_WAIT * lasts { 0.0 } else { self.in_requests }
    }

    /// Returns the number of first steps during which the trainers have not yet taken [`TURNS`] times the samples by which the
    /// loader's content has changed since the start, samples of requests included. Returns 0 if this lasts for half of the run, or
    /// if the numbers of samples read and taken may differ. Workers start in lockstep with empty or full buffers, a state that does not recur.
    fn turned_over(&self, copy: &JobOutcome, end: usize) -> usize {
        let most = end / 2;
        if self.loose {
            return 0;
        }
        let twice = |n: usize| {
            let (read, taken) = flows(copy, 0..n);
            taken >= TURNS * ((read - taken).abs() + self.in_requests)
        };
        // At the end of one epoch loaders hold nothing: what counts is how much they held when they were fullest.
        let last_short = (1..=most).rev().find(|&n| !twice(n));
        last_short.filter(|&n| n < most).unwrap_or(0)
    }

    /// Returns the maximum difference between the samples read and the `taken` samples at which buffers still count as balanced.
    fn allowed(&self, copy: &JobOutcome, taken: f64) -> f64 {
        // Buffers receive and release whole batches.
        let batch = copy.steps.last().map_or(0, |step| step.samples) as f64;
        match self.run.stop {
            Stop::Known { precision, .. } => precision * taken,
            Stop::Steps(_) | Stop::Epochs(_) | Stop::Duration(_) => TOLERATED * taken + batch,
        }
    }

    /// Drops up to one step in [`LAST`] at the end, so that the loader's buffers hold as many samples at the end as at the start.
    /// Samples taken then equal samples read, and a short run cannot look faster than its storage. Drops nothing if the run ends
    /// after whole epochs, if the numbers of samples read and taken may differ, or if the buffers' content changes by no more
    /// than [`LITTLE`] anyway. If `steps` hold whole periods, with these `ends`, drops what is beyond, and then only whole periods.
    /// Returns the ends that are left, too.
    fn as_full_as_before(
        &self,
        copy: &JobOutcome,
        steps: Range<usize>,
        mut ends: Vec<usize>,
    ) -> (Range<usize>, Vec<usize>) {
        let steps = match ends[..] {
            [start, .., end] => start..end,
            _ => steps,
        };
        let change = |end: usize| {
            let (read, taken) = flows(copy, steps.start..end);
            (taken - read).abs() / taken.max(1.0)
        };
        let keeps = self.loose || matches!(self.run.stop, Stop::Epochs(_));
        if keeps || change(steps.end) <= LITTLE {
            return (steps, ends);
        }
        let first = steps.end - steps.len() / LAST;
        let places: Vec<usize> = match ends.is_empty() {
            true => (first..=steps.end).rev().collect(),
            false => ends.iter().rev().copied().take_while(|end| *end >= first).collect(),
        };
        let best = places.into_iter().min_by(|&a, &b| change(a).total_cmp(&change(b)));
        let end = best.unwrap_or(steps.end);
        ends.retain(|of| *of <= end);
        (steps.start..end, ends)
    }

    /// Whether the loader's buffers neither fill nor drain.
    fn balanced(&self, copy: &JobOutcome, steps: Range<usize>) -> bool {
        let (read, taken) = flows(copy, steps);
        self.loose || (taken - read).abs() <= self.allowed(copy, taken)
    }

    /// Returns how many samples the loader's buffers lost, relative to the samples taken, below 0 if they filled; `None` if the
    /// share is within the allowed difference.
    fn lost(&self, copy: &JobOutcome, steps: Range<usize>) -> Option<f64> {
        let (read, taken) = flows(copy, steps);
        let changes = !self.loose && (taken - read).abs() > self.allowed(copy, taken);
        changes.then(|| (taken - read) / taken)
    }

    /// Whether the buffers of each of the `others` neither fill nor drain during these steps of a copy.
    fn others_balanced(
        &self,
        copy: &JobOutcome,
        steps: Range<usize>,
        others: &[Vec<&JobOutcome>],
    ) -> bool {
        let time = |step: usize| step.checked_sub(1).map_or(copy.start, |i| copy.steps[i].end);
        let (start, end) = (time(steps.start), time(steps.end));
        let balanced = |copies: &Vec<&JobOutcome>| {
            let during = |other: &&JobOutcome| {
                let at = |time: f64| other.steps.partition_point(|step| step.end <= time);
                let steps = at(start)..at(end);
                let (read, taken) = flows(other, steps);
                (read - taken, self.allowed(other, taken))
            };
            let sums = copies.iter().map(during).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
            sums.0.abs() <= sums.1
        };
        others.iter().all(balanced)
    }
}

/// Whether two jobs read or write the same storage, or run on the same nodes.
fn share_something(scenario: &Scenario, [one, other]: [&Job; 2]) -> bool {
    let uses = |job, index| scenario.uses(job, index).any();
    let mut storages = 0..scenario.storage.len();
    scenario.cluster.share_nodes || storages.any(|index| uses(one, index) && uses(other, index))
}

/// Whether the samples read into a job's queue and those taken out of it may differ in number: the queue is circular, or the
/// job may fail.
pub(super) fn ranks_may_diverge(job: &Job) -> bool {
    job.queue == QueueKind::Circular || job.failures.is_some()
}

/// Returns the number of workers of a copy's loaders that read.
fn readers(job: &Job) -> f64 {
    let workers = job.loader.stages.first().map_or(0, |stage| stage.workers);
    f64::from(workers) * f64::from(job.loaders())
}

/// Returns the number of samples that a worker reads at once: those of a row group, or of a request for a part of a shard. 0 if
/// samples are read one by one.
fn read_at_once(scenario: &Scenario, job: &Job) -> f64 {
    let dataset = &scenario.datasets[job.dataset];
    let at_once = match dataset.layout {
        Layout::FilePerSample | Layout::OneFile { .. } => 0.0,
        Layout::Shards { samples_per_shard, request, .. } => {
            (request / dataset.mean_read()).floor().min(samples_per_shard as f64)
        }
        Layout::RowGroups(groups) => groups.samples.min(dataset.samples) as f64,
    };
    if at_once > 1.0 && job.reads_data() { at_once } else { 0.0 }
}

impl Outcome {
    /// Returns when the first job copy ended [s], after which the others have the cluster for themselves; infinite unless runs
    /// end after a number of steps.
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
    /// Whether a node caches what was read, so that later epochs differ from the first one.
    fn keeps_data(&self) -> bool {
        !(self.cache.is_empty() && self.tiers.is_empty() && self.decoded.is_empty())
    }
}

/// Returns the number of steps that end by `until`. If a tenth of all steps or more end later, returns the number of all steps:
/// the copies then do not just finish shortly after one another.
fn last_before(copy: &JobOutcome, until: f64) -> usize {
    let all = copy.steps.len();
    let inside = copy.steps.partition_point(|step| step.end <= until);
    if (all - inside) * TAIL < all { inside } else { all }
}

/// Returns the number of steps of the first epoch, if later epochs differ from it and the run is to show the long-run rate;
/// otherwise 0.
fn cold_epoch(copy: &JobOutcome, rule: &Rule, end: usize) -> usize {
    let first = rule.cold_steps(copy);
    if matches!(rule.run.stop, Stop::Known { .. }) && first < end { first } else { 0 }
}

/// Returns the number of initial steps to leave out before step times are level, at most the `found` steps that MSER-5 leaves
/// out. Where nearly all steps take equally long and only some are held up, MSER-5 tends to leave out everything up to the last
/// long stall, so that too few stalls are measured. In this case, step times count as level from the first [`QUIET`] successive
/// steps that all take about the median time of the steps after `found`.
fn first_quiet(durations: &[f64], found: usize) -> usize {
    let rest = &durations[found..];
    let mut sorted = rest.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(usual) = quantile(&sorted, 0.5) else { return found };
    let quiet = |step: &f64| (step - usual).abs() <= ALIKE * usual;
    let held_up = rest.iter().filter(|step| !quiet(step)).count();
    if held_up * SELDOM > rest.len() {
        return found;
    }
    let mut stretches = durations[..found].windows(QUIET);
    stretches.position(|steps| steps.iter().all(quiet)).unwrap_or(found)
}

/// Returns the steps to try as the end of the warm-up, in ascending order.
fn places(least: usize, end: usize) -> impl Iterator<Item = usize> {
    let most = (end / 2).max(least);
    let mut tried: Vec<usize> = (0..=PLACES).map(|i| least + (most - least) * i / PLACES).collect();
    tried.dedup();
    tried.into_iter()
}

/// Returns the values of steps less the mean value at the same place of all periods with these ends; 0 beside the periods.
pub(super) fn without_places(values: &[f64], ends: &[usize]) -> Vec<f64> {
    let longest = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    let mut means = vec![(0.0, 0.0); longest];
    let places = || ends.windows(2).flat_map(|pair| (pair[0]..pair[1]).enumerate());
    for (place, step) in places() {
        means[place] = (means[place].0 + values[step], means[place].1 + 1.0);
    }
    let mut rest = vec![0.0; values.len()];
    places().for_each(|(place, step)| rest[step] = values[step] - means[place].0 / means[place].1);
    rest
}

/// Returns the samples that the loaders of a copy began to read within a range of steps, and the samples that its model copies
/// took.
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

    /// Returns a copy of 200 steps of 0.1 s that take 10 samples each; `read` gives the number of samples read in a step.
    fn reading(read: impl Fn(usize) -> u64) -> JobOutcome {
        let mut copy = copy(200, 0.1);
        let mut started = 0;
        for (i, step) in copy.steps.iter_mut().enumerate() {
            started += read(i);
            step.queue.started = started;
        }
        copy
    }

    fn rule(stop: Stop, warm_up: WarmUp) -> Rule {
        Rule {
            run: Run { stop, warm_up, replications: 1, seed: 1 },
            dataset: 1_000_000,
            loose: false,
            periods: Vec::new(),
            in_requests: 0.0,
            readers: 0.0,
            caches: false,
            others: Vec::new(),
        }
    }

    fn measured(copy: &JobOutcome, stop: Stop, warm_up: WarmUp) -> Measured {
        Measured::new(copy, &rule(stop, warm_up), f64::INFINITY, &[])
    }

    #[test]
    fn draining_of_buffers_is_reported_as_a_share_of_samples_taken() {
        // System: 1,000 samples are read before the first step, 5 in each step. Expectation: half of the samples taken come out
        // of filled buffers.
        let copy = reading(|step| if step == 0 { 1000 } else { 5 });
        for warm_up in [WarmUp::Auto, WarmUp::Steps(50)] {
            let found = measured(&copy, Stop::Steps(200), warm_up);
            assert!((found.lost.expect("they drain") - 0.5).abs() < 0.01, "{found:?}");
        }
        assert_eq!(measured(&copy, Stop::Steps(200), WarmUp::Off).lost, None);
        let even = reading(|_| 10);
        assert_eq!(measured(&even, Stop::Steps(200), WarmUp::Auto).lost, None);
    }

    #[test]
    fn a_long_stall_does_not_make_the_steps_before_it_warm_up() {
        // System: steps of 0.1 s of which the first three take twice as long, and a stall of half a second at step 80. Expectation:
        // the warm-up is the slow beginning, not all steps up to the stall.
        let lasting = |step: usize| match step {
            0..3 => 0.2,
            80 => 0.6,
            _ => 0.1,
        };
        let steps: Vec<f64> = (0..200).map(lasting).collect();
        assert!(mser5(&steps).values > 80);
        assert_eq!(first_quiet(&steps, mser5(&steps).values), 3);
        // Step times that fall to their level are no stalls.
        let falls: Vec<f64> =
            (0..200).map(|step| 0.1 + 0.1 * (-f64::from(step) / 9.0).exp()).collect();
        assert!(first_quiet(&falls, mser5(&falls).values) >= 30);
    }

    #[test]
    fn the_warm_up_ends_after_twice_the_initially_buffered_samples_are_trained_on() {
        // System: 200 samples are read before the first step, then as many as are taken: all steps take as long.
        let copy = reading(|step| if step == 0 { 210 } else { 10 });
        let found = measured(&copy, Stop::Steps(200), WarmUp::Auto);
        assert_eq!((found.steps.clone(), found.lost), (39..200, None), "{found:?}");
        // If the content of the buffers is not replaced within half of the run, no steps are left out for its replacement.
        let large = reading(|step| if step == 0 { 5010 } else { 10 });
        assert!(measured(&large, Stop::Steps(200), WarmUp::Auto).steps.start < 10);
    }

    #[test]
    fn the_warm_up_lasts_while_buffers_are_still_filling() {
        // System: in the first 60 steps 15 samples are read for 10 that are taken. Expectation: these steps are left out.
        let copy = reading(|step| if step < 60 { 15 } else { 10 });
        let found = measured(&copy, Stop::Steps(200), WarmUp::Auto);
        assert!((50..=100).contains(&found.steps.start), "{found:?}");
    }

    #[test]
    fn a_few_steps_after_another_job_copy_has_ended_are_excluded() {
        let copy = reading(|_| 10);
        let rule = rule(Stop::Steps(200), WarmUp::Auto);
        // Steps end at 1.1, 1.2, … 21 s.
        assert_eq!(Measured::new(&copy, &rule, 20.05, &[]).steps.end, 190);
        assert_eq!(Measured::new(&copy, &rule, 15.0, &[]).steps.end, 200);
    }
}
