//! Estimates the long-run step time of a job from a range of its steps.
//!
//! The steps may consume what buffers held before the range began; then they are faster than steps can be in the long run. So
//! the rate of filling counts, too: while workers are not blocked, they fill a buffer at a rate that the job cannot exceed in
//! the long run. Workers that make whole batches fill the buffer in bursts, one in each cycle of all workers. The rate is
//! therefore taken from one burst to another of the same phase.

use crate::report::{JobOutcome, Outcome};
use crate::scenario::{Job, QueueKind, Unit};
use crate::stats::{mean, t_interval};
use std::ops::Range;

use super::WAITING;

/// Maximum number of means over successive steps (batch means) from which an interval is computed.
const MOST_BATCHES: usize = 12;
/// Relative difference up to which step times count as equal; [`FEWEST_ALIKE`] is the number of equal steps from which a job
/// counts as steady.
const ALIKE: f64 = 1e-6;
const FEWEST_ALIKE: usize = 3;
/// Minimum number of batch means for Student's interval.
const FEWEST_BATCHES: usize = 4;
/// Minimum number of cycles of all workers that a range of steps must contain.
pub(super) const ROUNDS: usize = 2;
/// Ratio of the rates of filling and emptying a buffer below which it counts as draining. It is less than 1 because bursts of
/// filling are only seen at the ends of steps.
const DRAINING: f64 = 0.97;
/// Minimum share of the time in which the workers of a loader with ample reserve are held up.
const AMPLE: f64 = 0.5;
/// Minimum share of the time in which workers are held up in a loader that has ample reserve even if steps take half the time. It is
/// nearly 1, because workers that share a bandwidth are slower once fewer of them are held up.
const AMPLE_IF_FASTER: f64 = 0.95;
/// Minimum half-width of an interval, relative to the mean.
const LEAST: f64 = 0.005;
/// Minimum relative half-width of an interval if there are few batch means, or if the rate of filling was used.
const ROUGH: f64 = 0.05;

/// Minimum number of pairs of batch means to fit the slope of a line: step times of the short run against those of the base run.
const FEWEST_FOR_SLOPE: usize = 6;

/// The copies of a job in one run.
pub(super) struct Course<'o> {
    described: &'o Job,
    copies: Vec<&'o JobOutcome>,
    /// Length of a cycle of workers [steps]: the time in which each worker makes one item.
    round: usize,
    /// Number of steps from one exchange between model copies, or one average of models, to the next.
    period: usize,
    /// Whether full buffers hold up the workers most of the time, and trainers hardly wait for them. The loader then has ample
    /// reserve, and how full its buffers are at the start or end of a range of steps does not matter.
    ample: bool,
}

/// The long-run step time of a job, estimated from a range of steps.
#[derive(Debug, Clone)]
pub(super) struct LongRate {
    /// Step time [s].
    pub(super) step: f64,
    /// Interval of the step time [s].
    pub(super) interval: [f64; 2],
    /// Share of the step time in which accelerators compute.
    pub(super) computing: f64,
    /// Whether the observed steps were faster than steps in the long run, because they drained buffers.
    pub(super) draining: bool,
}

impl LongRate {
    /// Returns whether the interval of the step time is so wide that not even a lever that saves all waits would show.
    pub(super) fn hides_all_waits(&self) -> bool {
        let half = (self.interval[1] - self.interval[0]) / 2.0;
        half > (1.0 - self.computing) * self.step
    }
}

