//! Which job copies must finish for the run to end, and which begin when others have ended.

use forebay_report::Unfinished;
use forebay_scenario::Scenario;

use super::job_run::JobRun;
use crate::env::{Delay, Env, Event};
use crate::ids::{IdVec, JobId};

/// A job copy that waits for other jobs to end.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) job: JobId,
    /// Indices of the scenario's jobs whose copies must all have ended.
    pub(crate) after: Vec<usize>,
    /// Time from the end of those jobs until the job copy begins.
    pub(crate) delay: Delay,
}

/// The order of job copies, and the end of the run.
#[derive(Debug, Default)]
pub(super) struct Workflow {
    /// Job copies that wait for other jobs to end.
    waiting: Vec<Waiting>,
    /// Index of the scenario's job whose copies must finish for the run to end; `None`: all job copies must.
    until: Option<usize>,
    /// Number of job copies that must still finish for the run to end.
    unfinished: usize,
    /// A job copy that is assumed never to end, because it failed too often in a row without progress; it ends the run.
    hopeless: Option<JobId>,
}

impl Workflow {
    /// Returns the workflow of `jobs` job copies that must all finish, `waiting` of which begin when others have ended.
    pub(super) fn new(jobs: usize, waiting: Vec<Waiting>) -> Workflow {
        Workflow { waiting, unfinished: jobs, ..Workflow::default() }
    }

    /// Lets the run end when the copies of one job have finished.
    pub(super) fn end_with(&mut self, until: Option<usize>, jobs: &IdVec<JobId, JobRun>) {
        self.until = until;
        self.unfinished = jobs.iter().filter(|run| self.must_finish(run)).count();
    }

    /// Returns whether the run goes on until this job copy has finished.
    fn must_finish(&self, run: &JobRun) -> bool {
        self.until.is_none_or(|job| run.job == job)
    }

    /// Returns whether the run is over: no job copy must still finish.
    pub(super) fn is_over(&self) -> bool {
        self.unfinished == 0
    }

    /// Ends the run, although job copies have work left.
    pub(super) fn cut_off(&mut self) {
        self.unfinished = 0;
    }

    /// Ends the run because job copy `j` is assumed never to end.
    pub(super) fn give_up(&mut self, j: JobId) {
        self.hopeless = Some(j);
        self.cut_off();
    }

    /// Returns the job copy that is assumed never to end, if there is one.
    pub(super) fn hopeless(&self) -> Option<JobId> {
        self.hopeless
    }

    /// Counts that a job copy has finished.
    pub(super) fn count_finished(&mut self, run: &JobRun) {
        // A run that was cut off counts no unfinished job any more, but handles everything that ends at the same instant.
        if self.must_finish(run) {
            self.unfinished = self.unfinished.saturating_sub(1);
        }
    }

    /// Returns whether job copy `j` begins when others have ended.
    pub(super) fn waits(&self, j: JobId) -> bool {
        self.waiting.iter().any(|waiting| waiting.job == j)
    }

    /// Schedules, after a job copy has ended, the start of the job copies for which all awaited jobs have now ended.
    #[inline]
    pub(super) fn release(&mut self, env: &mut Env, jobs: &IdVec<JobId, JobRun>) {
        if self.waiting.is_empty() {
            return;
        }
        let over = |of: &usize| jobs.iter().all(|run| run.job != *of || run.is_finished());
        let ready = |waiting: &mut Waiting| waiting.after.iter().all(over);
        for next in self.waiting.extract_if(.., ready) {
            env.after(next.delay, Event::JobStarted(next.job));
        }
    }

    /// Returns the first job with work left and the reason; `None` if all jobs are finished.
    pub(super) fn left_over(
        &self,
        jobs: &IdVec<JobId, JobRun>,
        scenario: &Scenario,
    ) -> Option<Unfinished> {
        let name = |run: &JobRun| scenario.jobs[run.job].name.clone();
        if let Some(j) = self.hopeless {
            return Some(Unfinished::Failing { job: name(&jobs[j]) });
        }
        let left = |run: &&JobRun| !run.is_finished() && self.must_finish(run);
        let first = jobs.iter().find(left).filter(|_| !self.is_over());
        first.map(|run| Unfinished::TooLong { job: name(run) })
    }
}
