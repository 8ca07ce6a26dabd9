//! What a job does again and again, less often than in each step: the ends of epochs, exchanges, checkpoints, failures.
//!
//! This is the one list of a job's periods. The measured steps hold a whole number of the rarest period that they hold at
//! all ([`whole`]), a run of automatic length goes on until it holds enough of each ([`Known`](super::Known)), and what a run
//! does not hold is named in the report.

use super::JobOutcome;
use super::format::{count, seconds};
use forebay_scenario::{Every, FailureTimes, Job, Scenario};
use std::ops::Range;

/// Share of an epoch's time up to which the end of an epoch is negligible: half of the default precision of a run of automatic length.
const LITTLE: f64 = 0.0025;

/// Number of occurrences in a run of automatic length, unless the period is [`Spacing::is_even`] and the longest: the
/// incomplete period at the edge of the measured steps is then at most a tenth of them, and failures make an average.
const ENOUGH: f64 = 10.0;

/// Number of whole periods in a run of automatic length, at least: with one, nothing says how much two differ.
const LEAST: f64 = 2.0;

/// A written run stands for runs up to this many times as long: it has to hold what recurs more often than once in them.
const STANDS_FOR: f64 = 10.0;

/// Something that a job does again and again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Period {
    pub(super) what: Recurring,
    pub(super) spacing: Spacing,
    /// Upper bound of the share of time that it costs; infinite if there is no estimate.
    pub(super) cost: f64,
}

/// What recurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recurring {
    /// The end of an epoch: the loader's workers have nothing more to read, or restart, and its buffers fill again; caches
    /// know which data of the epoch they hold.
    Epoch,
    /// An exchange of gradients, parameters or models.
    Exchange,
    /// An update of the parameters from the gradients of several steps.
    Update,
    /// A checkpoint.
    Checkpoint,
    /// A failure of some node of a job copy.
    Failure,
}

/// Distance from one occurrence to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spacing {
    /// Number of steps.
    Steps(u64),
    /// Number of samples that are trained on for the first time in their epoch.
    Fresh(u64),
    /// Time [s], the mean if occurrences are random.
    Seconds(f64),
}

impl Spacing {
    /// Whether each occurrence is as many steps after the one before.
    fn is_even(self) -> bool {
        match self {
            Spacing::Steps(_) | Spacing::Fresh(_) => true,
            Spacing::Seconds(_) => false,
        }
    }
}

/// Returns the periods of a job.
pub(super) fn of_job(scenario: &Scenario, job: &Job) -> Vec<Period> {
    let exchange = job.interval();
    let averaging = job.sync.as_ref().and_then(|sync| sync.averaging);
    let steps = |what, every: u64| {
        (every > 1).then_some(Period { what, spacing: Spacing::Steps(every), cost: f64::INFINITY })
    };
    let periods = [
        epoch(scenario, job),
        steps(Recurring::Exchange, exchange),
        steps(Recurring::Update, job.accumulation).filter(|_| job.accumulation != exchange),
        averaging.and_then(|of| steps(Recurring::Exchange, of.period)),
        job.checkpoint.as_ref().map(|checkpoint| Period {
            what: Recurring::Checkpoint,
            spacing: match checkpoint.every {
                Every::Steps(steps) => Spacing::Steps(steps),
                Every::Seconds(seconds) => Spacing::Seconds(seconds),
            },
            cost: f64::INFINITY,
        }),
        mean_time_to_failure(job).map(|seconds| Period {
            what: Recurring::Failure,
            spacing: Spacing::Seconds(seconds),
            cost: f64::INFINITY,
        }),
    ];
    periods.into_iter().flatten().collect()
}

