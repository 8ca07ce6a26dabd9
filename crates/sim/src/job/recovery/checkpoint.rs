//! Checkpoints: a job copy's state at the end of a step is written to a storage, over the links that data and gradients use
//! too.
//!
//! Training waits until a checkpoint is written; if it is asynchronous, only until its state is copied aside. An asynchronous one
//! that falls due while an earlier one is not yet written is never left out: training waits for the earlier one, or the state
//! joins a queue, or both are written together ([`WhenBusy`]). A failure destroys the checkpoints that are not yet written.

use std::collections::{BTreeMap, VecDeque};

use forebay_engine::fluid::GroupId;
use forebay_engine::{Fingerprint, Span, Time};
use forebay_report::{Cause, RecoveryOutcome, StallCause};
use forebay_scenario::{Every, WhenBusy};

use super::state::JobState;
use super::tables::{Recoveries, RecoveryRun};
use crate::device::{Device, State};
use crate::env::{ActivityId, Delay, Env, Event, broken};
use crate::ids::{CheckpointId, DeviceId, JobId, RecoveryId, Slab, WriteId};
use crate::job::jobs::Jobs;

/// The checkpoints of a job copy.
#[derive(Debug)]
pub(crate) struct CheckpointRun {
    job: JobId,
    recovery: RecoveryId,
    settings: CheckpointSettings,
    /// Time at which the next checkpoint is due, if checkpoints are periodic in time; otherwise `due_steps` is the number of
    /// steps after which it is due.
    due: Time,
    due_steps: u64,
    /// Start of the current wait of training for a checkpoint; `None` if training does not wait.
    waits: Option<Time>,
    /// Whether a checkpoint is due, and training waits until the one before is written.
    postponed: bool,
    /// State that is being copied aside, and time when that began.
    copying: Option<(Saved, Time)>,
    /// Checkpoints that are being written or wait for their turn, in the order of their states.
    pending: VecDeque<WriteId>,
    /// Number of pending checkpoints after each new one since the last restart.
    backlog: Vec<u64>,
    /// Start of the current transfers, and the overlap time at each shared place at that moment; `None` if nothing is being
    /// transferred.
    transfers: Option<(Time, Vec<Span>)>,
}

/// When a job copy is checkpointed, and what each checkpoint writes.
#[derive(Debug)]
pub(crate) struct CheckpointSettings {
    /// The places that checkpoints are written to, if other job copies may write there too; otherwise empty.
    pub(crate) shared: Vec<WritePlace>,
    pub(crate) every: Every,
    pub(crate) writers: Vec<StatePart>,
    pub(crate) asynchronous: bool,
    pub(crate) when_busy: WhenBusy,
    pub(crate) pause: Delay,
}

impl CheckpointRun {
    /// Returns the checkpoints of job copy `job` before the first one.
    pub(crate) fn new(
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
            waits: None,
            postponed: false,
            copying: None,
            pending: VecDeque::new(),
            backlog: Vec::new(),
            transfers: None,
        }
    }

    /// Returns whether the job waits for a checkpoint.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waits.is_some()
    }

    /// Returns the time at which the job began to wait for a checkpoint; `None` if it does not wait.
    pub(super) fn waited_for_since(&self) -> Option<Time> {
        self.waits
    }

    /// Schedules the next checkpoint one interval later, counted from `now`, when training goes on, or from the `steps` complete
    /// steps of the last state.
    pub(super) fn schedule(&mut self, now: Time, steps: u64) {
        match self.settings.every {
            Every::Seconds(seconds) => self.due = now + Span::from_seconds(seconds),
            Every::Steps(every) => self.due_steps = steps.saturating_add(every),
        }
    }

    /// Adds the steps or the time until the next checkpoint to a fingerprint, after `step` steps, unless the checkpoint is due after
    /// `end`. Returns false if a checkpoint is in progress, or if those before have not all found the same number of pending ones.
    pub(super) fn describe(&self, (end, step): (Time, u64), to: &mut Fingerprint) -> bool {
        match self.settings.every {
            Every::Seconds(_) if self.due > end => to.add(u64::MAX),
            Every::Seconds(_) => to.add_time(self.due),
            Every::Steps(_) => to.add(self.due_steps - step),
        }
        let rests = self.waits.is_none() && !self.postponed && self.copying.is_none();
        let even = self.backlog.iter().all(|pending| *pending == self.backlog[0]);
        rests && even && self.pending.is_empty() && self.transfers.is_none()
    }

    /// Returns whether a checkpoint is due at `now`, after `steps` complete steps. Ranks that train by themselves may end a step
    /// while others wait for a checkpoint; the next one is then due at the end of a later step.
    fn is_due(&self, now: Time, steps: u64) -> bool {
        self.waits.is_none()
            && match self.settings.every {
                Every::Seconds(_) => now >= self.due,
                Every::Steps(_) => steps >= self.due_steps,
            }
    }

    /// Returns whether a new checkpoint has to wait until the one before is written.
    fn is_busy(&self) -> bool {
        self.settings.when_busy == WhenBusy::Wait && !self.pending.is_empty()
    }

    /// Cancels all checkpoints that are not yet written; the transfers of `writes` have been cancelled.
    pub(super) fn abandon(&mut self, writes: &mut Slab<WriteId, Write>) {
        self.pending.drain(..).for_each(|w| writes.remove(w));
        (self.copying, self.waits, self.postponed) = (None, None, false);
        self.backlog.clear();
    }

    /// Adds checkpoint `w` to those that are not yet written.
    fn push(&mut self, w: WriteId, recovery: &mut RecoveryRun) {
        self.pending.push_back(w);
        if self.settings.asynchronous {
            let pending = self.pending.len() as u64;
            self.backlog.push(pending);
            let each = StatePart::most_on_a_node(&self.settings.writers);
            recovery.note_backlog(pending, each * pending as f64);
        }
    }

    /// Records in `books` the checkpoints that are not written when the run ends, and how their number grew.
    pub(super) fn close(&self, books: &mut RecoveryOutcome) {
        let begun = self.backlog.len();
        books.unwritten = self.pending.len() as u64;
        books.backlog_half_way = self.backlog.get(begun / 2).copied().unwrap_or(0);
        books.backlog_at_end = self.backlog.last().copied().unwrap_or(0);
    }
}

