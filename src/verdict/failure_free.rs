//! The run without failures of nodes, but with all checkpoints, with which levers are compared that have nothing to do with failures.
//!
//! Failures come at random: a short run has more or fewer of them than as many average steps of the run itself, and the difference
//! would be taken for an effect of the relaxed limit.

use crate::report::{JobOutcome, Outcome, RecoveryOutcome};

use super::base_runs::BaseRun;
use super::candidates::Subject;
use super::empty_queues::share_of_epochs;
use super::short_runs::ShortRuns;

/// Minimum number of failures in a run that shows what they cost.
pub(super) const FEWEST_FAILURES: u64 = 10;
/// Budget of the run, as a share of the events of one replication; at least [`LEAST_BUDGET`](super::LEAST_BUDGET) events.
const BUDGET: f64 = 0.1;
/// Number of checkpoints that the run should have, and the maximum share of the events of one replication that they may take.
const CHECKPOINTS: f64 = 2.5;
const MOST: f64 = 0.3;

/// Simulates the run of `subject` without failures, and returns it with the number of events that it took. Returns no run if nothing
/// has failed, or if the run has no later epochs although caches make them differ.
pub(super) fn without_failures(
    subject: &Subject,
    base: &Outcome,
    runs: ShortRuns,
) -> (Option<BaseRun>, u64) {
    if sum(base, |of| of.failures) == 0 {
        return (None, 0);
    }
    let mut scenario = subject.scenario.clone();
    scenario.jobs.iter_mut().for_each(|job| job.failures = None);
    let checkpoints = share_of_checkpoints(base);
    let epochs = if subject.keeps() { share_of_epochs(subject, base) } else { Some(0.0) };
    let Some(epochs) = epochs else { return (None, 0) };
    let share = BUDGET.max(checkpoints).max(epochs);
    let run = runs.base(scenario, base, share, Vec::new());
    let spent = run.outcome.events;
    (Some(run).filter(|run| !run.is_cold(subject)), spent)
}

/// Returns the average share of a run's events between [`CHECKPOINTS`] checkpoints, at most [`MOST`]; 0 if the run wrote none.
pub(super) fn share_of_checkpoints(base: &Outcome) -> f64 {
    match sum(base, |of| of.checkpoints) {
        0 => 0.0,
        written => (CHECKPOINTS / written as f64).min(MOST),
    }
}

/// Returns the number of failures or checkpoints, whichever `of` selects, of all job copies of a run.
fn sum(base: &Outcome, of: fn(&RecoveryOutcome) -> u64) -> u64 {
    base.jobs.iter().filter_map(|copy: &JobOutcome| copy.recovery.as_ref()).map(of).sum()
}
