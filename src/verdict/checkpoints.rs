//! Checkpoints and failures: the levers that shorten waits for them, and what they cost.

use std::collections::BTreeSet;

use crate::report::format::{seconds, share};
use crate::report::{Cause, RecoveryReport};
use crate::scenario::{Arrivals, Checkpoint, Every, Job, Scenario, Writers};

use super::candidates::{NOTED, Subject};
use super::failure_free::FEWEST_FAILURES;
use super::lever::{Kind, Lever};

/// Minimum share of a job's time that checkpoints or failures must take to be mentioned.
const MENTIONED: f64 = 0.005;
/// Minimum share of the time of transferring checkpoints in which other job copies transfer theirs, at which other times are tried.
const TOGETHER: f64 = 0.5;

/// Returns the levers that shorten waits for the checkpoints of a job, the most promising first: asynchronous checkpoints; then,
/// if job copies write at the same time, other times; then the limits of the write rate on the path to the storage, the tightest first; then all others.
pub(super) fn levers(subject: &Subject) -> Vec<Lever> {
    let (scenario, at) = (subject.scenario, subject.job);
    let job = &scenario.jobs[at];
    let Some(checkpoint) = &job.checkpoint else { return Vec::new() };
    let mut limits = write_limits(scenario, job, checkpoint);
    limits.sort_by(|a, b| a.1.total_cmp(&b.1));
    let of_job = |kind| Lever { kind, at };
    let of_storage = |(kind, _): &(Kind, f64)| match kind {
        Kind::Nic | Kind::StorageNic => of_job(*kind),
        _ => Lever { kind: *kind, at: checkpoint.storage },
    };
    let rest = [Kind::CheckpointPause, Kind::CheckpointWriters, Kind::CheckpointInterval];
    let limits = limits.iter().map(of_storage);
    let stagger = is_together(subject).then_some(Kind::CheckpointStagger).map(of_job);
    [of_job(Kind::CheckpointAside)]
        .into_iter()
        .chain(stagger)
        .chain(limits)
        .chain(rest.map(of_job))
        .collect()
}

/// Returns whether other job copies write checkpoints during most of the time that this job does.
fn is_together(subject: &Subject) -> bool {
    let recovery = subject.shown().recovery.as_ref();
    recovery.and_then(|of| of.checkpoint_overlap.mean).is_some_and(|overlap| overlap >= TOGETHER)
}

/// Spreads the checkpoints of job number `at` and of others on the same storage over the job's interval: its copies start one after
/// another, or the whole job later if it has one copy. `None` if the job is alone there, or if its copies arrive at random.
pub(super) fn stagger(scenario: &mut Scenario, at: usize) -> Option<()> {
    let job = scenario.jobs.get(at)?;
    let checkpoint = job.checkpoint.as_ref()?;
    if !scenario.storage[checkpoint.storage].path.is_remote() || job.arrivals != Arrivals::Regular {
        return None;
    }
    let interval = seconds_between(job, checkpoint);
    let writes =
        |of: &&Job| of.checkpoint.as_ref().is_some_and(|to| to.storage == checkpoint.storage);
    let copies = |jobs: &[Job]| jobs.iter().filter(writes).map(|job| job.copies).sum::<u32>();
    let (before, all) = (copies(&scenario.jobs[..at]), copies(&scenario.jobs));
    let each = interval / f64::from(all);
    let job = scenario.jobs.get_mut(at)?;
    match (all, job.copies) {
        (..=1, _) => return None,
        (_, 1) => job.start += each * f64::from(before.max(1)),
        (..) => job.stagger += each,
    }
    Some(())
}

/// Returns the time from when training goes on after one checkpoint until the next is due, if steps wait for nothing [s].
fn seconds_between(job: &Job, checkpoint: &Checkpoint) -> f64 {
    match checkpoint.every {
        Every::Seconds(seconds) => seconds,
        Every::Steps(steps) => steps as f64 * job.step.seconds(job.batch as f64),
    }
}

/// Returns whether the checkpoints of all job copies on a storage could be written one after another, each at the rate that it has
/// alone.
fn fit_one_by_one(scenario: &Scenario, storage: usize) -> bool {
    let share = |job: &Job| {
        let checkpoint = job.checkpoint.as_ref().filter(|of| of.storage == storage)?;
        let rates = write_limits(scenario, job, checkpoint).into_iter().map(|(_, rate)| rate);
        let alone = checkpoint.bytes / rates.fold(f64::INFINITY, f64::min);
        let waits = if checkpoint.asynchronous { 0.0 } else { alone };
        let cycle = seconds_between(job, checkpoint) + checkpoint.pause + waits;
        Some(f64::from(job.copies) * alone / cycle)
    };
    scenario.jobs.iter().filter_map(share).sum::<f64>() <= 1.0
}