impl Jobs {
    /// Begins a checkpoint of job copy `j`, which has completed a step, if one is due and the step left a state to save; returns
    /// true if the job copy waits for it.
    pub(in crate::job) fn save_if_due(&mut self, env: &mut Env, j: JobId) -> bool {
        let job = &self.jobs[j];
        !job.parts.checkpoints.is_empty() && job.has_state() && self.begin_checkpoint_if_due(env, j)
    }

    /// Begins a checkpoint of job copy `j`, which has completed a step, if one is due; returns true if the job copy waits for
    /// it, or for the one before.
    #[inline(never)]
    pub(in crate::job) fn begin_checkpoint_if_due(&mut self, env: &mut Env, j: JobId) -> bool {
        let Some(c) = self.jobs[j].parts.checkpoints.first() else { return false };
        match self.recoveries.begin_if_due(env.now, c, self.steps_to_save(j)) {
            Due::Not => false,
            Due::Later => {
                self.trace_saving(env, j);
                true
            }
            Due::Now => self.copy_state(env, j, c),
        }
    }

    /// Returns the number of steps of job copy `j` that a checkpoint would contain if it began now.
    fn steps_to_save(&self, j: JobId) -> u64 {
        let job = &self.jobs[j];
        let averaged = self.communicators.averaged_steps(job.parts.averages);
        averaged.unwrap_or(job.steps.completed())
    }

    /// Begins to copy the state of job copy `j` aside, or to write it if that takes no time; returns whether training waits.
    fn copy_state(&mut self, env: &mut Env, j: JobId, c: CheckpointId) -> bool {
        let state = self.state(j, self.steps_to_save(j));
        if self.recoveries.begin_copy(env, c, state) {
            self.trace_saving(env, j);
            return true;
        }
        self.recoveries.is_waited_for(c)
    }

    /// Shows in the timeline that devices of job copy `j` wait for a checkpoint.
    fn trace_saving(&mut self, env: &mut Env, j: JobId) {
        for d in self.jobs[j].parts.devices {
            if matches!(self.devices[d].account.state(), State::Idle | State::AwaitingParameters) {
                self.devices.trace(env, d, Cause::Checkpoint.name());
            }
        }
    }

    /// Ends the pause in which the state of a job copy was copied, and begins to write it.
    pub(crate) fn end_checkpoint_pause(&mut self, env: &mut Env, c: CheckpointId) {
        if let Some(since) = self.recoveries.end_copy(env, c) {
            self.end_checkpoint_wait(env, c, since);
        }
    }

