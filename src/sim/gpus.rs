//! GPUs that loaders use beside the steps: what both do there are flows over one link.

use crate::fluid::GroupId;
use crate::report::Cause;

use super::event::{Clock, Customer, Delay, Event};
use super::workers::Phase;
use super::world::World;

/// A GPU's two ways of use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gpu {
    pub(super) steps: GroupId,
    pub(super) kernels: GroupId,
}

impl World<'_> {
    /// Worker `w` needs the GPU of its item for so long for each sample; true if for no time.
    pub(super) fn begin_kernel(&mut self, clock: &mut Clock, w: u32, per_sample: f64) -> bool {
        let worker = &self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        let gpus = &loader.gpus;
        let seconds = per_sample * loader.kernel_slowness * f64::from(worker.item.samples);
        if gpus.is_empty() || seconds <= 0.0 {
            return true;
        }
        let group = gpus[(worker.item.sequence % gpus.len() as u64) as usize].kernels;
        self.enter(clock.now, w, Phase::OnGpu, Cause::Decode);
        self.network.start(clock.now, group, seconds, Customer::Worker(w));
        false
    }

    /// Device `d` computes beside the kernels of its loader, which are on the first GPU of each model copy.
    pub(super) fn compute_beside_kernels(&mut self, clock: &mut Clock, d: u32, delay: Delay) {
        let device = &self.devices[d as usize];
        if device.stage > 0 {
            return clock.after(delay, Event::Stepped(d));
        }
        let gpus = &self.loaders[device.loader as usize].gpus;
        let group = gpus[device.model as usize % gpus.len()].steps;
        self.network.start(clock.now, group, delay.span.seconds(), Customer::Step(d));
    }
}