/// Returns the limits of the rate at which a checkpoint is written, with their rates [B/s].
fn write_limits(scenario: &Scenario, job: &Job, checkpoint: &Checkpoint) -> Vec<(Kind, f64)> {
    let (storage, cluster) = (&scenario.storage[checkpoint.storage], &scenario.cluster);
    let path = &storage.path;
    let (streams, nodes) = writers(job, checkpoint);
    let at_storage = if path.is_remote() { 1.0 } else { nodes };
    let mut limits = vec![(Kind::PerStream, path.per_stream * streams)];
    limits.push(match storage.tier.and_then(|tier| tier.write) {
        Some(rate) => (Kind::TierWrite, rate * at_storage),
        None => (Kind::Bandwidth, path.bandwidth.most() * at_storage),
    });
    if let Some(targets) = path.targets {
        let used = f64::from(targets.number).min(f64::from(targets.stripe_count) * streams);
        let rate = targets.bandwidth * used;
        limits.extend([(Kind::Stripes, rate), (Kind::Targets, rate)]);
    }
    if path.is_remote() {
        limits.push(match cluster.storage_nic {
            Some(nic) => (Kind::StorageNic, nic * nodes),
            None => (Kind::Nic, cluster.nic * nodes),
        });
    }
    limits
}

/// Returns the number of streams that write a checkpoint, and the number of nodes that they come from.
fn writers(job: &Job, checkpoint: &Checkpoint) -> (f64, f64) {
    match (job.servers(), checkpoint.writers) {
        (Some(_), Writers::First) => (1.0, 1.0),
        (Some(servers), Writers::Each) => {
            let number = f64::from(servers.number().max(1));
            (number, number)
        }
        (None, _) => {
            let parts = job.parts_written(checkpoint);
            let nodes: BTreeSet<u32> = parts.iter().map(|part| part.node).collect();
            (parts.len().max(1) as f64, nodes.len().max(1) as f64)
        }
    }
}

/// Returns a sentence on what checkpoints and failures cost a job, and on how the interval between checkpoints compares with
/// the best one; `None` if they take hardly any time.
pub(super) fn sentence(subject: &Subject) -> Option<String> {
    let job = &subject.shown().name;
    let [writing, failing] = [Cause::Checkpoint, Cause::Fault].map(|cause| subject.share(cause));
    let cost = match (writing >= MENTIONED, failing >= MENTIONED) {
        (false, false) => return None,
        (true, false) => format!("Checkpoints cost `{job}` {} of its time", share(writing)),
        (false, true) => format!("Failures cost `{job}` {} of its time", share(failing)),
        (true, true) => format!(
            "Checkpoints cost `{job}` {} of its time, and failures {}",
            share(writing),
            share(failing)
        ),
    };
    let interval = subject.shown().recovery.as_ref().and_then(interval);
    let together = together(subject).filter(|_| writing >= MENTIONED);
    let few = (failing >= NOTED && subject.fails_seldom()).then(|| {
        format!("failures were fewer than {FEWEST_FAILURES}, so nothing against them was tried")
    });
    let all = [Some(cost), together, interval, few].into_iter().flatten();
    Some(format!("{}.", all.collect::<Vec<_>>().join("; ")))
}

/// Returns a clause on other job copies that write checkpoints at the same time, and on whether other times would help.
fn together(subject: &Subject) -> Option<String> {
    let scenario = subject.scenario;
    let storage = subject.described().checkpoint.as_ref()?.storage;
    let overlap = subject.shown().recovery.as_ref()?.checkpoint_overlap.mean;
    let overlap = overlap.filter(|_| is_together(subject))?;
    Some(format!(
        "other job copies write theirs to `{}` in {} of the time of writing: {}",
        scenario.storage[storage].name,
        share(overlap),
        match fit_one_by_one(scenario, storage) {
            true => "started at other times, they would not wait for each other",
            false => "even one after another, they would not fit into their intervals",
        }
    ))
}

/// Returns a clause on the interval between checkpoints and the best one; `None` if nothing is known of the best.
fn interval(of: &RecoveryReport) -> Option<String> {
    let (now, best) = (of.interval?, of.best_interval.as_ref());
    let Some(best) = best else {
        return of.no_best_interval.clone();
    };
    let costs = of.interval_cost.zip(of.best_cost);
    let costs = costs.map(|(now, best)| [share(now), share(best)]);
    Some(match costs {
        Some([cost, least]) if cost != least => format!(
            "by Daly's formula an interval of {} costs {cost}, and the best one, {}, {least}",
            seconds(now),
            seconds(*best)
        ),
        _ => format!(
            "its interval of {} is about as good as the best by Daly's formula, {}",
            seconds(now),
            seconds(*best)
        ),
    })
}