impl<'o> Course<'o> {
    /// Returns the copies of job number `job` in a run; `None` if one of them has no step.
    pub(super) fn new(described: &'o Job, job: usize, outcome: &'o Outcome) -> Option<Course<'o>> {
        let copies: Vec<_> = outcome.jobs.iter().filter(|copy| copy.job == job).collect();
        let ample = copies.iter().all(|copy| is_ample(copy, AMPLE));
        let round = copies.iter().map(|copy| cycle(described, copy)).max().unwrap_or(1).max(1);
        let course = Course { described, copies, round, period: period(described), ample };
        (course.steps() > 0).then_some(course)
    }

    /// Returns the course of a short run that is compared with the longer run `base`. Workers that have ample reserve in `base` count as
    /// having it in the short run too, where they are still filling the buffers. The exception is a short run whose steps are so fast that
    /// trainers wait for workers after the first step.
    pub(super) fn compared_with(self, base: &Course) -> Course<'o> {
        let starved = || self.copies.iter().any(|copy| starves_later(copy));
        let ample = self.ample || base.ample && !starved();
        Course { ample, ..self }
    }

    /// Returns the number of steps that all copies have completed.
    pub(super) fn steps(&self) -> usize {
        self.copies.iter().map(|copy| copy.steps.len()).min().unwrap_or(0)
    }

    /// Returns the length of a cycle [steps]. Step times and the levels of buffers repeat in such cycles: workers make one item
    /// each, unless they have ample reserve, and model copies exchange gradients or models once.
    pub(super) fn cycle(&self) -> usize {
        self.round().next_multiple_of(self.period)
    }

    /// Returns the length of a cycle of workers [steps]; 1 if they have ample reserve.
    fn round(&self) -> usize {
        if self.ample { 1 } else { self.round }
    }

    /// Returns the length of a cycle [steps] in a run whose steps take half the time, so that workers may no longer have ample reserve.
    pub(super) fn cycle_if_faster(&self) -> usize {
        let ample = self.copies.iter().all(|copy| is_ample(copy, AMPLE_IF_FASTER));
        if ample { self.period } else { self.round.next_multiple_of(self.period) }
    }

    /// Returns the number of steps from one exchange between model copies, or one average of models, to the next.
    pub(super) fn period(&self) -> usize {
        self.period
    }

    /// Returns the number of steps until all copies have read a data set of `samples` samples once. A copy that never reads all
    /// samples counts with all its steps.
    pub(super) fn first_epoch(&self, samples: u64) -> usize {
        let of = |copy: &&JobOutcome| {
            let mut fresh = 0;
            let ends = copy.steps.iter().position(|step| {
                fresh += step.fresh;
                fresh >= samples
            });
            ends.map_or(copy.steps.len(), |last| last + 1)
        };
        self.copies.iter().map(of).max().unwrap_or(0)
    }

    /// Returns the number of steps until the input runs out: after this number, workers add less than one cycle of samples.
    pub(super) fn end_of_input(&self) -> usize {
        let of = |copy: &&JobOutcome| {
            let last = copy.steps.last().map_or(0, |step| step.queue.enqueued);
            let cycle = cycle_samples(self.described, copy) as u64;
            copy.steps.partition_point(|step| step.queue.enqueued + cycle < last)
        };
        self.copies.iter().map(of).min().unwrap_or(0)
    }

    /// Returns the number of steps that all copies have completed by `time` [s].
    pub(super) fn steps_by(&self, time: f64) -> usize {
        let of = |copy: &&JobOutcome| copy.steps.partition_point(|step| step.end <= time);
        self.copies.iter().map(of).min().unwrap_or(0)
    }

    /// Returns the number of steps that the copies have completed by `time` [s], on average, with the completed part of the step in
    /// progress.
    pub(super) fn progress(&self, time: f64) -> f64 {
        let of = |copy: &&JobOutcome| {
            let whole = copy.steps.partition_point(|step| step.end <= time);
            let begun = end_before(copy, whole);
            let part =
                copy.steps.get(whole).map_or(0.0, |step| (time - begun) / (step.end - begun));
            whole as f64 + part.max(0.0)
        };
        self.copies.iter().map(of).sum::<f64>() / self.copies.len() as f64
    }

    /// Returns the time at which all copies have completed `steps` steps [s].
    pub(super) fn time_of(&self, steps: usize) -> f64 {
        let ends =
            self.copies.iter().filter_map(|copy| Some(copy.steps.get(steps.checked_sub(1)?)?.end));
        ends.fold(0.0, f64::max)
    }

    /// Returns the number of events until all copies have completed `steps` steps.
    pub(super) fn events_of(&self, steps: usize) -> u64 {
        let last = |copy: &&JobOutcome| Some(copy.steps.get(steps.checked_sub(1)?)?.events);
        self.copies.iter().filter_map(last).max().unwrap_or(0)
    }

    /// Returns the time of each step in a range, averaged over copies [s].
    pub(super) fn step_times(&self, stretch: Range<usize>) -> Vec<f64> {
        let one = |step: usize| {
            let have = self.copies.iter().filter(|copy| step < copy.steps.len());
            let add = |(sum, number): (f64, f64), copy: &&JobOutcome| {
                (sum + copy.steps[step].end - end_before(copy, step), number + 1.0)
            };
            let (sum, number) = have.fold((0.0, 0.0), add);
            if number > 0.0 { sum / number } else { 0.0 }
        };
        stretch.map(one).collect()
    }

    /// Returns the smallest number of steps from `stretch.start` on in which the job waits for at least the share `part` of the
    /// time that it waits in the same number of average steps of the range.
    pub(super) fn steps_until_waits(&self, stretch: Range<usize>, part: f64) -> usize {
        let compute = |step: usize| {
            let of = |copy: &&JobOutcome| copy.steps.get(step).map(|step| step.compute);
            self.copies.iter().filter_map(of).sum::<f64>() / self.copies.len() as f64
        };
        let times = self.step_times(stretch.clone());
        let waits = times.iter().zip(stretch).map(|(time, step)| (time - compute(step)).max(0.0));
        let sums: Vec<f64> = waits
            .scan(0.0, |sum, wait| {
                *sum += wait;
                Some(*sum)
            })
            .collect();
        let usual = sums.last().map_or(0.0, |sum| part * sum / sums.len() as f64);
        let waited = |(at, sum): (usize, &f64)| *sum >= usual * (at + 1) as f64;
        sums.iter().enumerate().position(waited).map_or(0, |at| at + 1)
    }

    /// Returns the mean step times of equal parts of a range; each part is at least a cycle long if the range is.
    pub(super) fn batches(&self, stretch: Range<usize>, cycle: usize) -> Vec<f64> {
        let number = (stretch.len() / cycle).clamp(1, MOST_BATCHES);
        let length = stretch.len() / number;
        let times = self.step_times(stretch);
        times[times.len() - number * length..]
            .chunks_exact(length.max(1))
            .filter_map(mean)
            .collect()
    }

    /// Returns the long-run step time that the steps in `stretch` show. The rate of filling is taken from step `from` on.
    /// `None` if there are fewer than [`ROUNDS`] cycles of all workers since then.
    pub(super) fn long_rate(&self, from: usize, stretch: Range<usize>) -> Option<LongRate> {
        if stretch.end < from + ROUNDS * self.round() {
            return None;
        }
        let batches = self.batches(stretch.clone(), self.cycle());
        let times = self.step_times(stretch.clone());
        let step = mean(&times)?;
        // What other jobs did before the range began may not last.
        let from = if stretch.len() >= ROUNDS * self.round() { stretch.start } else { from };
        let slower = self.slowdown(from, stretch.clone());
        let alike = |time: &f64| (time - step).abs() <= ALIKE * step;
        let steady = times.len() >= FEWEST_ALIKE && times.iter().all(alike);
        let known = steady || batches.len() >= FEWEST_BATCHES;
        let rough = if known && slower == 1.0 { LEAST } else { ROUGH };
        let spread = t_interval(&batches).filter(|_| batches.len() >= FEWEST_BATCHES);
        let half = spread.map_or(0.0, |[low, high]| (high - low) / 2.0).max(rough * step) * slower;
        let compute = |copy: &&JobOutcome| {
            mean(
                &copy
                    .steps
                    .get(stretch.clone())?
                    .iter()
                    .map(|step| step.compute)
                    .collect::<Vec<_>>(),
            )
        };
        let compute = mean(&self.copies.iter().filter_map(compute).collect::<Vec<_>>())?;
        let step = step * slower;
        Some(LongRate {
            step,
            interval: [(step - half).max(0.0), step + half],
            computing: (compute / step).min(1.0),
            draining: slower > 1.0,
        })
    }

    /// Returns the factor by which steps take longer once buffers are drained; 1 if buffers are not draining.
    fn slowdown(&self, from: usize, stretch: Range<usize>) -> f64 {
        if self.described.queue == QueueKind::Circular {
            return 1.0;
        }
        let of = |copy: &&JobOutcome| {
            let steps = copy.steps.get(stretch.clone())?;
            let (first, last) = (copy.steps.get(stretch.start.checked_sub(1)?)?, steps.last()?);
            let taken = last.queue.dequeued.saturating_sub(first.queue.dequeued) as f64
                / (last.end - first.end);
            let filled = self.filled(copy, from..stretch.end)?;
            Some(taken / filled)
        };
        let slower = mean(&self.copies.iter().filter_map(of).collect::<Vec<_>>()).unwrap_or(1.0);
        if slower * DRAINING > 1.0 { slower } else { 1.0 }
    }

    /// Returns the rate at which workers fill the buffer while they are not blocked, over whole cycles [samples/s].
    fn filled(&self, copy: &JobOutcome, stretch: Range<usize>) -> Option<f64> {
        let steps = copy.steps.get(stretch)?;
        let (cycle, workers) =
            (cycle_samples(self.described, copy), copy.queue.workers.max(1) as f64);
        let last = steps.last()?.queue.enqueued as f64;
        let (mut samples, mut seconds) = (0.0, 0.0);
        let first = steps.first()?.queue.enqueued as f64;
        for (index, step) in steps.iter().enumerate() {
            let (now, before) = (step.queue.enqueued as f64, index.checked_sub(1));
            let grew =
                before.is_none_or(|before| steps[before].queue.enqueued < step.queue.enqueued);
            if now >= first + cycle && samples > 0.0 {
                break;
            }
            let cycles = ((last - now) / cycle).floor();
            if !grew || cycles < 1.0 {
                continue;
            }
            let wanted = now + cycles * cycle;
            let to = steps.partition_point(|step| (step.queue.enqueued as f64) < wanted);
            let Some(end) = steps.get(to) else { continue };
            let blocked = (end.queue.blocked_seconds - step.queue.blocked_seconds) / workers;
            samples += end.queue.enqueued as f64 - now;
            seconds += end.end - step.end - blocked;
        }
        (samples > 0.0 && seconds > 0.0).then(|| samples / seconds)
    }
}

