//! Checkpoints: a job copy's state at the end of a step is written to a storage, over the links that data and gradients use
//! too.

use forebay_engine::fluid::GroupId;
use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};
use forebay_scenario::Every;

use super::device::{Device, State};
use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::{CheckpointId, DeviceId, JobId, RecoveryId};
use super::job_state::JobState;
use super::jobs::Jobs;
use super::recovery::Recoveries;

/// The state from which a job copy would restart.
#[derive(Debug, Clone, Default)]
pub(super) struct Saved {
    pub(super) state: JobState,
    /// Time when the job copy was in this state; `ready` is the time when training went on from there.
    pub(super) begun: Time,
    pub(super) ready: Time,
}

impl Saved {
    /// Returns a saved state that needs no writing: the state at `now`.
    pub(super) fn new(state: JobState, now: Time) -> Saved {
        Saved { state, begun: now, ready: now }
    }

    /// Returns the stalls of a device that restarts from this state at `now`: they cover the time from the `end` of its last
    /// step on.
    pub(super) fn waits(&self, end: Time, now: Time) -> [Segment; 3] {
        let wait = |start, end, cause| Segment { start, end, cause: StallCause::own(cause) };
        [
            wait(end, self.begun, Cause::Fault),
            wait(self.begun, self.ready, Cause::Checkpoint),
            wait(self.ready, now, Cause::Fault),
        ]
    }
}

/// The part of each checkpoint that a node writes, or that it reads after a failure.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatePart {
    pub(super) bytes: f64,
    /// Route of the bytes between the node and the storage; `None` if nothing limits their rate.
    pub(super) way: Option<GroupId>,
}

impl StatePart {
    /// Begins to move `parts`; returns the number of transfers in progress.
    pub(super) fn move_all(parts: &[StatePart], env: &mut Env, activity: ActivityId) -> u32 {
        let ways = parts.iter().filter_map(|part| Some((part.way?, part.bytes)));
        let flows = ways.map(|(way, bytes)| env.network.start(env.now, way, bytes, activity));
        flows.count() as u32
    }
}

/// The checkpoints of a job copy.
#[derive(Debug)]
pub(super) struct CheckpointRun {
    pub(super) job: JobId,
    pub(super) recovery: RecoveryId,
    settings: CheckpointSettings,
    /// Time at which the next checkpoint is due, if checkpoints are periodic in time; otherwise `due_steps` is the number of
    /// steps after which it is due.
    due: Time,
    due_steps: u64,
    /// State being written; `since` is the time when its checkpoint began, and `left` is the number of its transfers in
    /// progress.
    writing: Option<Saved>,
    since: Time,
    left: u32,
    /// Whether the job waits for the checkpoint.
    waits: bool,
}

/// When a job copy is checkpointed, and what each checkpoint writes.
#[derive(Debug)]
pub(super) struct CheckpointSettings {
    pub(super) every: Every,
    pub(super) writers: Vec<StatePart>,
    pub(super) asynchronous: bool,
    pub(super) pause: Delay,
}

impl CheckpointRun {
    /// Returns the checkpoints of job copy `job` before the first one.
    pub(super) fn new(
        job: JobId,
        recovery: RecoveryId,
        settings: CheckpointSettings,
    ) -> CheckpointRun {
        CheckpointRun {
            job,
            recovery,
            settings,
            due: Time::ZERO,
            due_steps: 0,
            writing: None,
            since: Time::ZERO,
            left: 0,
            waits: false,
        }
    }

    /// Returns whether the job waits for a checkpoint.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waits
    }

    /// Schedules the next checkpoint one interval later, counted from `now` or from `steps` complete steps.
    pub(super) fn schedule(&mut self, now: Time, steps: u64) {
        match self.settings.every {
            Every::Seconds(seconds) => self.due = now + Span::from_seconds(seconds),
            Every::Steps(every) => self.due_steps = steps.saturating_add(every),
        }
    }

    /// Returns whether a checkpoint is due at `now`, after `steps` complete steps.
    fn is_due(&self, now: Time, steps: u64) -> bool {
        self.writing.is_none()
            && match self.settings.every {
                Every::Seconds(_) => now >= self.due,
                Every::Steps(_) => steps >= self.due_steps,
            }
    }

    /// Cancels the checkpoint in progress, whose transfers have been cancelled.
    pub(super) fn abandon(&mut self) {
        (self.writing, self.waits, self.left) = (None, false, 0);
    }
}

impl Recoveries {
    /// Makes the written state the state from which the job copy of checkpoints `c` would restart.
    fn checkpoint_saved(&mut self, now: Time, c: CheckpointId) {
        let checkpoint = &mut self.checkpoints[c];
        let Some(saved) = checkpoint.writing.take() else { return };
        checkpoint.schedule(now, saved.state.steps);
        let recovery = &mut self.all[checkpoint.recovery];
        recovery.books.checkpoints += 1;
        recovery.books.written +=
            checkpoint.settings.writers.iter().map(|of| of.bytes).sum::<f64>();
        recovery.books.writing_seconds += now.since(checkpoint.since).seconds();
        recovery.saved = saved;
        let of = checkpoint.recovery;
        self.record_progress(of);
    }
}

