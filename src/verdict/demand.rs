//! How much of each resource each job would use if it never waited for input.
//!
//! A job that never waits takes samples from its queue at the unstalled dequeue rate. Each sample loads resources as it does now.
//! The only job of a scenario causes all loads that the run shows. Of several jobs, each is simulated alone for a short time: the
//! others do not begin.

use crate::report::{JobOutcome, Outcome};
use crate::scenario::{Scenario, Stop};
use crate::sim;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::AT_ONCE;
use super::candidates::Subject;
use super::reference::Reference;

/// Maximum number of jobs that are simulated alone.
const MOST_JOBS: usize = 16;

/// Uses of resources by job: for each job by index, the use of one resource with the given name [unit/s]; no entry for a job whose
/// use is not known.
pub(super) type Demands = BTreeMap<usize, BTreeMap<String, f64>>;

/// Returns the rates at which trainers would take samples if they never waited, and at which loaders provide them now, for one
/// copy of the job [samples/s].
pub(super) fn rates(subject: &Subject) -> Option<(f64, f64)> {
    let queue = &subject.shown().queue;
    let (wanted, now) = (queue.unstalled_dequeue_rate.mean?, queue.enqueue_rate.mean?);
    (now > 0.0).then_some((wanted, now))
}

/// Returns whether the run shows what jobs need: not beside background loads, and not across failures. Jobs that begin after
/// others do not use resources at the same time.
fn is_shown(scenario: &Scenario) -> bool {
    let jobs = &scenario.jobs;
    scenario.background.is_empty()
        && jobs.iter().all(|job| job.failures.is_none() && job.after.is_empty())
}

/// Returns the use by a job that is alone in its scenario.
pub(super) fn of_only_job(subject: &Subject) -> Demands {
    let Some((wanted, now)) = rates(subject).filter(|_| is_shown(subject.scenario)) else {
        return Demands::new();
    };
    let resources = subject.report.resources.iter();
    let of = resources.filter_map(|resource| {
        let used = resource.utilisation.mean?;
        Some((resource.name.clone(), used * wanted / now * resource.capacity))
    });
    Demands::from([(subject.job, of.collect())])
}

/// Returns the uses by several jobs, from a run of each job alone, and the events of these runs: at most `budget`.
pub(super) fn of_jobs(
    all: &[&Reference],
    budget: u64,
    stop: Option<&AtomicBool>,
) -> (Demands, u64) {
    if all.len() > MOST_JOBS || all.iter().any(|of| !is_shown(of.subject.scenario)) {
        return (Demands::new(), 0);
    }
    let one = |reference: &&Reference, each: u64| {
        let subject = reference.subject;
        let (wanted, _) = rates(&subject)?;
        let (time, least) = reference.time_alone();
        let options = sim::Options { stop, most_events: Some(each), ..sim::Options::default() };
        let outcome = sim::run(&alone(&subject, time), 0, &options);
        Some((subject.job, of_outcome(&subject, &outcome, (wanted, least)), outcome.events))
    };
    // Short runs come first, and leave more of the budget to the rest.
    let mut all = all.to_vec();
    all.sort_by(|a, b| a.time_alone().0.total_cmp(&b.time_alone().0));
    let (mut demands, mut events, mut left) = (Demands::new(), 0, all.len() as u64);
    for some in all.chunks(AT_ONCE) {
        let each = budget.saturating_sub(events) / left;
        let found: Vec<_> = some.par_iter().filter_map(|of| one(of, each)).collect();
        left -= some.len() as u64;
        events += found.iter().map(|(.., events)| events).sum::<u64>();
        demands.extend(found.into_iter().filter_map(|(job, of, _)| Some((job, of?))));
    }
    (demands, events)
}

/// Returns the scenario in which only one job begins, and which ends after `time` [s].
fn alone(subject: &Subject, time: f64) -> Scenario {
    let mut scenario = subject.scenario.clone();
    scenario.run.stop = Stop::Duration(time);
    scenario.faults.clear();
    for (index, job) in scenario.jobs.iter_mut().enumerate() {
        job.stop = None;
        if index == subject.job {
            job.start = 0.0;
        } else {
            (job.start, job.prefill) = (2.0 * time, 0);
        }
    }
    scenario
}

/// Returns the use of one resource of each name if the job takes `wanted` samples/s, from its run alone; `None` if it has made
/// fewer than `least` steps there.
fn of_outcome(
    subject: &Subject,
    outcome: &Outcome,
    (wanted, least): (f64, usize),
) -> Option<BTreeMap<String, f64>> {
    let (scenario, job) = (subject.scenario, &subject.scenario.jobs[subject.job]);
    let copies: Vec<_> = outcome.jobs.iter().filter(|copy| copy.job == subject.job).collect();
    if copies.iter().any(|copy| copy.steps.len() < least) {
        return None;
    }
    // Samples that workers have begun to read, but not delivered, have caused half of their load on average.
    let loaded = |copy: &&JobOutcome| (copy.samples.started + copy.samples.enqueued) as f64 / 2.0;
    let samples: f64 = copies.iter().map(loaded).sum();
    let wanted = wanted * f64::from(job.copies);
    let nodes = |job: usize| scenario.nodes_of(job).len() as f64;
    let all = (0..scenario.jobs.len()).map(nodes);
    let all = if scenario.cluster.share_nodes { all.fold(0.0, f64::max) } else { all.sum() };
    let of = outcome.resources.iter().map(|resource| {
        // A job uses only what its own nodes have.
        let part =
            if is_in_nodes(scenario, &resource.name) { nodes(subject.job) / all } else { 1.0 };
        let each = resource.served / samples / (f64::from(resource.count) * part);
        (resource.name.clone(), each * wanted)
    });
    (samples > 0.0).then(|| of.collect())
}

/// Returns whether each node has a resource of this name for itself, so that jobs on different nodes do not share it.
pub(super) fn is_in_nodes(scenario: &Scenario, name: &str) -> bool {
    let owner = name.split('.').next().unwrap_or(name);
    let storage = scenario.storage.iter().find(|storage| storage.name == owner);
    storage.map_or(owner == "node", |storage| !storage.path.is_remote())
}