    /// Ends one transfer of checkpoint `w`; after the last one, training that waited for it goes on.
    #[cold]
    pub(crate) fn end_checkpoint_transfer(&mut self, env: &mut Env, w: WriteId) {
        let c = self.recoveries.checkpoint_of(w);
        match self.recoveries.end_transfer(env, w) {
            Some(Written::Before(since)) => self.begin_postponed(env, c, since),
            Some(Written::Awaited(since)) => self.end_checkpoint_wait(env, c, since),
            None => {}
        }
    }

    /// Begins the checkpoint for which training has waited since `since`, because the one before was being written.
    fn begin_postponed(&mut self, env: &mut Env, c: CheckpointId, since: Time) {
        let j = self.recoveries.job_of_checkpoint(c);
        let goes_on = !self.jobs[j].is_finished();
        self.recoveries.end_postponement(env.now, c, goes_on);
        if goes_on && !self.copy_state(env, j, c) {
            self.end_checkpoint_wait(env, c, since);
        }
    }

    /// Lets the devices of a job copy that waited for a checkpoint since `since` go on: first records the waits of all, and then
    /// lets each begin its next step or go on with its step.
    fn end_checkpoint_wait(&mut self, env: &mut Env, c: CheckpointId, since: Time) {
        let j = self.recoveries.job_of_checkpoint(c);
        if self.jobs[j].is_finished() {
            return;
        }
        let devices = self.jobs[j].parts.devices.iter();
        let held: Vec<DeviceId> = devices.filter(|d| self.is_held(*d)).collect();
        for d in &held {
            self.end_saving(env, *d, since);
        }
        for d in held {
            match self.devices[d].account.state() {
                State::AwaitingParameters => self.run_program(env, d),
                _ => self.try_start(env, d),
            }
        }
    }

    /// Returns whether device `d` stands still while its job copy waits for a checkpoint: it is idle, or has all parameters for
    /// its step.
    pub(in crate::job) fn is_held(&self, d: DeviceId) -> bool {
        let Device { account, op, .. } = &self.devices[d];
        match account.state() {
            State::Idle => !op.waits() || op.at() == 0,
            State::AwaitingParameters => self.has_parameters(d),
            State::Off
            | State::Starving
            | State::Loading
            | State::Launching
            | State::Busy
            | State::Updating
            | State::Averaging => false,
        }
    }

    /// Records the wait of device `d` for a checkpoint that began at `since`, and what it waited for before.
    fn end_saving(&mut self, env: &mut Env, d: DeviceId, since: Time) {
        match self.devices[d].account.state() {
            State::AwaitingParameters => self.settle_and_trace(env, d, since),
            _ => self.settle(d, since),
        }
        self.charge(d, env.now, StallCause::own(Cause::Checkpoint));
    }
}

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

    /// Returns the waits of a device that restarts from this state at `now`, one after the other, each with its end: they begin
    /// at the end of its last step. A state whose copy had to wait may contain steps that ended after it was due.
    pub(super) fn waits(&self, now: Time) -> [(Time, Cause); 3] {
        [(self.begun, Cause::Fault), (self.ready, Cause::Checkpoint), (now, Cause::Fault)]
    }
}

/// The part of each checkpoint that a node writes, or that it reads after a failure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatePart {
    /// Number of the node in its job copy; nodes of parameter servers come after the others.
    pub(crate) node: u32,
    pub(crate) bytes: f64,
    /// Route of the bytes between the node and the storage; `None` if nothing limits their rate.
    pub(crate) way: Option<GroupId>,
}

impl StatePart {
    /// Begins to move `parts`; returns the number of transfers in progress.
    pub(super) fn move_all(parts: &[StatePart], env: &mut Env, activity: ActivityId) -> u32 {
        let ways = parts.iter().filter_map(|part| Some((part.way?, part.bytes)));
        let flows = ways.map(|(way, bytes)| env.network.start(env.now, way, bytes, activity));
        flows.count() as u32
    }

    /// Returns the bytes of the node with the most [B].
    fn most_on_a_node(parts: &[StatePart]) -> f64 {
        let mut nodes = BTreeMap::<u32, f64>::new();
        parts.iter().for_each(|part| *nodes.entry(part.node).or_default() += part.bytes);
        nodes.into_values().fold(0.0, f64::max)
    }
}

/// A checkpoint whose state is kept until it is written.
#[derive(Debug)]
pub(super) struct Write {
    checkpoint: CheckpointId,
    saved: Saved,
    /// Time when its state began to be copied aside or, without a pause, to be written.
    since: Time,
    /// Number of its transfers in progress; 0 while it waits for its turn.
    left: u32,
}

/// A storage that checkpoints are written to: one that all nodes share, or one inside node `node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WritePlace {
    pub(crate) storage: usize,
    pub(crate) node: Option<u32>,
}

