//! How much of each resource each job would use if it never waited for input.
//!
//! A job that never waits takes samples from its queue at the unstalled dequeue rate. Each sample loads resources as it does now.
//! The only job of a scenario causes all loads that the run shows. Of several jobs, each is simulated alone for a short time: the
//! others do not begin. A job whose later epochs read from caches has different loads in its first epoch, which a short run from
//! the start shows.

use crate::report::{JobOutcome, Outcome, Owner, Part, Resource, ResourceOutcome};
use crate::scenario::{Scenario, Stop};
use rayon::prelude::*;
use std::collections::BTreeMap;

use super::AT_ONCE;
use super::candidates::Subject;
use super::reference::Reference;
use super::short_runs::ShortRuns;

/// Maximum number of jobs that are simulated alone.
const MOST_JOBS: usize = 16;

/// Uses of resources by job: for each job by index, the use of one of each sort of resources [unit/s]; no entry for a job whose use
/// is not known.
pub(super) type Uses = BTreeMap<usize, BTreeMap<Resource, f64>>;

/// Uses of resources by jobs that never wait for input, in the parts of a run in which they differ.
#[derive(Debug, Default)]
pub(super) struct Demands {
    /// In the first epoch, when caches are empty; `None` if no job's later epochs find more in caches.
    pub(super) first_epoch: Option<Uses>,
    /// In the later epochs, or in the whole run if its epochs are alike.
    pub(super) lasting: Uses,
}

/// Load that the samples of a job put on resources in a run.
struct Load {
    /// Number of samples.
    samples: f64,
    /// Amount that the resources of each sort have served, all together [unit·s].
    served: BTreeMap<Resource, f64>,
}

impl Load {
    /// Returns the loads by job number `job`, which alone causes all loads of the run of `scenario`.
    fn new(scenario: &Scenario, outcome: &Outcome, job: usize) -> Load {
        let served = outcome.resources.iter().map(|of| (of.of, of.served));
        let served: BTreeMap<Resource, f64> = served.collect();
        let copies = outcome.jobs.iter().filter(|copy| copy.job == job);
        let sum = |of: fn(&JobOutcome) -> u64| copies.clone().map(of).sum::<u64>() as f64;
        let [started, delivered] =
            [sum(|copy| copy.samples.started), sum(|copy| copy.samples.enqueued)];
        // Samples that workers have begun to read, but not delivered, have caused a part of their load: what the storage has sent
        // of them, or half on average.
        let described = &scenario.jobs[job];
        let storage = described.reads_from();
        let sent = [Part::Bandwidth, Part::Target]
            .map(|part| served.get(&Resource::storage(storage, part)));
        let sent = sent.into_iter().flatten().next().copied();
        let read = sent.map(|bytes| bytes / scenario.datasets[described.dataset].mean_read());
        let half = (started + delivered) / 2.0;
        let samples = read.unwrap_or(half).clamp(delivered, started.max(delivered));
        Load { samples, served }
    }

    /// Returns this load without that of `samples` samples that each load as much as those of `other`.
    fn without(&self, other: &Load, samples: f64) -> Load {
        let rest = |(of, served): (&Resource, &f64)| {
            let each = other.served.get(of).map_or(0.0, |served| served / other.samples);
            (*of, (served - samples * each).max(0.0))
        };
        Load { samples: self.samples - samples, served: self.served.iter().map(rest).collect() }
    }
}

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

/// Returns the uses by a job that is alone in its scenario and whose epochs are alike, from the run itself.
pub(super) fn of_only_job(subject: &Subject, base: &Outcome) -> Demands {
    if !is_shown(subject.scenario) {
        return Demands::default();
    }
    let load = Load::new(subject.scenario, base, subject.job);
    let all = uses(subject, (subject.scenario, base), &load);
    Demands { first_epoch: None, lasting: all.map(|of| (subject.job, of)).into_iter().collect() }
}

/// Returns the uses by a job that is alone in its scenario and whose later epochs read from caches, and the events of the run that
/// shows them: at most `budget`.
pub(super) fn of_epochs(reference: &Reference, budget: u64, runs: ShortRuns) -> (Demands, u64) {
    let subject = &reference.subject;
    if budget == 0 || !is_shown(subject.scenario) {
        return (Demands::default(), 0);
    }
    let run = Alone::simulate(reference, budget, runs);
    let (job, events) = (subject.job, run.outcome.events);
    let Some(first) = run.load() else { return (Demands::default(), events) };
    let described = &subject.scenario.jobs[job];
    let samples = subject.scenario.samples_of_epoch(described) as f64 * f64::from(described.copies);
    let base = reference.base();
    let later = Load::new(subject.scenario, base, job).without(&first, samples);
    let of = |uses: Option<_>| uses.map(|of| (job, of)).into_iter().collect();
    let demands = Demands {
        first_epoch: Some(of(uses(subject, (&run.scenario, &run.outcome), &first))),
        lasting: of(uses(subject, (subject.scenario, base), &later)),
    };
    (demands, events)
}

