//! Finds the bottleneck of a job by relaxing (lifting) one limit after the other.
//!
//! The causes of stalls say what an accelerator waited for last, which need not be the bottleneck. So each candidate limit is
//! relaxed by itself, to twice the amount or half the time, and the changed scenario is simulated in a short run with the same
//! random numbers. If steps become shorter, the limit is a bottleneck. Otherwise the verdict does not advise to relax the limit.
//!
//! - `candidates`: limits that may be the bottleneck, from the report; `resources`: which of them enlarge a resource; `checkpoints`: those of
//!   checkpoints; `faults`: those that are faults,
//! - `lever`: limits that can be relaxed, in words; `amount`: their amounts; `transport`: costs of the transport of
//!   gradients among them; `relax`: the scenario with a limit relaxed,
//! - `course`: the long-run step time that a range of steps shows; `reference`: the run itself, with which short runs are
//!   compared; `base_runs`: the runs in its place: `empty_queues` if it lives on prefilled queues, `after_others` if other jobs end
//!   early, `failure_free`, without failures, and `later_epochs`, with warm caches,
//! - `trial`: short runs within a budget of events; `short_runs`: what they have in common,
//! - `finder`: the search for the bottleneck of a job; `judge`: the searches for all jobs that wait,
//! - `demand`: how much of each resource each job would use if it never waited for input; `need`: which of these are too small,
//! - `statement`: the verdict as a report has it; `words`: the paragraph.

mod after_others;
mod amount;
mod base_runs;
mod candidates;
mod checkpoints;
mod course;
mod demand;
mod empty_queues;
mod failure_free;
mod faults;
mod finder;
mod judge;
mod later_epochs;
mod lever;
mod need;
mod reference;
mod relax;
mod resources;
mod short_runs;
mod statement;
#[cfg(test)]
mod tests;
mod transport;
mod trial;
mod words;

use crate::report::{Limit, Outcome, Report, Verdict, World};
use crate::scenario::Scenario;
use crate::sim::IdleCollectives;
use std::sync::atomic::AtomicBool;

use base_runs::BaseRuns;
use candidates::Subject;
use course::ROUNDS;
use judge::Judge;
use lever::{Kind, Lever};
use short_runs::ShortRuns;

use trial::Budget;

pub use trial::{LEAST_BUDGET, LEAST_TOTAL};

/// Minimum share of the step time that a lever must save to be reported.
const WORTH: f64 = 0.01;
/// A lever is reported as without effect if the upper end of the interval of its saving is at most this share of the step time.
const TELLING: f64 = 0.05;
/// Minimum share of time spent waiting at which longer runs and pairs of levers are tried if no lever has helped.
const WAITING: f64 = 0.05;

/// Minimum estimated saving of an untried lever, as a share of the job's time, at which the verdict names the lever as not
/// tried.
const PROMISING: f64 = 0.1;
/// Maximum number of levers that the verdict names as not tried.
const MOST_NOT_TRIED: usize = 3;

/// Number of short runs that are simulated in parallel.
const AT_ONCE: usize = 2;

/// Maximum relative difference by which the run's own steps may be faster than steps in the long run.
const SHORT_OF: f64 = 0.05;

/// Options for finding the verdict.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Whether to relax no limit, and instead estimate the bottleneck from the causes of stalls.
    pub quick: bool,
    /// Whether to find a verdict on other jobs that wait, too.
    pub others: bool,
    /// Ends the short runs early when it becomes true; the verdict then is an estimate.
    pub stop: Option<&'a AtomicBool>,
    /// Collectives that the run has simulated on links that nothing else uses, if they are known. They only save time.
    pub collectives: Option<&'a IdleCollectives>,
}

/// Returns the verdict on the job of the report's `bottleneck`, from the outcomes of a scenario and their report; `None` if no
/// step was completed.
#[must_use]
pub fn find(
    scenario: &Scenario,
    outcomes: &[Outcome],
    report: &Report,
    options: &Options,
) -> Option<Verdict> {
    find_all(scenario, outcomes, report, options).into_iter().next()
}

