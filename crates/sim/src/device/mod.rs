//! Accelerators: their state, shared GPUs, hosts that take batches ahead, and trainers on the nodes' cores.

mod account;
mod devices;
mod gpu;
mod input;
mod past_waits;
mod trainer;

use forebay_engine::{Fingerprint, Time};

use crate::ids::{JobId, KernelsId, LoaderId};

pub(crate) use account::{Account, State};
pub(crate) use devices::Devices;
pub(crate) use gpu::{Gpu, GpuMemory, Occupied, Sort};
pub(crate) use input::{Ahead, DeviceInput, Host, Taken};
pub(crate) use trainer::{CpuThreads, LaunchRun, Launching, Trainer};

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
    /// Number of the step in progress, or to begin next.
    next: u64,
    pub(crate) account: Account,
    pub(crate) input: DeviceInput,
    on_gpu: OnGpu,
    /// Time when the device's last own work of the step ended: a computation, a swap, or its trainer's host-side work. What comes
    /// after it are waits for others.
    worked: Time,
    /// The trainers of the device's GPUs, and their work on cores for the step; `None` if they use no cores.
    pub(crate) launching: Option<Box<Launching>>,
    /// Track of the device in the timeline, if one is recorded.
    pub(crate) track: Option<u32>,
}

/// Position of a device in its program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    /// Index of the current op; 0 between steps.
    at: u32,
    /// Whether the device waits for the input that the current op needs.
    waits: bool,
}

impl Position {
    /// Returns the index of the current op; 0 between steps.
    #[inline(always)]
    pub(crate) fn at(self) -> u32 {
        self.at
    }

    /// Returns whether the device waits for the input that the current op needs.
    #[inline(always)]
    pub(crate) fn waits(self) -> bool {
        self.waits
    }

    /// Goes on to the next op.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// Begins the wait for the input of the current op.
    pub(crate) fn begin_wait(&mut self) {
        self.waits = true;
    }

    /// Ends the wait for the input of the current op.
    pub(crate) fn end_wait(&mut self) {
        self.waits = false;
    }
}

/// A step of a device on a GPU that several devices share.
#[derive(Debug)]
struct OnGpu {
    /// Time that the current step would take on an otherwise unused GPU [s]; `kernels` is the index of the kind of kernels that
    /// runs now.
    alone: f64,
    kernels: KernelsId,
    /// Speed of the device's GPUs, which is that of the slowest one, relative to their speed without faults.
    pace: f64,
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
    /// Adds the state of the device, which stands still before `step`, to a fingerprint. Returns false if it does not stand there, or
    /// if the future depends on more than that: on a host that takes batches ahead, or on work of its trainers.
    pub(crate) fn describe(&self, step: u64, to: &mut Fingerprint) -> bool {
        self.input.describe(to);
        to.add_time(self.account.clock());
        to.add_time(self.worked);
        to.add(self.on_gpu.pace.to_bits());
        let stands = self.next == step && self.account.state() == State::Idle;
        let before = self.op.at() == 0 && !self.op.waits();
        stands && before && !self.input.has_host() && self.launching.is_none()
    }

    /// Returns the number of the step in progress, or to begin next.
    #[inline(always)]
    pub(crate) fn step(&self) -> u64 {
        self.next
    }

    /// Leaves the step at `now` for the next one; returns the step.
    pub(crate) fn leave_step(&mut self, now: Time) -> u64 {
        let step = self.next;
        (self.op, self.next) = (Position::default(), step + 1);
        self.account.begin(now, State::Idle);
        step
    }

    /// Lets the device, which has no step in progress, begin with `step`; its host prepares that step next.
    pub(crate) fn go_to(&mut self, step: u64) {
        self.next = step;
        self.input.restart_host(step);
    }

    /// Takes the device out of use at `now`, in the middle of its program or between two steps.
    pub(crate) fn retire(&mut self, now: Time) {
        self.op = Position::default();
        self.account.stop(now);
    }

    /// Ends everything that the device does at `now`, because its job copy has failed; it forgets its batch.
    pub(crate) fn abort(&mut self, now: Time) {
        self.retire(now);
        self.launching.iter_mut().for_each(|launching| launching.stop());
        self.on_gpu.kernels = KernelsId::default();
        self.input.abort();
    }

    /// Records that own work of the device ended at `now`: a computation, a swap, or its trainer's host-side work.
    pub(crate) fn note_work(&mut self, now: Time) {
        self.worked = now;
    }

    /// Returns the time when the device's last own work of the step ended.
    pub(crate) fn worked(&self) -> Time {
        self.worked
    }

    /// Returns the speed of the device's GPUs relative to their speed without faults.
    pub(crate) fn pace(&self) -> f64 {
        self.on_gpu.pace
    }

    /// Sets the speed of the device's GPUs relative to their speed without faults.
    pub(crate) fn set_pace(&mut self, pace: f64) {
        self.on_gpu.pace = pace;
    }

    /// Begins with the first kind of kernels of a step that would take `alone` on an otherwise unused GPU [s].
    pub(crate) fn begin_kernels(&mut self, alone: f64) {
        (self.on_gpu.alone, self.on_gpu.kernels) = (alone, KernelsId::default());
    }

    /// Goes on with kernels of kind `next`.
    pub(crate) fn go_on_with_kernels(&mut self, next: KernelsId) {
        self.on_gpu.kernels = next;
    }

    /// Returns the kind of kernels that runs now, and the time that the step would take on an otherwise unused GPU [s].
    pub(crate) fn kernels(&self) -> (KernelsId, f64) {
        (self.on_gpu.kernels, self.on_gpu.alone)
    }
}
