//! Jobs that begin when others have ended.

use forebay_engine::Time;
use forebay_metrics::Steps;

use super::env::Env;
use super::event::{Delay, Event};
use super::ids::JobId;
use super::jobs::Jobs;
use super::notice::Notice;

/// A job copy that waits for other jobs to end.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) job: JobId,
    /// Indices of the scenario's jobs whose copies must all have ended.
    pub(super) after: Vec<usize>,
    /// Time from the end of those jobs until the job copy begins.
    pub(super) delay: Delay,
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
    pub(super) fn begin_job(&mut self, env: &mut Env, j: JobId) {
        if self.jobs[j].start != env.now {
            self.begin_late(env.now, j);
        }
        match self.jobs[j].parts.stagings {
            stagings if stagings.is_empty() => self.start_job(env, j),
            stagings => env.notices.push_back(Notice::Stage(stagings)),
        }
    }

    /// Starts the training of job copy `j`, since all its nodes have the data that are copied to them.
    pub(super) fn end_staging(&mut self, env: &mut Env, j: JobId) {
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
