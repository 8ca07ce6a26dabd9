//! Failures of nodes: a job copy stops at once, and restarts from the state of its last checkpoint, which its nodes may have to
//! read back first.
//!
//! A failed node may take its files with it. If it had a part of the checkpoints, none of them is complete any more, and the job
//! copy begins again at step 0.
//!
//! Everything in progress ends with the failure. The steps since the checkpoint are removed from the books, and their time
//! becomes a stall caused by the fault. So each sample is trained on as often as without failures.

mod abort;
mod checkpoint;
mod failures;
mod restored;
mod state;
mod tables;

use forebay_engine::Time;
use forebay_report::{Cause, StallCause};

use super::jobs::Jobs;
use crate::env::{Env, broken};
use crate::ids::{DeviceId, FailuresId, JobId};
use checkpoint::Saved;
use failures::Failed;

pub(crate) use checkpoint::{CheckpointRun, CheckpointSettings, StatePart, WritePlace};
pub(crate) use failures::{FailureRun, FailureSettings};
pub(crate) use restored::{EpochRun, Restored};
pub(crate) use tables::{Recoveries, RecoveryRun};

impl Jobs {
    /// Saves the initial state of job copy `j`, which begins to train for the first time, and schedules its failures.
    pub(super) fn begin_recovery(&mut self, env: &mut Env, j: JobId) {
        let parts = self.jobs[j].parts;
        if !parts.recoveries.is_empty() {
            let initial = Saved::new(self.state(j, 0), env.now);
            self.recoveries.begin(env, parts, initial);
        }
    }

    /// Handles a failure of node `node` of failures `f`.
    #[cold]
    pub(crate) fn fail(&mut self, env: &mut Env, f: FailuresId, node: u32) {
        let j = self.recoveries.job_of(f);
        if self.jobs[j].is_finished() {
            return;
        }
        match self.recoveries.fail(env, f, node) {
            Failed::Hopeless => {
                return self.workflow.give_up(j);
            }
            Failed::Up => self.stop_job(env, j),
            Failed::Down => {}
        }
        self.recoveries.schedule_restart(env, f);
    }

    /// Stops job copy `j` and everything that it has in progress.
    fn stop_job(&mut self, env: &mut Env, j: JobId) {
        self.close_open(j);
        self.abort(env, j);
        for d in self.jobs[j].parts.devices {
            self.stop_device(env, d);
        }
        let job = &mut self.jobs[j];
        job.forget_open_steps();
        for l in job.parts.loaders {
            self.loaders.stop(env, l);
        }
    }

    fn stop_device(&mut self, env: &mut Env, d: DeviceId) {
        self.stop_waiting(env, d);
        self.devices[d].abort(env.now);
        self.devices.trace(env, d, Cause::Fault.name());
    }

    /// Restarts the job copy of failures `f`, unless it has failed again meanwhile: lets its nodes read the last checkpoint back
    /// if they do, and then the job copy train.
    pub(crate) fn restart(&mut self, env: &mut Env, f: FailuresId) {
        if let Some(since) = self.recoveries.begin_restart(env, f) {
            self.resume(env, f, since);
        }
    }

    /// Ends the transfer of one part of the checkpoint that the nodes of a job copy read back.
    pub(crate) fn end_part_read_back(&mut self, env: &mut Env, f: FailuresId) {
        if let Some(since) = self.recoveries.end_part_read_back(env.now, f) {
            self.resume(env, f, since);
        }
    }

    /// Lets the job copy of failures `f`, which has been down since `since`, train again from its last checkpoint.
    fn resume(&mut self, env: &mut Env, f: FailuresId, since: Time) {
        let j = self.recoveries.job_of(f);
        self.go_back(f, since, env.now);
        self.charge_restart(env.now, j);
        let job = &mut self.jobs[j];
        let (parts, plan) = (job.parts, &mut job.plan);
        self.recoveries.end_restart(env.now, f, parts.checkpoints, &mut plan.goal);
        let (goal, batch) = (plan.goal.steps, plan.batch);
        for l in parts.loaders {
            self.recoveries.restore_loader(env.now, f, (&mut self.loaders, l), (goal, batch));
        }
        self.set_going(env, j);
    }

    /// Sets the job copy of failures `f`, which was down from `since` to `until`, back to its last checkpoint, and records the
    /// time that the failure cost.
    fn go_back(&mut self, f: FailuresId, since: Time, until: Time) {
        let j = self.recoveries.job_of(f);
        let recovery = self.recoveries.of(self.jobs[j].parts.recoveries);
        let Some(state) = recovery.map(|recovery| recovery.saved_state().clone()) else {
            return broken("a job copy that fails has a state from which it restarts");
        };
        self.restore(j, &state);
        self.recoveries.lose(f, (since, until), self.jobs[j].steps.last_end());
    }

    /// Charges the time from the last checkpoint of job copy `j` to its restart at `now` to its devices.
    fn charge_restart(&mut self, now: Time, j: JobId) {
        let job = &mut self.jobs[j];
        let Some(recovery) = self.recoveries.of(job.parts.recoveries) else { return };
        let (lost, end) = (recovery.waits(now), job.steps.last_end());
        for device in &mut self.devices[job.parts.devices] {
            if device.learner < job.learners.number() {
                device.account.start(end);
                for (until, cause) in lost {
                    device.account.wait(&mut job.steps, until, StallCause::own(cause));
                }
            }
        }
    }

    /// Counts the transfers of checkpoints that are in progress when the run ends at `now`.
    pub(crate) fn end_transfers(&mut self, now: Time) {
        self.recoveries.end_transfers(now);
    }

    /// Handles the end of the run at `end` for job copies that are down: they lose the steps that were not saved.
    pub(crate) fn end_down(&mut self, end: Time) {
        for f in self.recoveries.all_failures() {
            let since = self.recoveries.down_since(f);
            if let (Some(since), false) =
                (since, self.jobs[self.recoveries.job_of(f)].is_finished())
            {
                self.go_back(f, since, end);
            }
        }
    }
}