/// Returns whether a copy's workers are held up for at least the share `least` of the time, and not because the trainer waits for
/// something behind them.
fn is_ample(copy: &JobOutcome, least: f64) -> bool {
    let Some(last) = copy.steps.last() else { return false };
    let time = last.end - copy.start;
    let held_up = last.queue.blocked_seconds / copy.queue.workers.max(1) as f64;
    held_up >= least * time && last.queue.empty_seconds <= WAITING * time
}

/// Returns whether a copy's trainer waits for input for more than a small share of the time after the first step.
fn starves_later(copy: &JobOutcome) -> bool {
    copy.steps.first().zip(copy.steps.last()).is_some_and(|(first, last)| {
        last.queue.empty_seconds - first.queue.empty_seconds > WAITING * (last.end - first.end)
    })
}

/// Returns the length of a copy's cycle [steps].
fn cycle(described: &Job, copy: &JobOutcome) -> usize {
    let taken = copy.steps.iter().map(|step| step.fresh).max().unwrap_or(0).max(1);
    (cycle_samples(described, copy) / taken as f64).ceil() as usize
}

/// Returns the number of steps from one exchange between the model copies of a job, or one average of its models, to the next.
fn period(described: &Job) -> usize {
    let averaged = described.averaging().map(|averaging| averaging.period);
    averaged.unwrap_or_else(|| described.interval()).max(1) as usize
}

