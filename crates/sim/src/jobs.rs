//! The owner of all job copies: their devices, loaders and communicators.

use forebay_metrics::Segment;
use forebay_report::Unfinished;
use forebay_scenario::Scenario;

use super::communication::Communicators;
use super::device::Device;
use super::env::Env;
use super::event::Event;
use super::index::{IdVec, JobId};
use super::job_run::JobRun;
use super::loaders::Loaders;
use super::workflow::Waiting;

/// The tables of all job copies.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) jobs: IdVec<JobRun>,
    pub(super) devices: IdVec<Device>,
    pub(super) loaders: Loaders,
    pub(super) communicators: Communicators,
    /// Job copies that wait for others to end.
    pub(super) waiting: Vec<Waiting>,
    /// How many are not over.
    pub(super) unfinished: usize,
    /// A job copy that fails more often than it gets on.
    pub(super) hopeless: Option<JobId>,
    /// Scratch space for causes.
    pub(super) segments: Vec<Segment>,
}

impl Jobs {
    /// Plans when those begin that wait for no others.
    pub(super) fn begin(&self, env: &mut Env) {
        for (job, j) in self.jobs.iter().zip(self.jobs.ids()) {
            if !self.waiting.iter().any(|waiting| waiting.job == j) {
                env.calendar.schedule(job.start, Event::JobStarted(j));
            }
        }
    }

    /// The first job that has work left, if nobody interrupted it.
    pub(super) fn left_over(&self, scenario: &Scenario) -> Option<Unfinished> {
        let name = |run: &JobRun| scenario.jobs[run.job].name.clone();
        if let Some(j) = self.hopeless {
            return Some(Unfinished::Failing { job: name(&self.jobs[j]) });
        }
        let first = self.jobs.iter().find(|job| !job.finished).filter(|_| self.unfinished > 0);
        first.map(|run| Unfinished::TooLong { job: name(run) })
    }
}
