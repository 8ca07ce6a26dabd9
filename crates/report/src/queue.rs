//! The figures of a queue.

use super::figures::{Figure, QueueReport, ReuseReport, SeriesReport};
use super::sample::{Ratio, Sample, over_replications, with_quantiles};
use super::window::{Window, ratio, unblocked_rate};
use super::{Bin, JobOutcome};
use forebay_engine::stats::{mean, weighted_quantile};
use forebay_scenario::{Job, QueueKind};

/// Returns the figures of the queues of a job's copies, given by replication and copy.
pub(super) fn queue(copies: &[Vec<&JobOutcome>], sample: &Sample, job: &Job) -> QueueReport {
    let circular = job.queue == QueueKind::Circular;
    let several = job.loaders() > 1;
    let unstalled = |w: &Window| w.unstalled_dequeue_rate(several);
    let first = copies.iter().flatten().next();
    QueueReport {
        capacity: first.map_or(0, |copy| copy.queue.capacity),
        occupancy: sample.ratio(Ratio::Amount, |w| Some((w.level_seconds, w.elapsed))),
        exhaustions: Figure { ci95: exhaustions_interval(sample), ..exhaustions(sample) },
        exhaustion_duration: exhaustion_duration(copies),
        time_empty: sample.ratio(Ratio::Share, |w| Some((w.empty_seconds, w.elapsed))),
        enqueue_rate: sample.ratio(Ratio::Rate, |w| Some((w.enqueued, w.elapsed))),
        dequeue_rate: sample.ratio(Ratio::Rate, |w| Some((w.dequeued, w.elapsed))),
        unblocked_enqueue_rate: sample.figure(|w| w.unblocked_enqueue_rate()),
        unstalled_dequeue_rate: sample.figure(unstalled),
        net_enqueue_rate: sample.figure(|w| Some(w.unblocked_enqueue_rate()? - unstalled(w)?)),
        time_to_exhaustion: per_copy(copies, time_to_exhaustion),
        exhausted_copies: exhausted_copies(copies),
        waiting_time: sample.ratio(Ratio::Amount, |w| Some((w.residence_seconds, w.dequeued))),
        age: circular.then(|| age(copies)),
        reuse: circular.then(|| reuse(copies)),
    }
}

fn exhaustions(sample: &Sample) -> Figure {
    sample.figure(|w| Some(w.exhaustions))
}

/// Returns the interval of the number of exhaustions, over replications only: a count has no mean over batches.
fn exhaustions_interval(sample: &Sample) -> Option<[f64; 2]> {
    exhaustions(sample).ci95.filter(|_| sample.windows.len() > 1)
}

/// Returns the figure of the values that `of` gives for the copies; its quantiles are over the copies of all replications.
fn per_copy(copies: &[Vec<&JobOutcome>], of: impl Fn(&JobOutcome) -> Option<f64>) -> Figure {
    let values: Vec<Vec<f64>> =
        copies.iter().map(|copies| copies.iter().filter_map(|&copy| of(copy)).collect()).collect();
    pooled(&values)
}

fn exhaustion_duration(copies: &[Vec<&JobOutcome>]) -> Figure {
    let durations = |copies: &Vec<&JobOutcome>| {
        let all = copies.iter().flat_map(|copy| &copy.queue.exhaustions);
        all.map(|exhaustion| exhaustion.duration).collect()
    };
    pooled(&copies.iter().map(durations).collect::<Vec<Vec<f64>>>())
}

/// Returns the figure of observations that are given for each replication; its quantiles are over the observations of all
/// replications.
fn pooled(values: &[Vec<f64>]) -> Figure {
    let means: Vec<f64> = values.iter().filter_map(|values| mean(values)).collect();
    let mut all = values.concat();
    all.sort_unstable_by(f64::total_cmp);
    with_quantiles(over_replications(&means), &all)
}

fn began_full(copy: &JobOutcome) -> bool {
    copy.queue.capacity > 0 && copy.queue.initial == copy.queue.capacity
}

/// Returns the time from the start of a copy to its queue's first exhaustion [s]; `None` if the queue was not full at the start
/// or never ran dry.
fn time_to_exhaustion(copy: &JobOutcome) -> Option<f64> {
    let first = copy.queue.exhaustions.first().filter(|_| began_full(copy))?;
    Some(first.start - copy.start)
}

/// Returns the share of copies whose queue ran dry, among those whose queue was full at the start.
fn exhausted_copies(copies: &[Vec<&JobOutcome>]) -> Figure {
    let of_full = |copies: &Vec<&JobOutcome>| {
        let full = copies.iter().filter(|copy| began_full(copy)).count();
        let dry = copies.iter().filter(|copy| time_to_exhaustion(copy).is_some()).count();
        ratio(dry as f64, full as f64)
    };
    over_replications(&copies.iter().filter_map(of_full).collect::<Vec<_>>())
}

fn age(copies: &[Vec<&JobOutcome>]) -> Figure {
    let average = |copies: &Vec<&JobOutcome>| {
        let ages = || copies.iter().flat_map(|copy| &copy.queue.ages);
        let sum: f64 = ages().map(|&(age, count)| age * count as f64).sum();
        ratio(sum, ages().map(|&(_, count)| count as f64).sum())
    };
    let means: Vec<f64> = copies.iter().filter_map(average).collect();
    let all = copies.iter().flatten().flat_map(|copy| &copy.queue.ages);
    let mut sorted: Vec<(f64, f64)> = all.map(|&(age, count)| (age, count as f64)).collect();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let at = |q| weighted_quantile(&sorted, q);
    Figure { p50: at(0.5), p95: at(0.95), p99: at(0.99), ..over_replications(&means) }
}

fn reuse(copies: &[Vec<&JobOutcome>]) -> ReuseReport {
    let mut histogram: Vec<u64> = Vec::new();
    for copy in copies.iter().flatten() {
        histogram.resize(histogram.len().max(copy.queue.reuse.len()), 0);
        histogram.iter_mut().zip(&copy.queue.reuse).for_each(|(sum, count)| *sum += count);
    }
    let reads: f64 = histogram.iter().enumerate().map(|(n, &count)| n as f64 * count as f64).sum();
    ReuseReport { mean: ratio(reads, histogram.iter().sum::<u64>() as f64), histogram }
}

/// Returns the series of a copy, whose recording ended at `end` [s].
pub(super) fn series(copy: &JobOutcome, end: f64) -> SeriesReport {
    let mut report = SeriesReport::default();
    for (i, bin) in copy.series.bins.iter().enumerate() {
        let from = copy.start + i as f64 * copy.series.width;
        let to = from + copy.series.width;
        report.time.push((from + to) / 2.0);
        // The last bin may be recorded in part.
        let elapsed = to.min(end) - from;
        push(&mut report, bin, elapsed, copy.queue.workers.max(1) as f64);
    }
    report
}

fn push(report: &mut SeriesReport, bin: &Bin, elapsed: f64, workers: f64) {
    let dequeue = ratio(bin.dequeued as f64, elapsed);
    let unblocked = unblocked_rate(bin.enqueued as f64, elapsed, bin.blocked_seconds / workers)
        .filter(|_| elapsed > 0.0);
    report.occupancy.push(ratio(bin.level_seconds, elapsed));
    report.enqueue_rate.push(ratio(bin.enqueued as f64, elapsed));
    report.unblocked_enqueue_rate.push(unblocked);
    report.dequeue_rate.push(dequeue);
    report.net_enqueue_rate.push(unblocked.zip(dequeue).map(|(up, down)| up - down));
    report.step_time.push(ratio(bin.step_seconds, bin.steps as f64));
}
