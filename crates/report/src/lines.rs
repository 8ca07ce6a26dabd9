//! Sentences of the text report: on a job's queue, staging, recovery, caches and so on.

use super::Tuned;
use super::figures::{
    AccuracyReport, EnergyReport, Figure, JobReport, QueueReport, RecoveryReport, StagingReport,
    StalledSteps, SyncReport, TierShares,
};
use super::format::{Quantity, count, number, prefixed, rate, seconds, share};
use super::text::{shown, with_error};
use forebay_scenario::printable_line;

/// Returns a sentence on how rarely steps are held up; `None` if stalls are frequent.
pub(super) fn rarely(job: &JobReport) -> Option<String> {
    let StalledSteps { events, steps, at_most } = job.stalled_steps?;
    let seen = match events {
        0 => format!("No step of `{}` was held up in {steps} steps", job.name),
        1 => format!("One of {steps} steps of `{}` was held up", job.name),
        _ => format!("Steps of `{}` were held up {events} times in {steps} steps", job.name),
    };
    Some(format!(
        "{seen}: in the long run at most one step in {} is.",
        number((1.0 / at_most).floor())
    ))
}

/// Returns a sentence on how long a job's nodes took to copy its data set; `None` without staging.
pub(super) fn staging_line(job: &str, staging: Option<&StagingReport>) -> Option<String> {
    let staging = staging?;
    Some(format!(
        "Staging of `{job}`: {} copied to `{}` in {}, before the first step.",
        shown(staging.bytes.mean, |bytes| prefixed(bytes, "B")),
        staging.to,
        with_error(&staging.seconds, Quantity::Seconds)
    ))
}

/// Returns a sentence on how long a job trains until its target, and on the assumptions and observations that this time is
/// based on; `None` without a target.
pub(super) fn accuracy_line(job: &str, accuracy: Option<&AccuracyReport>) -> Option<String> {
    let accuracy = accuracy?;
    Some(format!(
        "Time to accuracy of `{job}`: {} for {} epochs, {} samples, each worth {} of a sample in the smallest batch. \
         Assumed: {}. Observed: {}.",
        with_error(&accuracy.time, Quantity::Seconds),
        number(accuracy.epochs),
        shown(accuracy.samples.mean, count),
        shown(accuracy.statistical_efficiency.mean, share),
        accuracy.assumed,
        accuracy.measured
    ))
}

/// Returns a sentence on what a step is and how stale updates are; `None` if model copies exchange after each step and no
/// staleness is observed.
pub(super) fn sync_line(job: &str, sync: Option<&SyncReport>) -> Option<String> {
    let sync = sync.filter(|of| of.steps_per_exchange > 1 || of.staleness.is_some())?;
    let mut line = format!("Synchronisation of `{job}`: {}", sync.text);
    if let Some(staleness) = sync.staleness.as_ref().filter(|of| of.max > 0) {
        let mean = shown(staleness.mean.mean, number);
        line += &format!(
            "; an update misses {mean} updates of other ranks on average, {} at most",
            staleness.max
        );
    }
    Some(line + ".")
}

/// Writes a number of things, of which `one` is one: `1 failure`, `3.2 failures`.
fn counted(number: f64, one: &str) -> String {
    let plural = if number == 1.0 { "" } else { "s" };
    format!("{} {one}{plural}", self::number(number))
}

/// Share of the time of writing checkpoints from which overlaps with those of other job copies are mentioned.
const OVERLAP: f64 = 0.1;

/// Returns a sentence on the cost of a job's failures and checkpoints; `None` if they are not simulated.
pub(super) fn recovery_line(job: &str, recovery: Option<&RecoveryReport>) -> Option<String> {
    let of = recovery?;
    let mut line = format!(
        "Recovery of `{job}`: {}, {} of work lost and {} down{}; {}",
        shown(of.failures.mean, |of| counted(of, "failure")),
        shown(of.lost.mean, seconds),
        shown(of.down.mean, seconds),
        read_back(of),
        shown(of.checkpoints.mean, |of| counted(of, "checkpoint")),
    );
    if let Some(time) = of.checkpoint_time.mean {
        let bytes = shown(of.checkpoint_bytes.mean, |bytes| prefixed(bytes, "B"));
        line += &format!(" of {bytes}, each written in {}", seconds(time));
    }
    if let Some(overlap) = of.checkpoint_overlap.mean.filter(|overlap| *overlap >= OVERLAP) {
        line += &format!("; other job copies wrote theirs in {} of that time", share(overlap));
    }
    line += &busy(of);
    if let Some(best) = of.best_interval {
        line += &format!("; Daly's estimate of the best interval is {}", seconds(best));
        line += &of.interval.map_or(String::new(), |now| format!(" (now {})", seconds(now)));
    }
    line += &of.no_best_interval.as_ref().map_or(String::new(), |why| format!("; {why}"));
    Some(line + ".")
}

/// Returns clauses on what the job read back after failures, and on checkpoints that failed nodes took with them; empty if there is
/// nothing to say.
fn read_back(of: &RecoveryReport) -> String {
    let mut clauses = String::new();
    let figures = of.read_backs.mean.zip(of.read_back_bytes.mean).zip(of.read_back_time.mean);
    if let Some(((number, bytes), time)) = figures {
        let [were, each] = if number == 1.0 { ["was", ""] } else { ["were", " each"] };
        clauses += &format!(
            "; {} {were} read back, {} in {}{each}",
            counted(number, "checkpoint"),
            prefixed(bytes, "B"),
            seconds(time)
        );
    }
    if let Some(lost) = of.from_start.mean.filter(|lost| *lost > 0.0) {
        clauses += &format!(
            "; {} took a node's part of the checkpoints with {}, so that the job began again at step 0",
            counted(lost, "failure"),
            if lost == 1.0 { "it" } else { "them" }
        );
    }
    clauses
}

