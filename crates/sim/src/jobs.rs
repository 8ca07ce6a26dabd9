//! The owner of all job copies: their devices, loaders, communicators, checkpoints and failures.

use forebay_metrics::Segment;
use forebay_report::Unfinished;
use forebay_scenario::Scenario;

use super::communication::Communicators;
use super::device::Device;
use super::env::Env;
use super::event::Event;
use super::ids::{DeviceId, IdVec, JobId, TrainerId};
use super::job_run::JobRun;
use super::launch::Trainer;
use super::loaders::Loaders;
use super::recovery::Recoveries;
use super::workflow::Waiting;

/// The tables of all job copies and their devices, loaders, communicators, checkpoints and failures.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) jobs: IdVec<JobId, JobRun>,
    pub(super) devices: IdVec<DeviceId, Device>,
    pub(super) trainers: IdVec<TrainerId, Trainer>,
    pub(super) loaders: Loaders,
    pub(super) communicators: Communicators,
    pub(super) recoveries: Recoveries,
    /// Job copies that wait for other jobs to end.
    pub(super) waiting: Vec<Waiting>,
    /// Index of the scenario's job whose copies must finish for the run to end; `None`: all job copies must.
    pub(super) until: Option<usize>,
    /// Number of job copies that must still finish for the run to end.
    pub(super) unfinished: usize,
    /// A job copy that is assumed never to end, because it failed too often in a row without progress; it ends the run.
    pub(super) hopeless: Option<JobId>,
    /// Scratch space for the causes of a stall.
    pub(super) segments: Vec<Segment>,
}

impl Jobs {
    /// Lets the run end when the copies of one job have finished.
    pub(super) fn end_with(&mut self, until: Option<usize>) {
        self.until = until;
        self.unfinished = self.jobs.iter().filter(|run| self.must_finish(run)).count();
    }

    /// Returns whether the run goes on until this job copy has finished.
    pub(super) fn must_finish(&self, run: &JobRun) -> bool {
        self.until.is_none_or(|job| run.job == job)
    }

    /// Schedules the start of each job copy that waits for no other job.
    pub(super) fn begin(&self, env: &mut Env) {
        for (job, j) in self.jobs.iter().zip(self.jobs.ids()) {
            if !self.waiting.iter().any(|waiting| waiting.job == j) {
                env.calendar.schedule(job.start, Event::JobStarted(j));
            }
        }
    }

    /// Returns the first job with work left and the reason; `None` if all jobs are finished.
    pub(super) fn left_over(&self, scenario: &Scenario) -> Option<Unfinished> {
        let name = |run: &JobRun| scenario.jobs[run.job].name.clone();
        if let Some(j) = self.hopeless {
            return Some(Unfinished::Failing { job: name(&self.jobs[j]) });
        }
        let left = |run: &&JobRun| !run.finished && self.must_finish(run);
        let first = self.jobs.iter().find(left).filter(|_| self.unfinished > 0);
        first.map(|run| Unfinished::TooLong { job: name(run) })
    }
}
