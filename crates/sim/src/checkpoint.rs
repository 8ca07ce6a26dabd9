//! Checkpoints: a job copy's state at the end of a step is written to a storage, over the links that data and gradients use
//! too.

use forebay_engine::fluid::{FlowId, GroupId};
use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_report::{Cause, ParallelOutcome, StallCause};
use forebay_scenario::Every;
use std::collections::BTreeMap;

use super::device::State;
use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::{DeviceId, JobId};
use super::job_run::JobRun;
use super::jobs::Jobs;
use super::lineage::Trained;

/// The state from which a job copy would restart.
#[derive(Debug, Clone, Default)]
pub(super) struct Saved {
    /// Number of complete steps.
    pub(super) steps: u64,
    /// Number of complete steps of each model copy, if each trains by itself; `staleness` is the histogram of the staleness of
    /// updates on parameter servers.
    pub(super) own: Vec<u64>,
    pub(super) staleness: BTreeMap<u64, u64>,
    /// Numbers of samples and batches that were trained on, for each loader.
    pub(super) taken: Vec<(u64, u64)>,
    /// Samples that were trained on, one by one, for each loader, if the job may fail.
    pub(super) trained: Vec<Trained>,
    /// Time when the job copy was in this state; `ready` is the time when training went on from there.
    pub(super) begun: Time,
    pub(super) ready: Time,
    /// For each device, the number of samples that its current batch lacks; it matters if the device keeps this batch for
    /// further steps.
    pub(super) missing: Vec<u64>,
    /// Number of fresh samples that steps after the saved state had already taken.
    pub(super) ahead: u64,
    /// Number of steps in the saved state that repeated earlier steps.
    pub(super) replayed: u64,
    /// Number of batches in a loader's epoch, if the loader counts batches; `batch` is the number of samples in a batch.
    pub(super) epoch: u64,
    pub(super) batch: u64,
    /// Bytes that the job copy's GPUs had sent.
    pub(super) sent: ParallelOutcome,
}

impl Saved {
    /// Returns the state at the start of training, at `now`.
    pub(super) fn at(now: Time) -> Saved {
        Saved { begun: now, ready: now, epoch: 1, batch: 1, ..Saved::default() }
    }

