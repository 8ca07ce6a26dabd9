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
mod restored;
mod state;
mod tables;

use forebay_engine::Time;
use forebay_report::{Cause, StallCause};
use forebay_scenario::ENDLESS;

use super::jobs::Jobs;
use crate::env::{ActivityId, Delay, Env, Event};
use crate::ids::{DeviceId, FailuresId, JobId};
use checkpoint::Saved;

pub(crate) use checkpoint::{CheckpointRun, CheckpointSettings, StatePart, WritePlace};
pub(crate) use restored::{EpochRun, Restored};
pub(crate) use tables::{FailureRun, FailureSettings, Recoveries, RecoveryRun};

/// Number of failures in a row without progress (a checkpoint of a later step than any before, or the job's end) after which the
/// job is assumed never to end.
const HOPELESS: u32 = 10_000;

impl Jobs {
    /// Saves the initial state of job copy `j`, which begins to train for the first time, and schedules its failures.
    pub(super) fn begin_recovery(&mut self, env: &mut Env, j: JobId) {
        let parts = self.jobs[j].parts;
        for of in parts.recoveries {
            let initial = Saved::new(self.state(j, 0), env.now);
            self.recoveries.all[of].begin(initial);
        }
        for checkpoint in &mut self.recoveries.checkpoints[parts.checkpoints] {
            checkpoint.schedule(env.now, 0);
        }
        for f in parts.failures {
            self.recoveries.begin_failures(env, f);
        }
    }

    /// Handles a failure of node `node` of failures `f`.
    #[cold]
    pub(crate) fn failed(&mut self, env: &mut Env, f: FailuresId, node: u32) {
        let j = self.recoveries.failures[f].job;
        if self.jobs[j].finished {
            return;
        }
        self.recoveries.next_failure(env, f, node);
        let failures = &mut self.recoveries.failures[f];
        let recovery = &mut self.recoveries.all[failures.recovery];
        recovery.books.failures += 1;
        if failures.settings.loses.get(node as usize) == Some(&true) {
            recovery.lose_checkpoints();
        }
        env.network.cancel_all(env.now, |activity| *activity == ActivityId::ReadBack(f));
        failures.unread = 0;
        let restart = Delay::once(failures.settings.restart);
        let first = failures.down.is_none();
        let since = failures.down.map_or(env.now, |(since, _)| since);
        failures.down = Some((since, env.now + restart.span));
        failures.failures_without_progress += 1;
        if failures.failures_without_progress > HOPELESS {
            self.hopeless = Some(j);
            self.unfinished = 0;
            return;
        }
        if first {
            self.stop_job(env, j);
        }
        env.after(restart, Event::Waited(ActivityId::Restart(f)));
    }

    /// Stops job copy `j` and everything that it has in progress.
    fn stop_job(&mut self, env: &mut Env, j: JobId) {
        self.close_open(j);
        self.abort(env, j);
        for d in self.jobs[j].parts.devices {
            self.stop_device(env, d);
        }
        let job = &mut self.jobs[j];
        job.open.smaller.clear();
        job.open.fresh.clear();
        for l in job.parts.loaders {
            let loader = &mut self.loaders[l];
            loader.waiters.clear();
            loader.gpus.shared.iter_mut().for_each(|gpu| gpu.clear(env.now));
            for w in loader.stages.workers {
                self.loaders.stop_worker(env, w);
            }
        }
    }

    fn stop_device(&mut self, env: &mut Env, d: DeviceId) {
        self.stop_waiting(env, d);
        let device = &mut self.devices[d];
        device.account.stop(env.now);
        device.launching.iter_mut().for_each(|launching| launching.stop());
        (device.input.holds_input, device.on_gpu.kernels) = (false, Default::default());
        (device.op.at, device.op.waits) = (0, false);
        (device.input.missing, device.input.on_batch) = (0, u64::MAX / 2);
        device.input.waits.clear();
        device.input.ahead.clear();
        self.trace_device(env, d, Cause::Fault.name());
    }

