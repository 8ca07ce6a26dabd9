//! The owner of all job copies: their devices, loaders, communicators, checkpoints and failures; and jobs that begin when others
//! have ended.

use forebay_engine::Time;
use forebay_metrics::{Segment, Steps};
use forebay_report::Unfinished;
use forebay_scenario::Scenario;

use super::job_run::JobRun;
use super::recovery::Recoveries;
use crate::communication::Communicators;
use crate::device::{Device, Trainer};
use crate::env::{Delay, Env, Event, Notice};
use crate::ids::{DeviceId, IdVec, JobId, TrainerId};
use crate::loader::Loaders;

/// The tables of all job copies and their devices, loaders, communicators, checkpoints and failures.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) jobs: IdVec<JobId, JobRun>,
    pub(crate) devices: IdVec<DeviceId, Device>,
    pub(crate) trainers: IdVec<TrainerId, Trainer>,
    pub(crate) loaders: Loaders,
    pub(crate) communicators: Communicators,
    pub(crate) recoveries: Recoveries,
    /// Job copies that wait for other jobs to end.
    pub(crate) waiting: Vec<Waiting>,
    /// Index of the scenario's job whose copies must finish for the run to end; `None`: all job copies must.
    pub(crate) until: Option<usize>,
    /// Number of job copies that must still finish for the run to end.
    pub(crate) unfinished: usize,
    /// A job copy that is assumed never to end, because it failed too often in a row without progress; it ends the run.
    pub(crate) hopeless: Option<JobId>,
    /// Scratch space for the causes of a stall.
    pub(crate) segments: Vec<Segment>,
}

impl Jobs {
    /// Lets the run end when the copies of one job have finished.
    pub(crate) fn end_with(&mut self, until: Option<usize>) {
        self.until = until;
        self.unfinished = self.jobs.iter().filter(|run| self.must_finish(run)).count();
    }

    /// Returns whether the run goes on until this job copy has finished.
    pub(super) fn must_finish(&self, run: &JobRun) -> bool {
        self.until.is_none_or(|job| run.job == job)
    }

    /// Schedules the start of each job copy that waits for no other job.
    pub(crate) fn begin(&self, env: &mut Env) {
        for (job, j) in self.jobs.iter().zip(self.jobs.ids()) {
            if !self.waiting.iter().any(|waiting| waiting.job == j) {
                env.calendar.schedule(job.start, Event::JobStarted(j));
            }
        }
    }

    /// Returns the first job with work left and the reason; `None` if all jobs are finished.
    pub(crate) fn left_over(&self, scenario: &Scenario) -> Option<Unfinished> {
        let name = |run: &JobRun| scenario.jobs[run.job].name.clone();
        if let Some(j) = self.hopeless {
            return Some(Unfinished::Failing { job: name(&self.jobs[j]) });
        }
        let left = |run: &&JobRun| !run.finished && self.must_finish(run);
        let first = self.jobs.iter().find(left).filter(|_| self.unfinished > 0);
        first.map(|run| Unfinished::TooLong { job: name(run) })
    }
}

/// A job copy that waits for other jobs to end.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) job: JobId,
    /// Indices of the scenario's jobs whose copies must all have ended.
    pub(crate) after: Vec<usize>,
    /// Time from the end of those jobs until the job copy begins.
    pub(crate) delay: Delay,
}

impl Jobs {
    /// Schedules, after a job copy has ended, the start of the job copies for which all awaited jobs have now ended.
    #[cold]
    pub(super) fn release_jobs(&mut self, env: &mut Env) {
        let jobs = &self.jobs;
        let over = |of: &usize| jobs.iter().all(|run| run.job != *of || run.finished);
        let ready = |waiting: &mut Waiting| waiting.after.iter().all(over);
        for next in self.waiting.extract_if(.., ready) {
            env.after(next.delay, Event::JobStarted(next.job));
        }
    }

    /// Begins job copy `j`: copies its data sets to its nodes first, or starts training at once.
    pub(crate) fn begin_job(&mut self, env: &mut Env, j: JobId) {
        if self.jobs[j].start != env.now {
            self.begin_late(env.now, j);
        }
        match self.jobs[j].parts.stagings {
            stagings if stagings.is_empty() => self.start_job(env, j),
            stagings => env.notices.push_back(Notice::Stage(stagings)),
        }
    }

    /// Starts the training of job copy `j`, since all its nodes have the data that are copied to them.
    pub(crate) fn end_staging(&mut self, env: &mut Env, j: JobId) {
        self.begin_late(env.now, j);
        self.start_job(env, j);
    }

    /// Sets the start time of job copy `j` to `now`, because the time was not known before.
    fn begin_late(&mut self, now: Time, j: JobId) {
        let job = &mut self.jobs[j];
        job.start = now;
        job.steps = Steps::new(now);
        for l in job.parts.loaders {
            self.loaders[l].queue.restart(now);
        }
    }
}
