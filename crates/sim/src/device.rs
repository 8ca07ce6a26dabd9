//! Accelerators and their state.

use forebay_engine::Time;
use forebay_metrics::Segment;

use super::env::Env;
use super::host::Host;
use super::ids::{DeviceId, JobId, KernelsId, LoaderId};
use super::jobs::Jobs;
use super::launch::Launching;

/// An accelerator: one pipeline stage of one model copy.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) job: JobId,
    pub(super) loader: LoaderId,
    /// Number of the device's model copy within the job copy.
    pub(super) model: u32,
    /// Number of the device's learner within the GPU.
    pub(super) learner: u32,
    /// Number of the device's pipeline stage.
    pub(super) stage: u32,
    /// Number of the device's program within the job copy's programs.
    pub(super) program: u32,
    /// Position of the device in its program.
    pub(super) op: Position,
    /// Number of the step to begin next.
    pub(super) next: u64,
    /// Time since when the device has been in its present state.
    pub(super) since: Time,
    pub(super) state: State,
    pub(super) input: DeviceInput,
    pub(super) on_gpu: OnGpu,
    pub(super) times: Times,
    /// The trainers of the device's GPUs, and their work on cores for the step; `None` if they use no cores.
    pub(super) launching: Option<Box<Launching>>,
    /// Track of the device in the timeline, if one is recorded.
    pub(super) track: Option<u32>,
}

/// Position of a device in its program.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    /// Index of the current op; 0 between steps.
    pub(super) at: u32,
    /// Whether the device waits for the input that the current op needs.
    pub(super) waits: bool,
}

/// The batches of a device.
#[derive(Debug, Default)]
pub(super) struct DeviceInput {
    /// Whether the device's batch occupies a buffer of its GPU; only set if the GPU's buffers are counted.
    pub(super) holds_input: bool,
    /// Number of steps on the current batch so far.
    pub(super) on_batch: u64,
    /// Number of samples that the current batch lacks.
    pub(super) missing: u64,
    /// Batches taken for steps that a checkpoint begun now would not contain, each with its step, its number of samples and its
    /// number of fresh samples. Only kept if such steps can occur and the job may fail.
    pub(super) ahead: Vec<(u64, u64, u64)>,
    /// The host that takes batches ahead for the device; `None` if batches are taken when their step begins.
    pub(super) host: Option<Box<Host>>,
    /// Recent waits of the device for input, each with its step, in order of time. They explain the stalls of other devices
    /// that waited for this one.
    pub(super) waits: Vec<(u64, Segment)>,
}

/// A step of a device on a GPU that several devices share.
#[derive(Debug)]
pub(super) struct OnGpu {
    /// Time that the current step would take on an otherwise unused GPU [s]; `kernels` is the index of the kind of kernels that
    /// runs now.
    pub(super) alone: f64,
    pub(super) kernels: KernelsId,
    /// Speed of the device's GPUs, which is that of the slowest one, relative to their speed without faults.
    pub(super) pace: f64,
}

/// Total times of a device, and the end of its work in the current step.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Time spent computing [s].
    pub(super) busy: f64,
    /// Time spent updating parameters or decompressing gradients, after the kernels of each step [s].
    pub(super) updated: f64,
    /// Time when the device's last own work of the step ended: a computation, a swap, or its trainer's host-side work. What comes
    /// after it are waits for others.
    pub(super) worked: Time,
}

/// The activity of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Before its job starts or after its last step.
    Off,
    /// Waiting at the barrier, or for the stage before.
    Idle,
    /// Waiting for a batch.
    Starving,
    /// Waiting for its batch to be copied to it.
    Loading,
    /// Waiting for the host-side work of its trainers.
    Launching,
    /// Waiting for parameters from the parameter servers.
    AwaitingParameters,
    /// Computing.
    Busy,
    /// Moving its model towards the reference model of its GPU, or waiting to do so.
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
            on_gpu: OnGpu { alone: 0.0, kernels: KernelsId::default(), pace: 1.0 },
            times: Times::default(),
            launching: None,
            track: None,
        }
    }
}

impl Jobs {
    /// Records the causes of the wait of device `d` in the timeline.
    pub(super) fn trace_causes(&mut self, env: &mut Env, d: DeviceId, segments: &[Segment]) {
        if let (Some(recorder), Some(track)) = (&mut env.recorder, self.devices[d].track) {
            recorder.causes(track, segments);
        }
    }

    /// Records in the timeline that device `d` does `name` from now on.
    pub(super) fn trace_device(&mut self, env: &mut Env, d: DeviceId, name: &'static str) {
        if let (Some(recorder), Some(track)) = (&mut env.recorder, self.devices[d].track) {
            recorder.begin(track, env.now, name);
        }
    }
}