/// Returns the period of a job's epochs; `None` if the end of an epoch costs next to nothing.
fn epoch(scenario: &Scenario, job: &Job) -> Option<Period> {
    let samples = scenario.samples_of_epoch(job);
    let cost = match job.loader.requests.as_ref().filter(|_| job.reads_data()) {
        Some(requests) => {
            let workers = job.loader.stages.first().map_or(0, |stage| stage.workers);
            let per_round = (u64::from(workers) * job.batch * u64::from(job.loaders())) as f64;
            let starts = if requests.persistent { 0.0 } else { requests.start };
            let steps = samples as f64 / (job.batch * u64::from(job.models())) as f64;
            let time = steps * job.step.seconds(job.batch as f64);
            // Workers make no batch of the next epoch until the last batch of this one is taken, and then all begin at once:
            // at most one round of their batches is late.
            per_round / samples as f64 + f64::from(workers) * starts / time
        }
        // Batches of the next epoch are made only when its first is wanted.
        None if let Some(start) = job.loader.rebuilt.filter(|_| job.reads_data()) => {
            let steps = samples as f64 / (job.batch * u64::from(job.models())) as f64;
            (1.0 + start / job.step.seconds(job.batch as f64)) / steps
        }
        // Where only a part is kept, hits may be more frequent at one end of the epoch.
        None if (LITTLE..1.0).contains(&kept_share(scenario, job)) => f64::INFINITY,
        None => 0.0,
    };
    let period = Period { what: Recurring::Epoch, spacing: Spacing::Fresh(samples), cost };
    (cost > LITTLE && samples > 0).then_some(period)
}

/// Returns the share of its data set that a job finds in caches in later epochs, at most; 0 if nothing is kept. Each node keeps
/// data of its own, and may read other samples in the next epoch.
pub(super) fn kept_share(scenario: &Scenario, job: &Job) -> f64 {
    let (storage, dataset) = (&scenario.storage[job.reads_from()], &scenario.datasets[job.dataset]);
    if !job.reads_data() {
        return 0.0;
    }
    if storage.cache.is_some() || job.decoded_cache.is_some() {
        return 1.0;
    }
    let first = scenario.jobs.iter().position(|other| other.name == job.name).unwrap_or(0);
    let node = scenario.cluster.node_at(scenario.nodes_of(first).start);
    let pages = scenario.page_cache(job, node).filter(|_| storage.passes_page_cache());
    let bytes = dataset.samples as f64 * dataset.mean_read();
    pages.map_or(0.0, |pages| (pages * f64::from(job.nodes) / bytes).min(1.0))
}

/// Returns the mean time from one failure of a node of a job copy to the next [s]; `None` unless nodes fail at random.
pub(super) fn mean_time_to_failure(job: &Job) -> Option<f64> {
    match job.failures.as_ref()?.when {
        FailureTimes::Random { mtbf, .. } => Some(mtbf / f64::from(job.nodes)),
        FailureTimes::At(_) => None,
    }
}

/// Where the steps that are whole periods begin or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// At the first of the steps that they are taken from.
    First,
    /// At the last one, which is the best: the beginning of a run is the least like the long run.
    Last,
}

/// Returns the ends of the whole periods that the steps `within` of a copy hold, of the rarest period of which they hold a whole one:
/// first the start of the first, then the end of each. Empty if they hold no whole period.
pub(super) fn whole(
    copy: &JobOutcome,
    periods: &[Period],
    within: &Range<usize>,
    anchor: Anchor,
) -> Vec<usize> {
    let all = periods.iter().map(|period| period.whole(copy, within, anchor));
    all.filter(|ends| !ends.is_empty()).min_by_key(Vec::len).unwrap_or_default()
}

/// Whether periods with these ends have the same number of steps, or differ by one because they are no whole number of steps.
pub(super) fn are_even(ends: &[usize]) -> bool {
    let lengths = || ends.windows(2).map(|pair| pair[1] - pair[0]);
    lengths().max().zip(lengths().min()).is_some_and(|(most, least)| most - least <= 1)
}

