//! GPUs that several devices and loaders use at once. Their kernels are flows over one link; the rate of each flow is at most
//! the part of the GPU that the kernels of its kind fill.

use forebay_engine::Time;
use forebay_engine::fluid::{Capacity, GroupId, LinkId};
use forebay_scenario::BatchInterval;

use super::buffers::Buffers;
use super::communication::Sums;
use super::device::{OnGpu, State};
use super::env::Env;
use super::event::{ActivityId, Delay};
use super::ids::{DeviceId, IdVec, Ids, KernelsId};
use super::invariant::broken;
use super::jobs::Jobs;
use super::occupied::Occupied;

/// The flows, buffers and occupancy of a GPU that several users share.
#[derive(Debug)]
pub(super) struct Gpu {
    /// Kinds of kernels of a step, which run one after the other.
    pub(super) steps: IdVec<KernelsId, Sort>,
    /// Group of flows for the loader's kernels, and the number of GPUs that they use at once: those of the stage.
    pub(super) loader: (GroupId, f64),
    /// Group of flows for models or gradients that learners move in the GPU's memory, its link, and the link's bandwidth without
    /// faults [B/s], if that is limited.
    pub(super) memory: Option<(GroupId, LinkId, f64)>,
    /// Speed of the GPU relative to its speed without faults.
    pub(super) pace: f64,
    /// Sums of the learners' gradients, if learners add them up on the GPU.
    pub(super) sums: Sums,
    /// Buffers for the batches that learners train on; `activations` are buffers for the activations that forward keeps for
    /// backward.
    pub(super) inputs: Buffers,
    pub(super) activations: Buffers,
    /// Part of the GPU that is busy, over time.
    pub(super) occupied: Occupied,
}

/// Kernels of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sort {
    /// Share of the step's time that these kernels take.
    pub(super) share: f64,
    /// Part of the GPU that these kernels fill, summed over the GPUs of the stage.
    pub(super) used: f64,
    pub(super) group: GroupId,
}

impl Gpu {
    /// Ends all use of the GPU and frees all buffers.
    pub(super) fn clear(&mut self, now: Time) {
        self.occupied.clear(now);
        self.sums.clear();
        self.inputs.clear();
        self.activations.clear();
    }
}

impl Jobs {
    /// Sets the speed of the GPU of device `d` relative to its speed without faults.
    pub(super) fn set_pace(&mut self, env: &mut Env, d: DeviceId, pace: f64) {
        self.devices[d].on_gpu.pace = pace;
        let Some(gpu) = self.gpu_of(d) else { return };
        gpu.pace = pace;
        if let Some((_, link, bandwidth)) = gpu.memory {
            env.network.set_capacity(env.now, link, Capacity::Fixed(bandwidth * pace));
        }
    }

    /// Returns the speed of the slowest GPU of `devices`, relative to its speed without faults.
    pub(super) fn slowest_of(&self, devices: Ids<DeviceId>) -> f64 {
        self.devices[devices].iter().map(|device| device.on_gpu.pace).fold(1.0, f64::min)
    }

    /// Returns the shared GPU of device `d`; `None` if GPUs are not simulated as shared.
    pub(super) fn gpu_of(&mut self, d: DeviceId) -> Option<&mut Gpu> {
        let device = &self.devices[d];
        self.loaders[device.loader].gpus.shared(device.model.into(), device.stage)
    }

    /// Puts the batch of device `d` into a buffer of its GPU. If the device still has a buffer from its last batch, the batch
    /// overwrites that one.
    pub(super) fn hold_input(&mut self, d: DeviceId) {
        let held = std::mem::replace(&mut self.devices[d].input.holds_input, true);
        if let (false, Some(gpu)) = (held, self.gpu_of(d)) {
            gpu.inputs.take();
        }
    }

    /// Frees the buffer of the batch of device `d`, unless the device may train on the batch again.
    pub(super) fn leave_input(&mut self, d: DeviceId) {
        let device = &mut self.devices[d];
        if self.jobs[device.job].plan.batches.interval != BatchInterval::Every(1.0) {
            return;
        }
        let held = std::mem::replace(&mut device.input.holds_input, false);
        if let (true, Some(gpu)) = (held, self.gpu_of(d)) {
            gpu.inputs.leave();
        }
    }

    /// Begins the computation of device `d` on its GPU, which other devices and loaders may use at the same time.
    pub(super) fn compute_on_gpu(&mut self, env: &mut Env, d: DeviceId, delay: Delay) {
        let device = &mut self.devices[d];
        (device.on_gpu.alone, device.on_gpu.kernels) = (delay.span.seconds(), KernelsId::default());
        if let Some(gpu) = self.gpu_of(d) {
            gpu.activations.take();
        }
        self.begin_kernels(env, d);
    }

    /// Begins the current kind of kernels of device `d`.
    fn begin_kernels(&mut self, env: &mut Env, d: DeviceId) {
        let OnGpu { alone, kernels, .. } = self.devices[d].on_gpu;
        let Some(gpu) = self.gpu_of(d) else {
            return broken("kernels run on a GPU that is simulated as shared");
        };
        let Sort { share, used, group } = gpu.steps[kernels];
        gpu.occupied.enter(env.now, kernels);
        env.network.start(env.now, group, alone * share * used, ActivityId::Step(d));
    }

    /// Ends the current kind of kernels of device `d`, or its step on cores.
    pub(super) fn kernels_ended(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let (busy, kernels) = (device.state == State::Busy, device.on_gpu.kernels);
        let Some(gpu) = self.gpu_of(d) else { return self.stepped(env, d) };
        gpu.occupied.leave(env.now, kernels);
        if busy && kernels + 1 < gpu.steps.next_id() {
            self.devices[d].on_gpu.kernels = kernels + 1;
            return self.begin_kernels(env, d);
        }
        gpu.activations.leave();
        self.stepped(env, d);
    }
}
