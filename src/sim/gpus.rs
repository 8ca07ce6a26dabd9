//! GPUs that several use at once: what learners and loaders do there are flows over one link, each of at most the
//! part of the GPU that its kernels fill.

use crate::engine::Time;
use crate::fluid::GroupId;
use crate::report::Cause;
use crate::scenario::BatchInterval;

use super::buffers::Buffers;
use super::communication::Sums;
use super::device::{Device, State};
use super::event::{Clock, Customer, Delay, Event};
use super::index::{DeviceId, WorkerId};
use super::occupied::Occupied;
use super::workers::Phase;
use super::world::World;

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

impl World<'_> {
    /// Worker `w` needs the GPU of its item for so long for each sample; true if for no time.
    pub(super) fn begin_kernel(&mut self, clock: &mut Clock, w: WorkerId, per_sample: f64) -> bool {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        let gpus = &loader.gpus;
        let each = per_sample * loader.kernel_slowness / loader.kernel_pace;
        let seconds = each * f64::from(worker.item.samples);
        if gpus.is_empty() || seconds <= 0.0 {
            return true;
        }
        let number = (worker.item.sequence % gpus.len() as u64) as usize;
        let l = worker.loader;
        let gpu = &mut self.loaders[l].gpus[number];
        gpu.occupied.begin(clock.now);
        let group = gpu.loader;
        self.enter(clock.now, w, Phase::OnGpu, Cause::Decode);
        self.network.start(clock.now, group, seconds, Customer::Worker(w));
        false
    }

    /// Worker `w` is done with the GPU of its item.
    pub(super) fn end_kernel(&mut self, now: Time, w: WorkerId) {
        let worker = &self.workers[w];
        let gpus = &mut self.loaders[worker.loader].gpus;
        let number = (worker.item.sequence % gpus.len().max(1) as u64) as usize;
        if let Some(gpu) = gpus.get_mut(number) {
            gpu.occupied.end(now);
        }
    }

    /// The GPU of device `d`, which one of its loader.
    pub(super) fn gpu_of(&mut self, d: DeviceId) -> Option<&mut Gpu> {
        let device = &self.devices[d];
        let gpus = &mut self.loaders[device.loader].gpus;
        let number = gpus.len().max(1);
        gpus.get_mut(device.model as usize % number)
    }

    /// Device `d` has a batch in a buffer of its GPU; the one before, if it kept that, is overwritten.
    pub(super) fn hold_input(&mut self, d: DeviceId) {
        let held = std::mem::replace(&mut self.devices[d].holds_input, true);
        if let (false, Some(gpu)) = (held, self.gpu_of(d)) {
            gpu.inputs.take();
        }
    }

    /// Device `d` is done with its batch, unless it trains on it again.
    pub(super) fn leave_input(&mut self, d: DeviceId) {
        let device = &mut self.devices[d];
        if self.jobs[device.job].interval != BatchInterval::Every(1.0) {
            return;
        }
        let held = std::mem::replace(&mut device.holds_input, false);
        if let (true, Some(gpu)) = (held, self.gpu_of(d)) {
            gpu.inputs.leave();
        }
    }

    /// Device `d` computes beside others of its GPU, which is the first one of each model copy.
    pub(super) fn compute_on_gpu(&mut self, clock: &mut Clock, d: DeviceId, delay: Delay) {
        let device = &mut self.devices[d];
        if device.stage > 0 {
            return clock.after(delay, Event::Stepped(d));
        }
        (device.alone, device.kernels) = (delay.span.seconds(), 0);
        if let Some(gpu) = self.gpu_of(d) {
            gpu.activations.take();
        }
        self.begin_kernels(clock, d);
    }

    /// Device `d` begins with the sort of kernels that it is at.
    fn begin_kernels(&mut self, clock: &mut Clock, d: DeviceId) {
        let Device { alone, kernels, .. } = self.devices[d];
        let Some(gpu) = self.gpu_of(d) else { return };
        let Sort { share, occupancy, group } = gpu.steps[kernels as usize];
        gpu.occupied.enter(clock.now, kernels);
        self.network.start(clock.now, group, alone * share * occupancy, Customer::Step(d));
    }

    /// Device `d` is done with a sort of kernels, or with a step that is but one.
    pub(super) fn kernels_ended(&mut self, clock: &mut Clock, d: DeviceId) {
        let device = &mut self.devices[d];
        let (busy, kernels) = (device.state == State::Busy, device.kernels);
        let Some(gpu) = self.gpu_of(d) else { return self.stepped(clock, d) };
        gpu.occupied.leave(clock.now, kernels);
        if busy && kernels as usize + 1 < gpu.steps.len() {
            self.devices[d].kernels += 1;
            return self.begin_kernels(clock, d);
        }
        gpu.activations.leave();
        self.stepped(clock, d);
    }
}