impl Period {
    /// Returns the steps of a copy, up to step `end`, in which an occurrence begins. What happens between two steps is a part of the
    /// second one.
    fn occurrences(&self, copy: &JobOutcome, end: usize) -> Vec<usize> {
        match (self.what, self.spacing) {
            (Recurring::Checkpoint, Spacing::Seconds(_)) => {
                let after = |time: &f64| copy.steps.partition_point(|step| step.end <= *time);
                copy.checkpoints.iter().map(after).filter(|step| *step <= end).collect()
            }
            (_, Spacing::Seconds(_)) => Vec::new(),
            (_, Spacing::Steps(every)) => {
                let every = usize::try_from(every).unwrap_or(usize::MAX);
                (1..).map_while(|n| every.checked_mul(n).filter(|step| *step <= end)).collect()
            }
            (_, Spacing::Fresh(every)) => {
                let (mut fresh, mut all) = (0, Vec::new());
                for (i, step) in copy.steps[..end].iter().enumerate() {
                    fresh += step.fresh;
                    // The first step with samples of the next epoch.
                    while fresh > (all.len() as u64 + 1) * every {
                        all.push(i);
                    }
                }
                if fresh == (all.len() as u64 + 1) * every {
                    all.push(end);
                }
                all
            }
        }
    }

    /// Returns the ends of the whole periods that the steps `within` hold, as [`whole`] does.
    fn whole(&self, copy: &JobOutcome, within: &Range<usize>, anchor: Anchor) -> Vec<usize> {
        let all = self.occurrences(copy, within.end);
        let inside = &all[all.partition_point(|step| *step < within.start)..];
        let (Some(first), Some(last)) = (inside.first(), inside.last()) else { return Vec::new() };
        let length = match inside.len() {
            1 if !self.spacing.is_even() => return Vec::new(),
            1 => self.in_steps(copy, within).ceil() as usize,
            several => (last - first).div_ceil(several - 1),
        };
        // Each period begins as long before an occurrence as the steps do, or ends as long after one.
        let (before, after) = match anchor {
            Anchor::First => (first - within.start, 0),
            Anchor::Last => (0, within.end - last),
        };
        let mut ends: Vec<usize> = inside.iter().map(|step| step + after - before).collect();
        match anchor {
            Anchor::First => {
                ends.extend(Some(last - before + length).filter(|end| *end <= within.end));
            }
            Anchor::Last => {
                let start = (first + after).checked_sub(length);
                start
                    .filter(|start| *start >= within.start)
                    .inspect(|start| ends.insert(0, *start));
            }
        }
        if ends.len() > 1 { ends } else { Vec::new() }
    }

    /// Returns the number of steps of a period at the pace of the steps `of`.
    fn in_steps(&self, copy: &JobOutcome, of: &Range<usize>) -> f64 {
        let steps = of.len() as f64;
        match self.spacing {
            Spacing::Steps(every) => every as f64,
            Spacing::Fresh(every) => {
                let fresh: u64 = copy.steps[of.clone()].iter().map(|step| step.fresh).sum();
                every as f64 * steps / fresh as f64
            }
            Spacing::Seconds(every) => {
                let time =
                    |step: usize| step.checked_sub(1).map_or(copy.start, |i| copy.steps[i].end);
                every * steps / (time(of.end) - time(of.start))
            }
        }
    }

    /// Returns how many occurrences the steps `of` hold.
    fn count(&self, copy: &JobOutcome, of: &Range<usize>) -> usize {
        match self.what {
            Recurring::Failure => copy.recovery.map_or(0, |recovery| recovery.failures as usize),
            _ => self.occurrences(copy, of.end).iter().filter(|step| of.contains(step)).count(),
        }
    }
}

