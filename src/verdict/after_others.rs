//! The run without jobs that end long before a job, which takes the place of a run of which that job has the last part for itself.
//!
//! In a short run with a limit relaxed, the other jobs would end after other numbers of steps of this job than in the run itself.

use crate::report::{JobOutcome, Outcome};
use crate::scenario::{Job, Stop};

use super::base_runs::BaseRun;
use super::candidates::Subject;
use super::course::Course;
use super::empty_queues::share_of_epochs;
use super::reference::{FEWEST, recovery_of};
use super::short_runs::ShortRuns;

/// Budget of the run, as a share of the events of one replication; at least [`LEAST_BUDGET`](super::LEAST_BUDGET) events.
const BUDGET: f64 = 0.15;
/// Minimum number of steps of the job in the run without the others, and of checkpoints if it writes as many in the run itself.
const FEWEST_STEPS: usize = 30;
const CHECKPOINTS: u64 = 3;

/// Simulates the run of `subject` without the jobs that end in the first half of its steps, and returns it with the number of events
/// that it took.
///
/// Returns no run if no job does, if a job begins after another has ended, or if this shorter run does not reach what matters: a fault,
/// the job's first steps, its checkpoints, or an epoch with filled caches.
pub(super) fn after_others(
    subject: &Subject,
    base: &Outcome,
    runs: ShortRuns,
) -> (Option<BaseRun>, u64) {
    let given = subject.scenario;
    let ended = ended_early(subject, base);
    let follows = given.jobs.iter().any(|job| !job.after.is_empty());
    if ended.is_empty() || follows || !given.faults.is_empty() {
        return (None, 0);
    }
    let mut scenario = given.clone();
    for job in ended {
        end_at_once(&mut scenario.jobs[job]);
    }
    let share = if subject.keeps() { share_of_epochs(subject, base) } else { Some(BUDGET) };
    let Some(share) = share else { return (None, 0) };
    let run = runs.base(scenario, base, share, Vec::new());
    let spent = run.outcome.events;
    let [wanted, shown] =
        [base, &run.outcome].map(|of| recovery_of(of, subject.job).checkpoints.min(CHECKPOINTS));
    let mut copies = run.outcome.jobs.iter().filter(|copy| copy.job == subject.job);
    let short = shown < wanted || copies.any(|copy| copy.steps.len() < FEWEST_STEPS);
    let short = short || run.is_cold(subject);
    ((!short).then_some(run), spent)
}

/// Returns the jobs that end in the first half of the steps of the job of `subject`.
fn ended_early(subject: &Subject, base: &Outcome) -> Vec<usize> {
    let jobs = &subject.scenario.jobs;
    let Some(course) = Course::new(&jobs[subject.job], subject.job, base) else {
        return Vec::new();
    };
    let end = |job: usize| {
        // A job that is down, or has waited for long, has not ended.
        let steps = match subject.scenario.stop_of(&jobs[job]) {
            Stop::Steps(steps) => steps as usize,
            Stop::Epochs(_) | Stop::Duration(_) | Stop::Known { .. } => 0,
        };
        let of = |copy: &JobOutcome| match copy.steps.last() {
            Some(last) if copy.steps.len() >= steps => last.end,
            Some(_) | None => f64::INFINITY,
        };
        let ends = base.jobs.iter().filter(|copy| copy.job == job).map(of);
        course.steps_by(ends.fold(0.0, f64::max))
    };
    let others = (0..jobs.len()).filter(|job| *job != subject.job);
    let early = |job: &usize| (FEWEST + 1..course.steps().div_ceil(2)).contains(&end(*job));
    others.filter(early).collect()
}

/// Lets a job end with its first step.
pub(super) fn end_at_once(job: &mut Job) {
    (job.stop, job.prefill) = (Some(Stop::Steps(1)), 0);
}