/// Returns the uses by several jobs, from a run of each job alone, and the events of these runs: at most `budget`. If later epochs
/// of a job find more in caches, only those in the first epoch are known.
pub(super) fn of_jobs(all: &[&Reference], budget: u64, runs: ShortRuns) -> (Demands, u64) {
    if budget == 0 || all.len() > MOST_JOBS || all.iter().any(|of| !is_shown(of.subject.scenario)) {
        return (Demands::default(), 0);
    }
    let one = |reference: &&Reference, each: u64| {
        let run = Alone::simulate(reference, each, runs);
        let subject = &reference.subject;
        let found = run.load().and_then(|load| uses(subject, (&run.scenario, &run.outcome), &load));
        (subject.job, found, run.outcome.events)
    };
    // Short runs come first, and leave more of the budget to the rest.
    let mut all = all.to_vec();
    all.sort_by(|a, b| a.time_alone().0.total_cmp(&b.time_alone().0));
    let (mut found, mut events, mut left) = (Uses::new(), 0, all.len() as u64);
    for some in all.chunks(AT_ONCE) {
        let each = budget.saturating_sub(events) / left;
        let these: Vec<_> = some.par_iter().map(|of| one(of, each)).collect();
        left -= some.len() as u64;
        events += these.iter().map(|(.., events)| events).sum::<u64>();
        found.extend(these.into_iter().filter_map(|(job, of, _)| Some((job, of?))));
    }
    let demands = match all.iter().any(|of| of.outlasts_first_epoch()) {
        true => Demands { first_epoch: Some(found), lasting: Uses::new() },
        false => Demands { first_epoch: None, lasting: found },
    };
    (demands, events)
}

/// A short run in which only one job begins.
struct Alone {
    job: usize,
    scenario: Scenario,
    outcome: Outcome,
    /// Minimum number of steps that show what each sample loads.
    least: usize,
}

impl Alone {
    /// Simulates the job of `reference` alone, for at most `most_events` events.
    fn simulate(reference: &Reference, most_events: u64, runs: ShortRuns) -> Alone {
        let (time, least) = reference.time_alone();
        let scenario = alone(&reference.subject, time);
        let outcome = runs.simulate(&scenario, most_events, &[]);
        Alone { job: reference.subject.job, scenario, outcome, least }
    }

    /// Returns what the job's samples load; `None` if the run is too short to show it.
    fn load(&self) -> Option<Load> {
        let mut copies = self.outcome.jobs.iter().filter(|copy| copy.job == self.job);
        let enough = copies.all(|copy| copy.steps.len() >= self.least);
        enough.then(|| Load::new(&self.scenario, &self.outcome, self.job))
    }
}

/// Returns the scenario in which only one job begins, and which ends after `time` [s]. Only one copy of the job runs if copies share
/// neither nodes nor rack uplinks, because each sample then loads the same resources in every copy.
fn alone(subject: &Subject, time: f64) -> Scenario {
    let mut scenario = subject.scenario.clone();
    scenario.run.stop = Stop::Duration(time);
    scenario.faults.clear();
    let apart = !scenario.cluster.share_nodes && scenario.cluster.racks.is_none();
    for (index, job) in scenario.jobs.iter_mut().enumerate() {
        job.stop = None;
        if index == subject.job {
            job.start = 0.0;
            job.copies = if apart { 1 } else { job.copies };
        } else {
            (job.start, job.prefill) = (2.0 * time, 0);
        }
    }
    scenario
}

/// Returns the use of one resource of each sort if the job never waits for input, from its `load` in a run of `scenario`, in which
/// it may have fewer copies; `None` if the load or the rate of the job is not known.
fn uses(
    subject: &Subject,
    (scenario, outcome): (&Scenario, &Outcome),
    load: &Load,
) -> Option<BTreeMap<Resource, f64>> {
    let (wanted, _) = rates(subject)?;
    let job = subject.job;
    let nodes = |job: usize| scenario.nodes_of(job).len() as f64;
    let all = (0..scenario.jobs.len()).map(nodes);
    let all = if scenario.cluster.share_nodes { all.fold(0.0, f64::max) } else { all.sum() };
    let of = |resource: &ResourceOutcome| {
        let in_nodes = resource.of.is_in_nodes(scenario);
        let own = in_nodes || matches!(resource.of.owner, Owner::Job(_));
        // A job uses only what its own nodes have.
        let part = if in_nodes { nodes(job) / all } else { 1.0 };
        let copies = if own { scenario } else { subject.scenario }.jobs[job].copies;
        let each = load.served[&resource.of] / load.samples / f64::from(resource.count);
        (resource.of, each / part * wanted * f64::from(copies))
    };
    (load.samples > 0.0).then(|| outcome.resources.iter().map(of).collect())
}