/// Returns by how much the mean time of a copy's steps `of` may be wrong, as a share, because they hold a part of a period: for each
/// period of the copies `by`, by how many occurrences more or fewer than in the long run they hold, times what an occurrence costs.
/// That is by how much the three steps around it take longer than three usual ones.
pub(super) fn edges(copy: &JobOutcome, of: &Range<usize>, by: &[(&JobOutcome, &[Period])]) -> f64 {
    let time = |copy: &JobOutcome, step: usize| match step {
        0 => copy.start,
        _ => copy.steps[step - 1].end,
    };
    let (start, end) = (time(copy, of.start), time(copy, of.end));
    let usual = (end - start) / of.len().max(1) as f64;
    let cost = |at: &f64| {
        let step = copy.steps.partition_point(|step| step.end <= *at);
        let around = step.saturating_sub(1)..(step + 2).min(copy.steps.len());
        let took = time(copy, around.end) - time(copy, around.start);
        (took - around.len() as f64 * usual).max(0.0)
    };
    let error = |(other, period): (&JobOutcome, &Period)| {
        let steps = period.occurrences(other, other.steps.len());
        let times: Vec<f64> = steps.into_iter().map(|step| time(other, step)).collect();
        let (Some(first), Some(last), 2..) = (times.first(), times.last(), times.len()) else {
            return 0.0;
        };
        let expected = (end - start) * (times.len() - 1) as f64 / (last - first);
        let held: Vec<f64> = times.iter().copied().filter(|at| (start..end).contains(at)).collect();
        let costs = held.iter().map(cost).sum::<f64>() / held.len().max(1) as f64;
        (held.len() as f64 - expected).abs() * costs / (end - start)
    };
    let each = by.iter().flat_map(|(other, periods)| periods.iter().map(move |of| (*other, of)));
    each.map(error).sum()
}

/// Returns the number of steps after which a run of automatic length holds enough of each period: as many as [`ENOUGH`] and
/// [`LEAST`] say after step `of.start`, as far as the run gets. `of` are the steps measured so far, and `reach` is the number of
/// steps of the longest possible run.
pub(super) fn needed(copy: &JobOutcome, periods: &[Period], of: &Range<usize>, reach: f64) -> f64 {
    let start = of.start as f64;
    let each: Vec<(f64, &Period)> =
        periods.iter().map(|period| (period.in_steps(copy, of), period)).collect();
    let longest = each.iter().map(|(steps, _)| *steps).fold(0.0, f64::max);
    let needed = |(steps, period): &(f64, &Period)| {
        let wanted = match period.spacing.is_even() && *steps == longest {
            true => LEAST,
            false => ENOUGH,
        };
        // Periods of seconds begin with the first occurrence.
        let late = if period.spacing.is_even() { 0.0 } else { 1.0 };
        let least = if period.what == Recurring::Failure { ENOUGH } else { LEAST };
        let possible = ((reach - start) / steps - late).floor().min(wanted);
        // Failures are random, and may come later than expected.
        let short = period.what == Recurring::Failure && (period.count(copy, of) as f64) < ENOUGH;
        let more = if short { copy.steps.len() as f64 * 1.1 } else { 0.0 };
        if possible >= least { more.max(start + (possible + late) * steps) } else { 0.0 }
    };
    each.iter().map(needed).fold(0.0, f64::max)
}

/// How much of a period the measured steps hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// At least one whole period.
    Whole,
    /// An occurrence, but no whole period: it weighs more than in the long run.
    Partly,
    /// No occurrence.
    Not,
}

impl Period {
    /// Returns how much of this period the measured steps `of` of a copy hold.
    pub(super) fn seen(&self, copy: &JobOutcome, of: &Range<usize>) -> Seen {
        let count = self.count(copy, of);
        match self.what {
            Recurring::Failure if count as f64 >= ENOUGH => Seen::Whole,
            _ if !self.whole(copy, of, Anchor::Last).is_empty() => Seen::Whole,
            _ if count > 0 => Seen::Partly,
            _ => Seen::Not,
        }
    }

    /// Whether this recurs so often that a written run with the measured steps `of` has to hold it, and costs so much.
    pub(super) fn is_due(&self, copy: &JobOutcome, of: &Range<usize>, tolerated: f64) -> bool {
        let often = self.in_steps(copy, of) <= STANDS_FOR * of.len() as f64;
        often && self.cost > tolerated && self.what != Recurring::Failure
    }

