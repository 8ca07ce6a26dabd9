//! The run without prefilled queues, which takes the place of a run that lives on what its queues held at the start.
//!
//! Such a run shows how long the queues last, and not how fast training is after that. Short runs that begin with full queues would
//! not show it either.

use crate::report::{JobOutcome, Outcome};
use crate::scenario::{Job, QueueKind, Scenario, Stop};

use super::base_runs::BaseRun;
use super::candidates::Subject;
use super::course::Course;
use super::short_runs::ShortRuns;

/// Minimum share of prefilled samples, among those that trainers took, at which a run counts as living on them.
const NOTED: f64 = 0.03;
/// Budget of the run, as a share of the events of one replication; at least [`LEAST_BUDGET`](super::LEAST_BUDGET) events.
const BUDGET: f64 = 0.05;
/// Number of epochs that the run should make if the first one is slower than later ones, because caches are empty.
const EPOCHS: f64 = 1.5;
/// Maximum share of the events of one replication that these epochs may take.
const MOST: f64 = 0.6;
/// Number of steps that is never reached, so that the run ends with its budget of events.
pub(super) const ENDLESS: u64 = 1_000_000_000;

/// Simulates the run of `subject` with empty queues, and returns it with the number of events that it took.
///
/// Returns no run if no job has used up much of what its queue held at the start. Nor if this shorter run might not reach what
/// matters: the job's first step, an epoch with filled caches, a fault, a failure, a checkpoint, or a job that begins after another.
pub(super) fn with_empty_queues(
    subject: &Subject,
    base: &Outcome,
    runs: ShortRuns,
) -> (Option<BaseRun>, u64) {
    let given = subject.scenario;
    let drained = base.jobs.iter().any(|copy| lives_on_prefill(given, copy));
    let writes = given.jobs.iter().any(|job| job.checkpoint.is_some());
    if !drained || writes || has_late_events(given) {
        return (None, 0);
    }
    let mut scenario = given.clone();
    scenario.run.stop = Stop::Steps(ENDLESS);
    for job in &mut scenario.jobs {
        if job.queue != QueueKind::Circular {
            job.prefill = 0;
        }
        job.stop = None;
    }
    let share = if subject.keeps() { share_of_epochs(subject, base) } else { Some(BUDGET) };
    let Some(share) = share else { return (None, 0) };
    let run = runs.base(scenario, base, share, Vec::new());
    let spent = run.outcome.events;
    let mut copies = run.outcome.jobs.iter().filter(|copy| copy.job == subject.job);
    let short = run.is_cold(subject) || copies.any(|copy| copy.steps.is_empty());
    ((!short).then_some(run), spent)
}

/// Returns whether a scenario has faults, failures or jobs that begin after others, which a shorter run might not reach.
pub(super) fn has_late_events(scenario: &Scenario) -> bool {
    let late = |job: &Job| job.failures.is_some() || !job.after.is_empty();
    !scenario.faults.is_empty() || scenario.jobs.iter().any(late)
}

/// Returns the share of its events that the run took for [`EPOCHS`] epochs of the job; `None` if that is more than [`MOST`].
pub(super) fn share_of_epochs(subject: &Subject, base: &Outcome) -> Option<f64> {
    let job = &subject.scenario.jobs[subject.job];
    let samples = EPOCHS * subject.scenario.samples_of_epoch(job) as f64;
    let course = Course::new(job, subject.job, base)?;
    let events = course.events_of(course.first_epoch(samples.ceil() as u64));
    Some(events as f64 / base.events.max(1) as f64).filter(|share| *share <= MOST)
}

/// Returns whether a copy has taken many more samples from its queue than its workers have added.
fn lives_on_prefill(scenario: &Scenario, copy: &JobOutcome) -> bool {
    let job = &scenario.jobs[copy.job];
    let queue = copy.steps.last().map(|last| last.queue);
    job.prefill > 0
        && job.queue != QueueKind::Circular
        && queue.is_some_and(|queue| {
            let held = queue.dequeued.saturating_sub(queue.enqueued);
            held as f64 > NOTED * queue.dequeued as f64
        })
}