/// The number of job copies that transfer checkpoints to one place, and how long two or more did so at once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WriteOverlap {
    copies: u32,
    /// Time until `since` in which two or more did so.
    together: Span,
    since: Time,
}

impl WriteOverlap {
    /// Returns the time until `now` in which two or more job copies transferred checkpoints.
    fn together(&self, now: Time) -> Span {
        let more = if self.copies >= 2 { now.since(self.since) } else { Span::ZERO };
        self.together + more
    }

    /// Changes the number of job copies at `now`.
    fn change(&mut self, now: Time, by: i32) {
        let (copies, together) = (self.copies.saturating_add_signed(by), self.together(now));
        *self = WriteOverlap { copies, together, since: now };
    }
}

/// A checkpoint for which training waited has been written.
enum Written {
    /// Training has waited since then for a later one, which could not begin before.
    Before(Time),
    /// Training has waited since then for this one.
    Awaited(Time),
}

/// Whether a checkpoint begins.
enum Due {
    /// None is due.
    Not,
    /// One is due, and training waits for it, but the one before is not yet written.
    Later,
    /// One is due, and training waits for it.
    Now,
}

impl Recoveries {
    /// Returns the job copy of checkpoints `c`.
    fn job_of_checkpoint(&self, c: CheckpointId) -> JobId {
        self.checkpoints[c].job
    }

    /// Returns whether the job copy of checkpoints `c` waits for one.
    fn is_waited_for(&self, c: CheckpointId) -> bool {
        self.checkpoints[c].is_waited_for()
    }

    /// Lets training wait for a checkpoint from `now` on if one is due after `steps` complete steps.
    fn begin_if_due(&mut self, now: Time, c: CheckpointId, steps: u64) -> Due {
        let checkpoint = &mut self.checkpoints[c];
        if !checkpoint.is_due(now, steps) {
            return Due::Not;
        }
        checkpoint.waits = Some(now);
        checkpoint.postponed = checkpoint.is_busy();
        if checkpoint.postponed { Due::Later } else { Due::Now }
    }

    /// Begins to copy `state` aside, or to write it if that takes no time; returns whether it is copied.
    fn begin_copy(&mut self, env: &mut Env, c: CheckpointId, state: JobState) -> bool {
        let checkpoint = &mut self.checkpoints[c];
        let begun = checkpoint.waits.unwrap_or(env.now);
        self.all[checkpoint.recovery].note_begun(begun);
        checkpoint.copying = Some((Saved { begun, ..Saved::new(state, env.now) }, env.now));
        let pause = checkpoint.settings.pause;
        if pause.span.0 > 0 {
            env.after(pause, Event::Waited(ActivityId::Checkpoint(c)));
            return true;
        }
        self.write_checkpoint(env, c);
        false
    }

    /// Ends the pause in which the state of a job copy was copied, and begins to write it. If training has waited only for that,
    /// returns the time since when.
    fn end_copy(&mut self, env: &mut Env, c: CheckpointId) -> Option<Time> {
        let since = self.checkpoints[c].waits;
        self.write_checkpoint(env, c);
        since.filter(|_| !self.is_waited_for(c))
    }

    /// Ends, at `now`, the wait of a checkpoint for the one before, which is written; the checkpoint begins if the job copy goes on.
    fn end_postponement(&mut self, now: Time, c: CheckpointId, goes_on: bool) {
        let checkpoint = &mut self.checkpoints[c];
        checkpoint.postponed = false;
        match checkpoint.waits {
            Some(since) if goes_on => {
                self.all[checkpoint.recovery].note_postponed(now.since(since));
            }
            _ => checkpoint.waits = None,
        }
    }

    /// Returns the checkpoints to which checkpoint `w`, which is not yet written, belongs.
    pub(super) fn checkpoint_of(&self, w: WriteId) -> CheckpointId {
        self.writes[w].checkpoint
    }

    /// Begins to write the state that was copied aside, or queues it behind checkpoints that are not yet written, and decides
    /// whether the job copy waits for it.
    fn write_checkpoint(&mut self, env: &mut Env, c: CheckpointId) {
        let checkpoint = &mut self.checkpoints[c];
        let Some((mut saved, since)) = checkpoint.copying.take() else {
            return broken("a state is copied aside before it is written");
        };
        saved.ready = env.now;
        checkpoint.schedule(env.now, saved.state.steps);
        let w = self.writes.add(Write { checkpoint: c, saved, since, left: 0 });
        checkpoint.push(w, &mut self.all[checkpoint.recovery]);
        if checkpoint.settings.asynchronous {
            checkpoint.waits = None;
        }
        if checkpoint.settings.when_busy != WhenBusy::Queue || checkpoint.pending.len() == 1 {
            self.begin_write(env, w);
        }
    }

