//! GPUs that several use at once: what learners and loaders do there are flows over one link, each of at most the
//! part of the GPU that its kernels fill.

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_scenario::BatchInterval;

use super::buffers::Buffers;
use super::communication::Sums;
use super::device::{OnGpu, State};
use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::DeviceId;
use super::jobs::Jobs;
use super::occupied::Occupied;

/// A GPU's ways of use.
#[derive(Debug)]
pub(super) struct Gpu {
    /// Sorts of kernels of a step, one after the other.
    pub(super) steps: Vec<Sort>,
    /// Those of its loader.
    pub(super) loader: GroupId,
    /// Where learners move models or gradients in its memory, if that is limited.
    pub(super) memory: Option<GroupId>,
    /// Gradients that its learners add up there, if they do.
    pub(super) sums: Sums,
    /// Batches on it that learners train on, and what forward leaves there for backward.
    pub(super) inputs: Buffers,
    pub(super) activations: Buffers,
    /// How much of it is in use, over time.
    pub(super) occupied: Occupied,
}

/// Kernels of one sort.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sort {
    /// Share of a step's time.
    pub(super) share: f64,
    /// Part of the GPU that they fill.
    pub(super) occupancy: f64,
    pub(super) group: GroupId,
}

impl Gpu {
    /// Nobody is at it, or has anything on it, any more.
    pub(super) fn clear(&mut self, now: Time) {
        self.occupied.clear(now);
        self.sums.clear();
        self.inputs.clear();
        self.activations.clear();
    }
}

impl Jobs {
    /// The GPU of device `d`, which one of its loader.
    pub(super) fn gpu_of(&mut self, d: DeviceId) -> Option<&mut Gpu> {
        let device = &self.devices[d];
        let gpus = &mut self.loaders[device.loader].gpus;
        let number = gpus.len().max(1);
        gpus.get_mut(device.model as usize % number)
    }

    /// Device `d` has a batch in a buffer of its GPU; the one before, if it kept that, is overwritten.
    pub(super) fn hold_input(&mut self, d: DeviceId) {
        let held = std::mem::replace(&mut self.devices[d].input.holds_input, true);
        if let (false, Some(gpu)) = (held, self.gpu_of(d)) {
            gpu.inputs.take();
        }
    }

    /// Device `d` is done with its batch, unless it trains on it again.
    pub(super) fn leave_input(&mut self, d: DeviceId) {
        let device = &mut self.devices[d];
        if self.jobs[device.job].plan.interval != BatchInterval::Every(1.0) {
            return;
        }
        let held = std::mem::replace(&mut device.input.holds_input, false);
        if let (true, Some(gpu)) = (held, self.gpu_of(d)) {
            gpu.inputs.leave();
        }
    }

    /// Device `d` computes beside others of its GPU, which is the first one of each model copy.
    pub(super) fn compute_on_gpu(&mut self, env: &mut Env, d: DeviceId, delay: Delay) {
        let device = &mut self.devices[d];
        if device.stage > 0 {
            return env.after(delay, Event::Stepped(d));
        }
        (device.on_gpu.alone, device.on_gpu.kernels) = (delay.span.seconds(), 0);
        if let Some(gpu) = self.gpu_of(d) {
            gpu.activations.take();
        }
        self.begin_kernels(env, d);
    }

    /// Device `d` begins with the sort of kernels that it is at.
    fn begin_kernels(&mut self, env: &mut Env, d: DeviceId) {
        let OnGpu { alone, kernels, .. } = self.devices[d].on_gpu;
        let Some(gpu) = self.gpu_of(d) else { return };
        let Sort { share, occupancy, group } = gpu.steps[kernels as usize];
        gpu.occupied.enter(env.now, kernels);
        env.network.start(env.now, group, alone * share * occupancy, ActivityId::Step(d));
    }

    /// Device `d` is done with a sort of kernels, or with a step that is but one.
    pub(super) fn kernels_ended(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let (busy, kernels) = (device.state == State::Busy, device.on_gpu.kernels);
        let Some(gpu) = self.gpu_of(d) else { return self.stepped(env, d) };
        gpu.occupied.leave(env.now, kernels);
        if busy && kernels as usize + 1 < gpu.steps.len() {
            self.devices[d].on_gpu.kernels += 1;
            return self.begin_kernels(env, d);
        }
        gpu.activations.leave();
        self.stepped(env, d);
    }
}