    /// Says that the measured steps `of` of a copy do not hold this, in a sentence without its end.
    pub(super) fn unseen(&self, copy: &JobOutcome, of: &Range<usize>) -> String {
        let every = match self.spacing {
            Spacing::Seconds(time) => seconds(time),
            Spacing::Steps(_) | Spacing::Fresh(_) => {
                format!("{} steps", count(self.in_steps(copy, of).round()))
            }
        };
        match self.what {
            Recurring::Epoch => format!(
                "its epochs of {every} are longer than the measured steps: what happens at the end of an epoch is not in these \
                 figures"
            ),
            Recurring::Exchange => {
                format!(
                    "its model copies exchange every {every}: no whole such period is in these figures"
                )
            }
            Recurring::Update => {
                format!(
                    "it updates parameters every {every}: no whole such period is in these figures"
                )
            }
            Recurring::Checkpoint => {
                format!(
                    "it writes a checkpoint every {every}: no whole such period is in these figures"
                )
            }
            Recurring::Failure => {
                format!(
                    "one of its nodes fails every {every} on average: this is not in these figures"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StepOutcome;

    /// Returns a copy of `steps` steps of a second, each of `fresh` samples.
    fn copy(steps: usize, fresh: u64) -> JobOutcome {
        let step = |i: usize| StepOutcome { end: i as f64 + 1.0, fresh, ..StepOutcome::default() };
        JobOutcome { steps: (0..steps).map(step).collect(), ..JobOutcome::default() }
    }

    fn period(what: Recurring, spacing: Spacing) -> Period {
        Period { what, spacing, cost: 1.0 }
    }

    #[test]
    fn measured_steps_are_whole_numbers_of_the_rarest_period_that_they_hold() {
        // System: epochs of 30 steps, exchanges every 7 steps, checkpoints every 200 steps. Expectation: of steps 10 to 99 the last 60,
        // or the first 60 where the warm-up is written; with checkpoints only, none.
        let all = [
            period(Recurring::Epoch, Spacing::Fresh(300)),
            period(Recurring::Exchange, Spacing::Steps(7)),
            period(Recurring::Checkpoint, Spacing::Steps(200)),
        ];
        let copy = copy(100, 10);
        let of = |periods: &[Period], anchor| whole(&copy, periods, &(10..99), anchor);
        assert_eq!(of(&all, Anchor::Last), [39, 69, 99]);
        assert_eq!(of(&all, Anchor::First), [10, 40, 70]);
        assert_eq!(of(&all[2..], Anchor::Last), [0; 0]);
        assert_eq!(all[2].seen(&copy, &(10..99)), Seen::Not);
        assert_eq!(all[0].seen(&copy, &(25..35)), Seen::Partly);
    }

    #[test]
    fn epochs_of_no_whole_number_of_steps_are_even_to_a_step() {
        // System: epochs of 10.25 steps. Expectation: the step with the first sample of an epoch begins a period.
        let copy = copy(60, 4);
        let epoch = period(Recurring::Epoch, Spacing::Fresh(41));
        assert_eq!(epoch.occurrences(&copy, 60), [10, 20, 30, 41, 51]);
        let ends = whole(&copy, &[epoch], &(0..60), Anchor::Last);
        assert!(are_even(&ends) && ends.len() == 6, "{ends:?}");
    }

    #[test]
    fn checkpoints_at_times_are_whole_from_one_to_another() {
        let mut copy = copy(100, 10);
        copy.checkpoints = vec![20.0, 45.0, 70.5];
        let checkpoint = period(Recurring::Checkpoint, Spacing::Seconds(25.0));
        let ends = whole(&copy, &[checkpoint], &(5..72), Anchor::Last);
        assert_eq!(ends, [22, 47, 72]);
        assert_eq!(checkpoint.seen(&copy, &(5..40)), Seen::Partly);
    }

    #[test]
    fn a_run_of_automatic_length_needs_what_it_can_reach() {
        // System: epochs of 30 steps and exchanges every 7 steps. Expectation: two epochs after the warm-up, or nothing where the
        // longest run does not reach them; ten exchanges then.
        let all = [
            period(Recurring::Epoch, Spacing::Fresh(300)),
            period(Recurring::Exchange, Spacing::Steps(7)),
        ];
        let copy = copy(50, 10);
        let of = |reach| needed(&copy, &all, &(20..50), reach);
        assert_eq!((of(1e6), of(89.0), of(79.0), of(33.0)), (90.0, 83.0, 76.0, 0.0));
    }
}