/// Returns clauses on asynchronous checkpoints that fell due while earlier ones were pending; empty if none did.
fn busy(of: &RecoveryReport) -> String {
    let mut clauses = String::new();
    let above = |figure: Figure, least: f64| figure.mean.filter(|mean| *mean > least);
    if let Some(postponed) = above(of.postponed, 0.0) {
        clauses += &format!(
            "; {} fell due while the previous one was being written; training waited {} in all",
            number(postponed),
            shown(of.postponed_time.mean, seconds)
        );
    }
    if let Some(backlog) = above(of.backlog, 1.0) {
        clauses += &format!(
            "; up to {} were pending at once ({} of a node's memory)",
            number(backlog),
            shown(of.backlog_bytes.mean, |bytes| prefixed(bytes, "B"))
        );
        if let Some(unwritten) = above(of.unwritten, 0.0) {
            clauses += &format!("; {} were pending when the run ended", number(unwritten));
        }
    }
    clauses
}

/// Writes the energy of a run as a sentence.
pub(super) fn energy_line(of: &EnergyReport) -> String {
    let all = of.total.mean.unwrap_or(0.0);
    let joules = |figure: Figure| shown(figure.mean, |joules| prefixed(joules, "J"));
    let part = |figure: Figure| {
        shown(figure.mean, |joules| share(if all > 0.0 { joules / all } else { 0.0 }))
    };
    format!(
        "Energy: {} at {} on average, {} of it idle, {} by GPUs at work, {} by cores; {} a step, {} a sample.",
        joules(of.total),
        shown(of.power.mean, |watts| prefixed(watts, "W")),
        part(of.idle),
        part(of.gpus),
        part(of.cores),
        joules(of.per_step),
        joules(of.per_sample),
    )
}

/// Returns a sentence on where a job's requests found their bytes, in the first and the last epoch; `None` without tiers.
pub(super) fn tier_line(job: &str, tiers: &[TierShares]) -> Option<String> {
    let (first, later) = tiers.split_first()?;
    let say = |shares: &TierShares| {
        let own = format!("{} on the node's own tier", share(shares.hit));
        let peers = format!("{} on other nodes'", share(shares.peer));
        let peers = if shares.peer > 0.0 { format!(", {peers}") } else { String::new() };
        format!("{own}{peers}, {} on the storage", share(shares.miss))
    };
    let first = format!("Requests of `{job}` found {}", say(first));
    Some(match later {
        [] => format!("{first}."),
        [.., last] => {
            format!("{first} in the first epoch; {} in epoch {}.", say(last), tiers.len())
        }
    })
}

/// Returns a sentence on the share of a job's requests that missed a cache, in the first and the last epoch; `None` without the
/// cache.
pub(super) fn cache_line(cache: &str, misses: &[f64]) -> Option<String> {
    let (first, later) = misses.split_first()?;
    let first = format!("{cache}: {} of the requests missed", share(*first));
    Some(match later {
        [] => format!("{first}."),
        [.., last] => {
            format!("{first} in the first epoch, {} in epoch {}.", share(*last), misses.len())
        }
    })
}

/// Returns a sentence with the number of workers that tuning reached for each stage; `None` if none is tuned.
pub(super) fn tuned_line(job: &str, tuned: &[Tuned]) -> Option<String> {
    let each = tuned.iter().map(|of| format!("{} of `{}`", of.workers, printable_line(&of.stage)));
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("Workers of `{job}` as tuned: {}.", each.join(", ")))
}

/// Writes the level of a job's queue, and the rates in and out, as a sentence.
pub(super) fn queue_line(name: &str, queue: &QueueReport) -> String {
    let samples = |value| rate(value, "samples");
    let mut line = format!(
        "Queue of `{name}`: {} of {} samples on average, empty {} of the time, {} in, {} out",
        shown(queue.occupancy.mean, number),
        queue.capacity,
        shown(queue.time_empty.mean, share),
        shown(queue.enqueue_rate.mean, samples),
        shown(queue.dequeue_rate.mean, samples),
    );
    line += &unhindered(queue).unwrap_or_default();
    if let Some(dry) = queue.exhausted_copies.mean {
        line += ", full at the start and ";
        line += &match queue.time_to_exhaustion.mean {
            Some(time) => format!("dry after {} in {} of the copies", seconds(time), share(dry)),
            None => "never dry".to_owned(),
        };
    }
    if let Some(age) = queue.age {
        line += &format!(
            ", samples read {} times at an age of {}",
            shown(queue.reuse.as_ref().and_then(|reuse| reuse.mean), number),
            shown(age.mean, seconds)
        );
    }
    line + "."
}

/// Returns a clause on the rates that workers and trainers would have if the other side never held them up; `None` if they are
/// not known.
fn unhindered(queue: &QueueReport) -> Option<String> {
    let samples = |value| rate(value, "samples");
    let into = queue.unblocked_enqueue_rate.mean?;
    let out = queue.unstalled_dequeue_rate.mean?;
    let then = match queue.net_enqueue_rate.mean? {
        net if net < -1e-3 * out => format!("the queue would drain by {}", samples(-net)),
        net if net > 1e-3 * out => format!("the queue would fill by {}", samples(net)),
        _ => "the queue would keep its level".to_owned(),
    };
    Some(format!(
        "; if neither waited for the other, workers would put in {} and trainers take out {}: {then}",
        samples(into),
        samples(out)
    ))
}
