//! Accelerators: their state, shared GPUs, hosts that take batches ahead, and trainers on the nodes' cores.

mod account;
mod gpu;
mod trainer;

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_metrics::Segment;

use crate::ids::{JobId, KernelsId, LoaderId};

pub(crate) use account::{Account, State};
pub(crate) use gpu::{Gpu, GpuMemory, Occupied, Sort};
pub(crate) use trainer::{CoreThreads, CpuThreads, LaunchRun, Launching, Trainer};

/// An accelerator: one pipeline stage of one model copy.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) job: JobId,
    pub(crate) loader: LoaderId,
    /// Number of the device's model copy within the job copy.
    pub(crate) model: u32,
    /// Number of the device's learner within the GPU.
    pub(crate) learner: u32,
    /// Number of the device's pipeline stage.
    pub(crate) stage: u32,
    /// Number of the device's program within the job copy's programs.
    pub(crate) program: u32,
    /// Position of the device in its program.
    pub(crate) op: Position,
    /// Number of the step to begin next.
    pub(crate) next: u64,
    pub(crate) account: Account,
    pub(crate) input: DeviceInput,
    pub(crate) on_gpu: OnGpu,
    /// Time when the device's last own work of the step ended: a computation, a swap, or its trainer's host-side work. What comes
    /// after it are waits for others.
    pub(crate) worked: Time,
    /// The trainers of the device's GPUs, and their work on cores for the step; `None` if they use no cores.
    pub(crate) launching: Option<Box<Launching>>,
    /// Track of the device in the timeline, if one is recorded.
    pub(crate) track: Option<u32>,
}

/// Position of a device in its program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    /// Index of the current op; 0 between steps.
    pub(crate) at: u32,
    /// Whether the device waits for the input that the current op needs.
    pub(crate) waits: bool,
}

/// The batches of a device.
#[derive(Debug, Default)]
pub(crate) struct DeviceInput {
    /// Whether the device's batch occupies a buffer of its GPU; only set if the GPU's buffers are counted.
    pub(crate) holds_input: bool,
    /// Number of steps on the current batch so far.
    pub(crate) on_batch: u64,
    /// Number of samples that the current batch lacks.
    pub(crate) missing: u64,
    /// Batches taken for steps that a checkpoint begun now would not contain, each with its step, its number of samples and its
    /// number of fresh samples. Only kept if such steps can occur and the job may fail.
    pub(crate) ahead: Vec<(u64, u64, u64)>,
    /// The host that takes batches ahead for the device; `None` if batches are taken when their step begins.
    pub(crate) host: Option<Box<Host>>,
    /// Recent waits of the device for input, each with its step, in order of time. They explain the stalls of other devices
    /// that waited for this one.
    pub(crate) waits: Vec<(u64, Segment)>,
}

/// A step of a device on a GPU that several devices share.
#[derive(Debug)]
pub(crate) struct OnGpu {
    /// Time that the current step would take on an otherwise unused GPU [s]; `kernels` is the index of the kind of kernels that
    /// runs now.
    pub(crate) alone: f64,
    pub(crate) kernels: KernelsId,
    /// Speed of the device's GPUs, which is that of the slowest one, relative to their speed without faults.
    pub(crate) pace: f64,
}

impl Device {
    pub(crate) fn new(job: JobId, loader: LoaderId, model: u32, stage: u32) -> Device {
        Device {
            job,
            loader,
            model,
            learner: 0,
            stage,
            program: stage,
            op: Position::default(),
            next: 0,
            account: Account::new(),
            input: DeviceInput::default(),
            on_gpu: OnGpu { alone: 0.0, kernels: KernelsId::default(), pace: 1.0 },
            worked: Time::ZERO,
            launching: None,
            track: None,
        }
    }
}

/// The host of a device, and the batches that it has taken for steps that the device has not begun.
///
/// A host submits a GPU's next steps while the GPU still computes, so it asks the loader for their batches before the GPU needs
/// them, and copies these batches to the GPU meanwhile, one after the other, if the trainer copies batches. What `launch` does for a
/// step is not done ahead, and buffers of a GPU are counted only for batches of steps that have begun.
#[derive(Debug)]
pub(crate) struct Host {
    /// Maximum number of steps that the host is ahead of the device's step in progress.
    pub(crate) ahead: u64,
    /// Number of the step that the host prepares next.
    pub(crate) step: u64,
    /// Number of steps before `step` on the last batch that was taken.
    pub(crate) on_batch: u64,
    /// Whether the host waits for a batch.
    pub(crate) waits: bool,
    pub(crate) taken: VecDeque<Taken>,
}

/// A batch that a host has taken for a step that has not begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) step: u64,
    /// Number of samples that the batch lacks.
    pub(crate) missing: u64,
    /// Whether the batch is on the device; true at once if the trainer copies no batches.
    pub(crate) copied: bool,
}

impl Host {
    /// Returns a host that is up to `ahead` steps ahead of its device.
    pub(crate) fn new(ahead: u64) -> Host {
        Host { ahead, step: 0, on_batch: 0, waits: false, taken: VecDeque::new() }
    }

    /// Forgets all batches; the device's next step is `step`, which needs a new batch.
    pub(crate) fn restart(&mut self, step: u64) {
        *self = Host { step, on_batch: u64::MAX / 2, ..Host::new(self.ahead) };
    }

    /// Ends the host's wait for a batch; returns whether it has waited.
    pub(crate) fn stop_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// Returns the batch for `step`, which is the oldest one, if there is one.
    pub(crate) fn batch_of(&self, step: u64) -> Option<Taken> {
        self.taken.front().copied().filter(|taken| taken.step == step)
    }

    /// Returns the oldest batch that is not on the device, if there is one.
    pub(crate) fn uncopied(&mut self) -> Option<&mut Taken> {
        self.taken.iter_mut().find(|taken| !taken.copied)
    }
}
