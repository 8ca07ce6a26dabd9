//! The base run in later epochs. If caches make the first epoch differ, short runs with a limit relaxed are compared with this run.
//!
//! It begins in the middle of the later epochs. Its caches hold at the start what earlier epochs have left in them. Short runs begin there
//! too, so they need not read the first epoch. If they change the size of a cache, it too holds at the start what earlier epochs would have
//! left in it.

use crate::report::Outcome;
use crate::scenario::Stop;
use crate::sim::LOOK_UPS_IN_EVENT;

use super::after_others::end_at_once;
use super::base_runs::BaseRun;
use super::candidates::Subject;
use super::empty_queues::{ENDLESS, has_late_events};
use super::failure_free::share_of_checkpoints;
use super::reference::Reference;
use super::short_runs::{ShortRuns, budget_of};

/// Budget of the run, as a share of the events of one replication; at least [`LEAST_BUDGET`](super::LEAST_BUDGET) events. It is
/// larger if that is needed for a few checkpoints.
const BUDGET: f64 = 0.1;
/// Maximum share of this budget for the look-ups in caches before the run begins.
const LOOK_UPS: f64 = 0.5;

/// Simulates a run that begins in the middle of the later epochs of the job of `subject`, and returns it with the number of events that
/// it took.
///
/// Returns no run if caches do not make epochs differ, if the run of `subject` has no later epochs, or if it has something that a run
/// from there would not show: faults, failures, jobs that begin later, or too few steps.
pub(super) fn in_later_epochs(
    subject: &Subject,
    base: &Outcome,
    runs: ShortRuns,
) -> (Option<BaseRun>, u64) {
    let given = subject.scenario;
    let from = Reference::new(*subject, base).and_then(|of| of.middle_of_later_epochs());
    let begun =
        |from: &f64| base.jobs.iter().all(|copy| copy.start <= *from && !copy.steps.is_empty());
    let Some(from) = from.filter(|from| !has_late_events(given) && begun(from)) else {
        return (None, 0);
    };
    let before: Vec<f64> =
        (0..given.jobs.len()).map(|job| epochs(subject, base, job, from)).collect();
    let share = BUDGET.max(share_of_checkpoints(base));
    let events = look_ups(subject, &before) / LOOK_UPS_IN_EVENT as f64;
    if events > LOOK_UPS * budget_of(base, share) as f64 {
        return (None, 0);
    }
    let mut scenario = given.clone();
    scenario.run.stop = Stop::Steps(ENDLESS);
    for (index, job) in scenario.jobs.iter_mut().enumerate() {
        let mut copies = base.jobs.iter().filter(|copy| copy.job == index);
        let ended = copies.all(|copy| copy.steps.last().is_some_and(|last| last.end <= from));
        (job.stop, job.prefill, job.start, job.stagger) = (None, 0, 0.0, 0.0);
        if ended {
            end_at_once(job);
        }
    }
    let run = runs.base(scenario, base, share, before);
    let spent = run.outcome.events;
    (Some(run).filter(|run| Reference::is_shown_by(run, *subject)), spent)
}

/// Returns the number of epochs that the loaders of job number `job` have delivered by time `from` [s].
fn epochs(subject: &Subject, base: &Outcome, job: usize, from: f64) -> f64 {
    let samples = subject.scenario.samples_of_epoch(&subject.scenario.jobs[job]);
    let delivered = base.jobs.iter().filter(|copy| copy.job == job).map(|copy| {
        let steps = copy.steps.partition_point(|step| step.end <= from);
        steps.checked_sub(1).map_or(0, |last| copy.steps[last].queue.enqueued)
    });
    delivered.max().unwrap_or(0) as f64 / samples.max(1) as f64
}

/// Returns the number of units that all jobs look up in caches if they have read this many epochs each.
fn look_ups(subject: &Subject, epochs: &[f64]) -> f64 {
    let scenario = subject.scenario;
    let of = |(job, epochs): (usize, &f64)| {
        let described = &scenario.jobs[job];
        let dataset = &scenario.datasets[described.dataset];
        let units = dataset.places() as f64 * dataset.units_per_place() as f64;
        units * epochs * f64::from(described.copies)
    };
    let keeps = |(job, _): &(usize, &f64)| Subject { job: *job, ..*subject }.keeps();
    epochs.iter().enumerate().filter(keeps).map(of).sum()
}
