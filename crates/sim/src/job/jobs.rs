//! The owner of all job copies: their devices, loaders, communicators, checkpoints and failures.

use forebay_engine::Time;
use forebay_metrics::Segment;
use forebay_report::Unfinished;
use forebay_scenario::Scenario;

use super::job_run::JobRun;
use super::recovery::Recoveries;
use super::workflow::{Waiting, Workflow};
use crate::communication::Communicators;
use crate::device::Devices;
use crate::env::{Env, Event, Notice};
use crate::ids::{DeviceId, IdVec, Ids, JobId};
use crate::loader::Loaders;

/// The tables of all job copies and their devices, loaders, communicators, checkpoints and failures.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(super) jobs: IdVec<JobId, JobRun>,
    pub(super) devices: Devices,
    pub(crate) loaders: Loaders,
    pub(crate) communicators: Communicators,
    pub(super) recoveries: Recoveries,
    pub(super) workflow: Workflow,
    /// Scratch space for the causes of a stall.
    pub(super) segments: Vec<Segment>,
    /// Whether job copies halt after steps, and which one has halted.
    pub(super) halts: bool,
    pub(super) halted: Option<JobId>,
}

impl Jobs {
    /// Returns job copies before anything has happened; `waiting` are those that begin when others have ended.
    pub(crate) fn new(
        jobs: IdVec<JobId, JobRun>,
        devices: Devices,
        (loaders, communicators): (Loaders, Communicators),
        recoveries: Recoveries,
        waiting: Vec<Waiting>,
    ) -> Jobs {
        let workflow = Workflow::new(jobs.len(), waiting);
        Jobs { jobs, devices, loaders, communicators, recoveries, workflow, ..Jobs::default() }
    }

    /// Returns all job copies.
    pub(crate) fn all(&self) -> &IdVec<JobId, JobRun> {
        &self.jobs
    }

    /// Returns the devices of all job copies.
    pub(crate) fn devices(&self) -> Ids<DeviceId> {
        self.devices.ids()
    }

    /// Returns the index of the scenario's job to which device `d` belongs.
    pub(crate) fn job_of_device(&self, d: DeviceId) -> usize {
        self.jobs[self.devices[d].job].job
    }

    /// Lets the run end when the copies of one job have finished.
    pub(crate) fn end_with(&mut self, until: Option<usize>) {
        self.workflow.end_with(until, &self.jobs);
    }

    /// Returns whether the run is over: no job copy must still finish.
    #[inline]
    pub(crate) fn are_over(&self) -> bool {
        self.workflow.is_over()
    }

    /// Ends the run, although job copies have work left.
    pub(crate) fn cut_off(&mut self) {
        self.workflow.cut_off();
    }

    /// Returns whether the run has ended because a job copy is assumed never to end.
    pub(crate) fn are_hopeless(&self) -> bool {
        self.workflow.hopeless().is_some()
    }

    /// Returns the first job with work left and the reason; `None` if all jobs are finished.
    pub(crate) fn left_over(&self, scenario: &Scenario) -> Option<Unfinished> {
        self.workflow.left_over(&self.jobs, scenario)
    }

    /// Records that the data that job copies copy to their nodes before training are there already.
    pub(crate) fn skip_stagings(&mut self) {
        self.jobs.iter_mut().for_each(|job| job.parts.stagings = Ids::default());
    }

    /// Schedules the start of each job copy that waits for no other job.
    pub(crate) fn begin(&self, env: &mut Env) {
        for (job, j) in self.jobs.iter().zip(self.jobs.ids()) {
            if !self.workflow.waits(j) {
                env.calendar.schedule(job.start(), Event::JobStarted(j));
            }
        }
    }

    /// Begins job copy `j`: copies its data sets to its nodes first, or starts training at once.
    pub(crate) fn begin_job(&mut self, env: &mut Env, j: JobId) {
        if self.jobs[j].start() != env.now {
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
        job.begin_at(now);
        for l in job.parts.loaders {
            self.loaders.begin_at(now, l);
        }
    }
}