/// Returns the verdict on the job of the report's `bottleneck`, and then, if the options ask for them, short verdicts on other
/// jobs that wait, those that lose most time first.
#[must_use]
pub fn find_all(
    scenario: &Scenario,
    outcomes: &[Outcome],
    report: &Report,
    options: &Options,
) -> Vec<Verdict> {
    let named = report.bottleneck.as_ref().map(|of| &of.job);
    let job = scenario.jobs.iter().position(|job| named == Some(&job.name));
    let (Some(job), Some(base)) = (job, outcomes.first()) else { return Vec::new() };
    let subject = Subject { scenario, report, job, run: report };
    if options.quick || base.world == World::Live {
        return vec![words::estimate(&subject, base, None)];
    }
    let own = IdleCollectives::default();
    let runs = ShortRuns { stop: options.stop, collectives: options.collectives.unwrap_or(&own) };
    let bases = BaseRuns::simulate(subject, base, runs);
    let judge = Judge::new(&bases, (subject, base), Budget::new(outcomes, bases.events), runs);
    match judge.and_then(|judge| judge.judge(options.others)) {
        Some(found) if !runs.are_stopped() => found,
        Some(_) => vec![words::estimate(&subject, base, Some("short runs were interrupted"))],
        None => {
            let why = format!(
                "the run is too short for trials: the loader workers of `{}` have not made {ROUNDS} batches each",
                scenario.jobs[job].name
            );
            vec![words::estimate(&subject, base, Some(&why))]
        }
    }
}

/// A limit that can be relaxed, and the scenario in which it is relaxed.
#[derive(Debug, Clone)]
pub struct Lifted {
    /// Name of the lever, as in [`Limit::lever`].
    pub lever: &'static str,
    /// Index of the storage, job or faults that the lever belongs to, as in [`Limit::at`]; 0 for a lever of the whole machine.
    pub at: usize,
    /// The scenario with the limit relaxed.
    pub scenario: Scenario,
}

/// Returns all limits whose relaxation changes the scenario.
#[must_use]
pub fn all_lifted(scenario: &Scenario) -> Vec<Lifted> {
    let owners = |kind: Kind| match kind {
        Kind::Faults => faults::levers(scenario).len(),
        _ if kind.is_of_storage() => scenario.storage.len(),
        _ if kind.row().is_of_job() => scenario.jobs.len(),
        _ => 1,
    };
    let all =
        Kind::ALL.iter().flat_map(|&kind| (0..owners(kind)).map(move |at| Lever { kind, at }));
    let lifted = |lever: Lever| {
        let scenario = relax::relaxed(scenario, lever)?;
        Some(Lifted { lever: lever.kind.row().name, at: lever.at, scenario })
    };
    all.filter_map(lifted).collect()
}

/// Returns the scenario with `limit` relaxed, a limit that the verdict names; `None` if the scenario has no such limit.
#[must_use]
pub fn lifted(scenario: &Scenario, limit: &Limit) -> Option<Scenario> {
    let mut then = scenario.clone();
    for (name, at) in limit.lever.split('+').zip(&limit.at) {
        let kind = Kind::ALL.iter().find(|kind| kind.row().name == name)?;
        then = relax::relaxed(&then, Lever { kind: *kind, at: *at })?;
    }
    Some(then)
}

/// Stores verdicts in the report, and makes the report's `bottleneck` agree with the first one.
pub fn put(report: &mut Report, verdicts: Vec<Verdict>) {
    let mut verdicts = verdicts.into_iter();
    let Some(verdict) = verdicts.next() else { return };
    report.other_verdicts = verdicts.collect();
    if let Some(bottleneck) = &mut report.bottleneck {
        bottleneck.text.clone_from(&verdict.text);
        if let Some(first) = verdict.limits.first() {
            bottleneck.resource.clone_from(&first.resource);
            if first.lever == Kind::Step.row().name {
                "compute".clone_into(&mut bottleneck.cause);
            }
        }
    }
    correct_length(report, &verdict);
    report.verdict = Some(verdict);
}

/// Corrects the report's statements on the length of the run and the long-run rate. The rate in the verdict is more reliable,
/// because it is taken over whole cycles of workers.
fn correct_length(report: &mut Report, verdict: &Verdict) {
    let Some(long) = verdict.long_run else { return };
    let Some(job) = report.jobs.iter_mut().find(|job| job.name == verdict.job) else { return };
    let figures = (job.figures.samples_per_second.mean, job.figures.step_time.mean);
    let (Some(rate), Some(step)) = figures else { return };
    let length = &mut job.length;
    let lasting = rate * step / long.step_time;
    let drains = length.drained;
    if drains && (lasting / rate - 1.0).abs() < WORTH {
        // The buffers only seemed to drain: workers that make whole batches fill and drain them in cycles.
        (length.enough, length.why, length.drained) = (true, None, false);
        length.long_run_samples_per_second = None;
        return;
    }
    if long.reached && !drains {
        return;
    }
    length.enough = false;
    length.long_run_samples_per_second = Some(lasting);
    length.why.get_or_insert_with(|| "steps used up what its buffers held".to_owned());
}