impl Jobs {
    /// Begins a checkpoint of job copy `j`, which has completed a step, if one is due and the step left a state to save; returns
    /// true if the job copy waits for it.
    pub(super) fn save_if_due(&mut self, env: &mut Env, j: JobId) -> bool {
        let job = &self.jobs[j];
        !job.parts.checkpoints.is_empty() && job.has_state() && self.begins_checkpoint(env, j)
    }

    /// Begins a checkpoint of job copy `j`, which has completed a step, if one is due; returns true if the job copy waits for
    /// it.
    #[inline(never)]
    pub(super) fn begins_checkpoint(&mut self, env: &mut Env, j: JobId) -> bool {
        let job = &self.jobs[j];
        let Some(c) = job.parts.checkpoints.first() else { return false };
        let averaged = self.communicators.averaged_steps(job.parts.averages);
        let steps = averaged.unwrap_or(job.steps.completed());
        if !self.recoveries.checkpoints[c].is_due(env.now, steps) {
            return false;
        }
        let saved = Saved::new(self.state(j, steps), env.now);
        let checkpoint = &mut self.recoveries.checkpoints[c];
        (checkpoint.writing, checkpoint.since, checkpoint.waits) = (Some(saved), env.now, true);
        let pause = checkpoint.settings.pause;
        if pause.span.0 > 0 {
            for d in self.jobs[j].parts.devices {
                if matches!(self.devices[d].state, State::Idle | State::AwaitingParameters) {
                    self.trace_device(env, d, Cause::Checkpoint.name());
                }
            }
            env.after(pause, Event::Waited(ActivityId::Checkpoint(c)));
            return true;
        }
        self.write_checkpoint(env, c);
        self.recoveries.checkpoints[c].waits
    }

    /// Ends the pause in which the state of a job copy was copied, and begins to write it.
    pub(super) fn checkpoint_paused(&mut self, env: &mut Env, c: CheckpointId) {
        self.write_checkpoint(env, c);
        if !self.recoveries.checkpoints[c].waits {
            self.end_checkpoint_wait(env, c);
        }
    }

    /// Begins the transfers of a checkpoint, and decides whether the job copy waits for them.
    fn write_checkpoint(&mut self, env: &mut Env, c: CheckpointId) {
        let checkpoint = &mut self.recoveries.checkpoints[c];
        let settings = &checkpoint.settings;
        checkpoint.left = StatePart::move_all(&settings.writers, env, ActivityId::Checkpoint(c));
        checkpoint.waits = !settings.asynchronous && checkpoint.left > 0;
        if let Some(writing) = &mut checkpoint.writing {
            writing.ready = env.now;
        }
        if checkpoint.left == 0 {
            self.recoveries.checkpoint_saved(env.now, c);
        }
    }

    /// Ends one transfer of a checkpoint.
    #[cold]
    pub(super) fn checkpoint_moved(&mut self, env: &mut Env, c: CheckpointId) {
        let checkpoint = &mut self.recoveries.checkpoints[c];
        checkpoint.left -= 1;
        if checkpoint.left > 0 {
            return;
        }
        let waited = std::mem::take(&mut checkpoint.waits);
        if let (Some(writing), true) = (&mut checkpoint.writing, waited) {
            writing.ready = env.now;
        }
        self.recoveries.checkpoint_saved(env.now, c);
        if waited {
            self.end_checkpoint_wait(env, c);
        }
    }

    /// Lets the devices of a job copy that waited for a checkpoint go on: first records the waits of all, and then lets each
    /// begin its next step or go on with its step.
    fn end_checkpoint_wait(&mut self, env: &mut Env, c: CheckpointId) {
        let checkpoint = &self.recoveries.checkpoints[c];
        let (j, since) = (checkpoint.job, checkpoint.since);
        if self.jobs[j].finished {
            return;
        }
        let devices = self.jobs[j].parts.devices.iter();
        let held: Vec<DeviceId> = devices.filter(|d| self.is_held(*d)).collect();
        for d in &held {
            self.end_saving(env, *d, since);
        }
        self.begin_collectives(env, j);
        for d in held {
            match self.devices[d].state {
                State::AwaitingParameters => self.run_program(env, d),
                _ => self.try_start(env, d),
            }
        }
    }

    /// Returns whether device `d` stands still while its job copy waits for a checkpoint: it is idle, or has all parameters for
    /// its step.
    fn is_held(&self, d: DeviceId) -> bool {
        let Device { state, op, .. } = self.devices[d];
        match state {
            State::Idle => !op.waits || op.at == 0,
            State::AwaitingParameters => self.has_parameters(d),
            State::Off
            | State::Starving
            | State::Loading
            | State::Launching
            | State::Busy
            | State::Averaging => false,
        }
    }

    /// Records the wait of device `d` for a checkpoint that began at `since`, and what it waited for before.
    fn end_saving(&mut self, env: &mut Env, d: DeviceId, since: Time) {
        let Device { job: j, since: from, .. } = self.devices[d];
        if from < since {
            self.end_wait_until(env, since, d);
        }
        let cause = StallCause::own(Cause::Checkpoint);
        self.jobs[j].steps.add_stall(Segment { start: from.max(since), end: env.now, cause });
        self.devices[d].since = env.now;
    }
}