    /// Restarts the job copy of failures `f`, unless it has failed again meanwhile: lets its nodes read the last checkpoint back
    /// if they do, and then the job copy train.
    pub(crate) fn restart(&mut self, env: &mut Env, f: FailuresId) {
        let failures = &mut self.recoveries.failures[f];
        let Some((since, _)) = failures.down.filter(|(_, at)| *at <= env.now) else { return };
        if failures.unread > 0 {
            // Two failures at the same time restart the job copy once.
            return;
        }
        if self.recoveries.all[failures.recovery].saved.state.steps > 0 {
            let readers = &failures.settings.readers;
            failures.unread = StatePart::move_all(readers, env, ActivityId::ReadBack(f));
            failures.reading = env.now;
        }
        if failures.unread == 0 {
            self.resume(env, f, since);
        }
    }

    /// Ends the transfer of one part of the checkpoint that the nodes of a job copy read back.
    pub(crate) fn part_read_back(&mut self, env: &mut Env, f: FailuresId) {
        let failures = &mut self.recoveries.failures[f];
        failures.unread -= 1;
        if let (0, Some((since, _))) = (failures.unread, failures.down) {
            let books = &mut self.recoveries.all[failures.recovery].books;
            books.read_backs += 1;
            books.read_back += failures.settings.readers.iter().map(|part| part.bytes).sum::<f64>();
            books.reading_seconds += env.now.since(failures.reading).seconds();
            self.resume(env, f, since);
        }
    }

    /// Lets the job copy of failures `f`, which has been down since `since`, train again from its last checkpoint.
    fn resume(&mut self, env: &mut Env, f: FailuresId, since: Time) {
        let j = self.recoveries.failures[f].job;
        self.go_back(f, since, env.now);
        self.recoveries.failures[f].down = None;
        self.account_for_restart(env.now, f);
        self.repeat_steps(f);
        for l in self.jobs[j].parts.loaders {
            self.restore_loader(env.now, f, l);
        }
        self.set_going(env, j);
    }

    /// Sets the job copy of failures `f`, which was down from `since` to `until`, back to its last checkpoint, and records the
    /// time that the failure cost.
    fn go_back(&mut self, f: FailuresId, since: Time, until: Time) {
        let FailureRun { job: j, recovery: of, .. } = self.recoveries.failures[f];
        let state = self.recoveries.all[of].saved.state.clone();
        self.restore(j, &state);
        let recovery = &mut self.recoveries.all[of];
        recovery.lose(since, self.jobs[j].steps.last_end());
        recovery.books.down_seconds += until.since(since).seconds();
    }

    /// Charges the time from the last checkpoint of the job copy of failures `f` to its restart at `now` to its devices, and
    /// schedules the next checkpoint.
    fn account_for_restart(&mut self, now: Time, f: FailuresId) {
        let FailureRun { job: j, recovery: of, .. } = self.recoveries.failures[f];
        let (job, recovery) = (&mut self.jobs[j], &mut self.recoveries.all[of]);
        let (lost, end) = (recovery.saved.waits(now), job.steps.last_end());
        for device in &mut self.devices[job.parts.devices] {
            if device.learner < job.learners.number {
                device.account.start(end);
                for (until, cause) in lost {
                    device.account.wait(&mut job.steps, until, StallCause::own(cause));
                }
            }
        }
        recovery.resumed = now;
        for checkpoint in &mut self.recoveries.checkpoints[job.parts.checkpoints] {
            checkpoint.schedule(now, recovery.saved.state.steps);
        }
    }

    /// Adds the steps that the job copy of failures `f` repeats, if an epoch begins again, to its goal.
    fn repeat_steps(&mut self, f: FailuresId) {
        let FailureRun { job: j, recovery: of, settings, .. } = &self.recoveries.failures[f];
        let goal = &mut self.jobs[*j].plan.goal;
        let recovery = &mut self.recoveries.all[*of];
        let saved = &recovery.saved.state;
        let again = settings.epoch.steps_again(saved.cursors.as_slice(), settings.resume);
        let replayed = saved.replayed + again;
        // Applies only if the goal counts steps; if it counts fresh samples, repeated samples do not count anyway.
        if settings.epoch.goal && goal.steps != ENDLESS {
            goal.steps += replayed;
            goal.steps -= recovery.replayed;
            recovery.replayed = replayed;
        }
    }

    /// Handles the end of the run at `end` for job copies that are down: they lose the steps that were not saved.
    pub(crate) fn end_down(&mut self, end: Time) {
        for f in self.recoveries.failures.ids() {
            let failures = &self.recoveries.failures[f];
            if let (Some((since, _)), false) = (failures.down, self.jobs[failures.job].finished) {
                self.go_back(f, since, end);
            }
        }
    }
}
