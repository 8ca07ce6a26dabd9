//! Accelerators: what each is at.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_metrics::Segment;

use super::env::Env;
use super::index::{DeviceId, JobId, LoaderId};
use super::jobs::Jobs;
use super::launch::Launching;

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
    /// Where it is in its program.
    pub(super) op: Position,
    /// The step to begin next.
    pub(super) next: u64,
    /// Since when it has done what it does.
    pub(super) since: Time,
    pub(super) state: State,
    pub(super) input: DeviceInput,
    pub(super) on_gpu: OnGpu,
    pub(super) times: Times,
    /// What its trainer does on cores for the step, where it does anything.
    pub(super) launching: Launching,
    /// Its track on the timeline, where one is recorded.
    pub(super) track: Option<u32>,
}

/// Where a device is in its program.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    /// Which op it is at; the first one between steps.
    pub(super) at: u32,
    /// Whether it waits there for what the op needs.
    pub(super) waits: bool,
}

/// The batches of a device, and what comes from the stage before.
#[derive(Debug, Default)]
pub(super) struct DeviceInput {
    /// Batches that the stage before has handed over.
    pub(super) received: u64,
    /// When each that has not been begun was sent, oldest first.
    pub(super) sent: VecDeque<Time>,
    /// Whether its batch is in a buffer of a GPU that is looked at.
    pub(super) holds_input: bool,
    /// Steps on the batch at hand.
    pub(super) on_batch: u64,
    /// Samples by which the batch at hand is smaller than others.
    pub(super) missing: u64,
    /// Where it may be ahead of what a checkpoint has, and jobs may fail: batches taken for steps after that, each with
    /// its step and samples, all and fresh ones.
    pub(super) ahead: Vec<(u64, u64, u64)>,
    /// Its recent waits for input by step, in order of time, for those who waited for it.
    pub(super) waits: Vec<(u64, Segment)>,
}

/// A step on a GPU.
#[derive(Debug)]
pub(super) struct OnGpu {
    /// Time that the current step takes where nothing else uses the GPU [s], and which sort of its kernels runs now.
    pub(super) alone: f64,
    pub(super) kernels: u32,
    /// Share of its speed that faults leave it.
    pub(super) pace: f64,
}

/// What a device has done.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// For how long it has computed [s].
    pub(super) busy: f64,
    /// For how long it has updated parameters or taken gradients apart, after its kernels of a step [s].
    pub(super) updated: f64,
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
    AwaitingParameters,
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
            op: Position::default(),
            next: 0,
            since: Time::ZERO,
            state: State::Off,
            input: DeviceInput::default(),
            on_gpu: OnGpu { alone: 0.0, kernels: 0, pace: 1.0 },
            times: Times::default(),
            launching: Launching::default(),
            track: None,
        }
    }
}

impl Jobs {
    /// The timeline says what the wait of device `d` was for.
    pub(super) fn trace_causes(&mut self, env: &mut Env, d: DeviceId, segments: &[Segment]) {
        if let (Some(recorder), Some(track)) = (&mut env.recorder, self.devices[d].track) {
            recorder.causes(track, segments);
        }
    }

    /// From now on the timeline says `name` of device `d`.
    pub(super) fn trace_device(&mut self, env: &mut Env, d: DeviceId, name: &'static str) {
        if let (Some(recorder), Some(track)) = (&mut env.recorder, self.devices[d].track) {
            recorder.begin(track, env.now, name);
        }
    }
}