/// Returns the number of samples that the workers of a copy make in a cycle.
fn cycle_samples(described: &Job, copy: &JobOutcome) -> f64 {
    let unit = match described.loader.stages.first().map(|stage| stage.unit) {
        Some(Unit::Batch) => described.batch,
        Some(Unit::Sample) | None => 1,
    };
    let at_once = workers_at_once(described) as f64 / workers(described).max(1) as f64;
    (copy.queue.workers.max(1) * unit) as f64 * at_once
}

/// Returns the number of workers of a node's first stage that work at the same time: not more than the batches that are requested
/// ahead, and the one that the trainer waits for.
pub(super) fn workers_at_once(described: &Job) -> u64 {
    let ahead = described.loader.requests.map(|requests| requests.ahead);
    workers(described).min(ahead.map_or(u64::MAX, |ahead| ahead.saturating_add(1)))
}

fn workers(described: &Job) -> u64 {
    described.loader.stages.first().map_or(1, |stage| stage.workers.into())
}

fn end_before(copy: &JobOutcome, step: usize) -> f64 {
    step.checked_sub(1)
        .and_then(|before| copy.steps.get(before))
        .map_or(copy.start, |step| step.end)
}

/// Returns the slope of a least-squares line through the pairs, of second values over first values; `None` for too few pairs or
/// if the first values do not vary.
pub(super) fn slope(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let (x, y) = (x / n, y / n);
    let (xx, xy) = pairs.iter().fold((0.0, 0.0), |(xx, xy), pair| {
        (xx + (pair.0 - x).powi(2), xy + (pair.0 - x) * (pair.1 - y))
    });
    // Less variation is only rounding.
    let varies = xx > n * (1e-9 * x).powi(2);
    (pairs.len() >= FEWEST_FOR_SLOPE && varies).then(|| xy / xx)
}