    /// Returns the number of complete steps of model copy `model`.
    pub(super) fn steps_of(&self, model: u32) -> u64 {
        self.own.get(model as usize).copied().unwrap_or(self.steps)
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

/// The checkpoints of a job copy.
#[derive(Debug)]
pub(super) struct CheckpointRun {
    pub(super) every: Every,
    pub(super) writers: Vec<StatePart>,
    pub(super) asynchronous: bool,
    pub(super) pause: Delay,
    /// Time at which the next checkpoint is due, if checkpoints are periodic in time; otherwise `due_steps` is the number of
    /// steps after which it is due.
    due: Time,
    due_steps: u64,
    /// State being written; `since` is the time when its checkpoint began, and `flows` are its transfers, of which `left` are
    /// in progress.
    writing: Option<Saved>,
    since: Time,
    flows: Vec<FlowId>,
    left: u32,
    /// Whether the job waits for the checkpoint.
    waits: bool,
}

impl CheckpointRun {
    pub(super) fn new(
        every: Every,
        writers: Vec<StatePart>,
        asynchronous: bool,
        pause: Delay,
    ) -> CheckpointRun {
        CheckpointRun {
            every,
            writers,
            asynchronous,
            pause,
            due: Time::ZERO,
            due_steps: 0,
            writing: None,
            since: Time::ZERO,
            flows: Vec::new(),
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
        match self.every {
            Every::Seconds(seconds) => self.due = now + Span::from_seconds(seconds),
            Every::Steps(every) => self.due_steps = steps.saturating_add(every),
        }
    }

    /// Returns whether a checkpoint is due at `now`, after `steps` complete steps.
    fn is_due(&self, now: Time, steps: u64) -> bool {
        self.writing.is_none()
            && match self.every {
                Every::Seconds(_) => now >= self.due,
                Every::Steps(_) => steps >= self.due_steps,
            }
    }
}

impl JobRun {
    /// Returns the number of complete steps of model copy `model`.
    pub(super) fn steps_of(&self, model: u32) -> u64 {
        let own = self.tally.own_steps().get(model as usize);
        own.copied().unwrap_or(self.steps.completed())
    }

    /// Returns whether the last complete step left a state that a checkpoint can save: a state on which independently training
    /// model copies agreed, or one that parameter servers hold. Learners that average models begin their checkpoints after
    /// averages instead.
    pub(super) fn has_state(&self) -> bool {
        let agreed = self.goes_beyond() || self.steps.completed().is_multiple_of(self.plan.period);
        self.parts.averages.is_empty() && agreed
    }

    /// Returns whether a model copy may take batches for later steps while other model copies have not completed the steps that
    /// a checkpoint contains.
    pub(super) fn takes_ahead(&self) -> bool {
        self.plan.window > 1 || self.trains_apart()
    }

    /// Returns whether fresh samples are counted when a device takes them, instead of when their step is complete.
    pub(super) fn counts_taken(&self) -> bool {
        !self.ranks_may_diverge()
    }
}

impl Jobs {
    /// Begins a checkpoint of job copy `j`, which has completed a step, if one is due and the step left a state to save; returns
    /// true if the job copy waits for it.
    pub(super) fn save_if_due(&mut self, env: &mut Env, j: JobId) -> bool {
        let job = &self.jobs[j];
        job.recovery.is_some() && job.has_state() && self.begins_checkpoint(env, j)
    }

    /// Begins a checkpoint of job copy `j`, which has completed a step, if one is due; returns true if the job copy waits for
    /// it.
    #[inline(never)]
    pub(super) fn begins_checkpoint(&mut self, env: &mut Env, j: JobId) -> bool {
        let averaged = self.communicators.averaged_steps(self.jobs[j].parts.averages);
        let job = &mut self.jobs[j];
        let steps = averaged.unwrap_or(job.steps.completed());
        let Some(checkpoint) = job.recovery.as_mut().and_then(|r| r.checkpoint.as_mut()) else {
            return false;
        };
        if !checkpoint.is_due(env.now, steps) {
            return false;
        }
        checkpoint.since = env.now;
        checkpoint.waits = true;
        let pause = checkpoint.pause;
        let saved = self.state(env.now, j, steps);
        if let Some(checkpoint) = self.checkpoint(j) {
            checkpoint.writing = Some(saved);
        }
        if pause.span.0 > 0 {
            for d in self.jobs[j].parts.devices {
                if matches!(self.devices[d].state, State::Idle | State::AwaitingParameters) {
                    self.trace_device(env, d, Cause::Checkpoint.name());
                }
            }
            env.after(pause, Event::Waited(ActivityId::Checkpoint(j)));
            return true;
        }
        self.write_checkpoint(env, j);
        self.checkpoint(j).is_some_and(|checkpoint| checkpoint.waits)
    }

    fn checkpoint(&mut self, j: JobId) -> Option<&mut CheckpointRun> {
        self.jobs[j].recovery.as_mut()?.checkpoint.as_mut()
    }

    /// Returns the state of job copy `j` after `steps` steps.
    fn state(&mut self, now: Time, j: JobId, steps: u64) -> Saved {
        let (taken, trained) = (self.taken(j), self.trained(j));
        let job = &self.jobs[j];
        let first = &self.loaders[job.parts.loaders.start];
        let epoch = first.requests.as_ref().map_or(1, |requests| requests.epoch());
        let replayed = job.recovery.as_ref().map_or(0, |recovery| recovery.replayed());
        let (ahead, own, batch) = (self.ahead(j), self.own_steps(j), job.plan.batch);
        let staleness = self.servers(j).map(|servers| servers.books.staleness.clone());
        let staleness = staleness.unwrap_or_default();
        let devices = &self.devices[job.parts.devices];
        let missing = devices.iter().map(|device| device.input.missing).collect();
        let sent = self.sent(j);
        Saved {
            steps,
            own,
            staleness,
            taken,
            trained,
            begun: now,
            ready: now,
            missing,
            ahead,
            replayed,
            epoch,
            batch,
            sent,
        }
    }

    /// Returns the number of steps of each model copy of job copy `j`, if each trains by itself.
    pub(super) fn own_steps(&self, j: JobId) -> Vec<u64> {
        self.jobs[j].tally.own_steps().to_vec()
    }

    /// Ends the pause in which the state of job copy `j` was copied, and begins to write it.
    pub(super) fn checkpoint_paused(&mut self, env: &mut Env, j: JobId) {
        let Some(checkpoint) = self.checkpoint(j) else { return };
        if checkpoint.writing.is_none() {
            return;
        }
        self.write_checkpoint(env, j);
        if self.checkpoint(j).is_some_and(|checkpoint| !checkpoint.waits) {
            self.end_checkpoint_wait(env, j);
        }
    }

    /// Begins the transfers of a checkpoint of job copy `j`, and decides whether the job copy waits for them.
    fn write_checkpoint(&mut self, env: &mut Env, j: JobId) {
        let Some(recovery) = self.jobs[j].recovery.as_mut() else { return };
        let Some(checkpoint) = recovery.checkpoint.as_mut() else { return };
        let network = &mut env.network;
        let start = |writer: &StatePart| {
            Some(network.start(env.now, writer.way?, writer.bytes, ActivityId::Checkpoint(j)))
        };
        checkpoint.flows = checkpoint.writers.iter().filter_map(start).collect();
        checkpoint.left = checkpoint.flows.len() as u32;
        checkpoint.waits = !checkpoint.asynchronous && checkpoint.left > 0;
        if let Some(writing) = &mut checkpoint.writing {
            writing.ready = env.now;
        }
        if checkpoint.left == 0 {
            self.checkpoint_saved(env.now, j);
        }
    }

    /// Ends one transfer of a checkpoint of job copy `j`.
    #[cold]
    pub(super) fn checkpoint_moved(&mut self, env: &mut Env, j: JobId) {
        let Some(checkpoint) = self.checkpoint(j) else { return };
        if checkpoint.writing.is_none() {
            return;
        }
        checkpoint.left -= 1;
        if checkpoint.left > 0 {
            return;
        }
        let waited = std::mem::take(&mut checkpoint.waits);
        if let (Some(writing), true) = (&mut checkpoint.writing, waited) {
            writing.ready = env.now;
        }
        self.checkpoint_saved(env.now, j);
        if waited {
            self.end_checkpoint_wait(env, j);
        }
    }

    /// Makes the written state the state from which job copy `j` would restart.
    fn checkpoint_saved(&mut self, now: Time, j: JobId) {
        let Some(recovery) = self.jobs[j].recovery.as_mut() else { return };
        let Some(checkpoint) = recovery.checkpoint.as_mut() else { return };
        let Some(saved) = checkpoint.writing.take() else { return };
        checkpoint.schedule(now, saved.steps);
        recovery.books.checkpoints += 1;
        recovery.books.written += checkpoint.writers.iter().map(|of| of.bytes).sum::<f64>();
        recovery.books.writing_seconds += now.since(checkpoint.since).seconds();
        recovery.saved = saved;
        recovery.record_progress();
    }

    /// Lets job copy `j` go on training after it waited for a checkpoint.
    fn end_checkpoint_wait(&mut self, env: &mut Env, j: JobId) {
        let job = &mut self.jobs[j];
        let Some(recovery) = &mut job.recovery else { return };
        let Some(checkpoint) = &recovery.checkpoint else { return };
        let since = checkpoint.since;
        if job.finished {
            return;
        }
        if job.trains_apart() {
            return self.end_saving_by_servers(env, j, since);
        }
        for d in job.parts.devices {
            self.end_saving(env.now, d, since);
        }
        self.next_step(env, j);
    }

    /// Records the wait of device `d` for a checkpoint that began at `since`. In an overlapping pipeline, the wait begins only
    /// when the device has finished its work.
    fn end_saving(&mut self, now: Time, d: DeviceId, since: Time) {
        let device = &self.devices[d];
        let (j, idle, from) = (device.job, device.state == State::Idle, device.since);
        if device.state == State::Off {
            return;
        }
        let start = if self.jobs[j].plan.window == 1 { since } else { from.max(since) };
        if self.jobs[j].plan.window > 1 {
            if !idle {
                return;
            }
            if from < since {
                self.end_wait_in_pipeline(since, d);
            }
            self.devices[d].since = now;
        }
        let cause = StallCause::own(Cause::Checkpoint);
        self.jobs[j].steps.add_stall(Segment { start, end: now, cause });
    }

    /// Cancels the checkpoint that job copy `j` is writing.
    pub(super) fn abandon_checkpoint(&mut self, env: &mut Env, j: JobId) {
        let Some(recovery) = self.jobs[j].recovery.as_mut() else { return };
        let Some(checkpoint) = recovery.checkpoint.as_mut() else { return };
        (checkpoint.writing, checkpoint.waits) = (None, false);
        for flow in checkpoint.flows.drain(..) {
            env.network.cancel(env.now, flow);
        }
    }
}