    /// Begins the transfers of checkpoint `w`.
    fn begin_write(&mut self, env: &mut Env, w: WriteId) {
        let c = self.writes[w].checkpoint;
        let checkpoint = &mut self.checkpoints[c];
        let settings = &checkpoint.settings;
        let left = StatePart::move_all(&settings.writers, env, ActivityId::Write(w));
        self.writes[w].left = left;
        if left > 0 {
            return self.begin_writing(env.now, c);
        }
        if !settings.asynchronous {
            checkpoint.waits = None;
        }
        self.end_write(env, w);
    }

    /// Ends one transfer of checkpoint `w`. After the last one, the checkpoint is written; returns whether training waited for
    /// that.
    fn end_transfer(&mut self, env: &mut Env, w: WriteId) -> Option<Written> {
        let write = &mut self.writes[w];
        write.left -= 1;
        if write.left > 0 {
            return None;
        }
        let checkpoint = &mut self.checkpoints[write.checkpoint];
        let written = match checkpoint.waits {
            Some(since) if checkpoint.postponed => Some(Written::Before(since)),
            Some(since) if !checkpoint.settings.asynchronous => {
                checkpoint.waits = None;
                checkpoint.schedule(env.now, write.saved.state.steps);
                write.saved.ready = env.now;
                Some(Written::Awaited(since))
            }
            // Training goes on, or waits while a later state is copied aside.
            Some(_) | None => None,
        };
        self.end_write(env, w);
        written
    }

    /// Ends checkpoint `w`, which is written, and begins the next one in the queue.
    fn end_write(&mut self, env: &mut Env, w: WriteId) {
        let c = self.writes[w].checkpoint;
        self.save(env.now, w);
        let checkpoint = &self.checkpoints[c];
        let next = checkpoint.pending.front().copied();
        if let Some(next) = next.filter(|_| checkpoint.settings.when_busy == WhenBusy::Queue) {
            self.begin_write(env, next);
        }
    }

    /// Records that a job copy transfers checkpoints `c` from `now` on, unless it does so already.
    fn begin_writing(&mut self, now: Time, c: CheckpointId) {
        let checkpoint = &mut self.checkpoints[c];
        if checkpoint.transfers.is_some() {
            return;
        }
        let together = checkpoint.settings.shared.iter().map(|place| {
            let overlap = self.overlaps.entry(*place).or_default();
            overlap.change(now, 1);
            overlap.together(now)
        });
        checkpoint.transfers = Some((now, together.collect()));
    }

    /// Records that a job copy does not transfer checkpoints `c` any more, if it did.
    pub(super) fn end_writing(&mut self, now: Time, c: CheckpointId) {
        let checkpoint = &mut self.checkpoints[c];
        let Some((since, together)) = checkpoint.transfers.take() else { return };
        if checkpoint.settings.shared.is_empty() {
            return;
        }
        let mut longest = 0.0_f64;
        for (place, before) in checkpoint.settings.shared.iter().zip(together) {
            let overlap = self.overlaps.entry(*place).or_default();
            longest = longest.max(overlap.together(now).seconds() - before.seconds());
            overlap.change(now, -1);
        }
        self.all[checkpoint.recovery].note_transfers(now.since(since), longest);
    }

    /// Counts the transfers that are in progress when the run ends.
    pub(super) fn end_transfers(&mut self, now: Time) {
        for c in self.checkpoints.ids() {
            self.end_writing(now, c);
        }
    }

    /// Makes the written state `w` the state from which its job copy would restart, unless a newer one is.
    fn save(&mut self, now: Time, w: WriteId) {
        let Write { checkpoint: c, ref mut saved, since, .. } = self.writes[w];
        let saved = std::mem::take(saved);
        self.writes.remove(w);
        let checkpoint = &mut self.checkpoints[c];
        checkpoint.pending.retain(|pending| *pending != w);
        if checkpoint.pending.is_empty() {
            self.end_writing(now, c);
        }
        let CheckpointRun { recovery, ref settings, .. } = self.checkpoints[c];
        let bytes = settings.writers.iter().map(|of| of.bytes).sum::<f64>();
        self.all[recovery].note_written(saved, bytes, now.since(since));
        self.record_progress(recovery);
    }
}
