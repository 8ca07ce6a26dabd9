//! Accelerators: what each is at.

use std::collections::VecDeque;

use crate::account::Segment;
use crate::engine::Time;

use super::index::{DeviceId, JobId, LoaderId};
use super::launch::Launching;
use super::world::World;

/// An accelerator: one pipeline stage of one model copy.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) job: JobId,
    pub(super) loader: LoaderId,
    /// Which model copy of the job copy.
    pub(super) model: u32,
    /// Which learner of its GPU.
    pub(super) learner: u32,
    /// Which pipeline stage.
    pub(super) stage: u32,
    /// Which of the job copy's programs it works through.
    pub(super) program: u32,
    /// Batches that the stage before has handed over.
    pub(super) received: u64,
    /// When each that has not been begun was sent, oldest first.
    pub(super) sent: VecDeque<Time>,
    /// The step to begin next.
    pub(super) next: u64,
    /// Since when it has done what it does.
    pub(super) since: Time,
    pub(super) state: State,
    /// For how long it has computed [s].
    pub(super) busy: f64,
    /// For how long it has updated parameters or taken gradients apart, after its kernels of a step [s].
    pub(super) updated: f64,
    /// What its trainer does on cores for the step, where it does anything.
    pub(super) launching: Launching,
    /// Whether its batch is in a buffer of a GPU that is looked at.
    pub(super) holds_input: bool,
    /// Steps on the batch at hand.
    pub(super) on_batch: u64,
    /// Which op of its program it is at; the first one between steps.
    pub(super) at: u32,
    /// Whether it waits there for what the op needs.
    pub(super) waits_at_op: bool,
    /// Time of the step at hand on a GPU for itself [s], and which sort of its kernels it is at.
    pub(super) alone: f64,
    pub(super) kernels: u32,
    /// Where it may be ahead of what a checkpoint has, and jobs may fail: batches taken for steps after that, each with
    /// its step and samples, all and fresh ones.
    pub(super) ahead: Vec<(u64, u64, u64)>,
    /// Samples by which the batch at hand is smaller than others.
    pub(super) missing: u64,
    /// Share of its speed that faults leave it.
    pub(super) pace: f64,
    /// Its recent waits for input by step, in order of time, for those who waited for it.
    pub(super) waits: Vec<(u64, Segment)>,
    pub(super) track: Option<u32>,
}

/// What a device does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Before its job starts or after its last step.
    Off,
    /// Waiting for the barrier, or the stage before.
    Idle,
    /// Waiting for a batch.
    Starving,
    /// Waiting for its batch to be copied to it.
    Loading,
    /// Waiting for its trainer's own work.
    Launching,
    /// Waiting for parameters from the root.
    Uninformed,
    /// Computing.
    Busy,
    /// Drawing its model towards its GPU's reference model, or waiting to.
    Averaging,
}

impl Device {
    pub(super) fn new(job: JobId, loader: LoaderId, model: u32, stage: u32) -> Device {
        Device {
            job,
            loader,
            model,
            learner: 0,
            stage,
            program: stage,
            received: 0,
            sent: VecDeque::new(),
            next: 0,
            since: Time::ZERO,
            state: State::Off,
            busy: 0.0,
            updated: 0.0,
            launching: Launching::default(),
            holds_input: false,
            on_batch: 0,
            at: 0,
            waits_at_op: false,
            alone: 0.0,
            kernels: 0,
            ahead: Vec::new(),
            missing: 0,
            pace: 1.0,
            waits: Vec::new(),
            track: None,
        }
    }
}

impl World<'_> {
    /// The timeline says what the wait of device `d` was for.
    pub(super) fn trace_causes(&mut self, d: DeviceId, segments: &[Segment]) {
        if let (Some(recorder), Some(track)) = (&mut self.recorder, self.devices[d].track) {
            recorder.causes(track, segments);
        }
    }

    /// From now on the timeline says `name` of device `d`.
    pub(super) fn trace_device(&mut self, now: Time, d: DeviceId, name: &'static str) {
        if let (Some(recorder), Some(track)) = (&mut self.recorder, self.devices[d].track) {
            recorder.begin(track, now, name);
        }
    }
}
