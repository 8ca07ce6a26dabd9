//! GPUs that several devices and loaders use at once. Their kernels are flows over one link; the rate of each flow is at most
//! the part of the GPU that the kernels of its kind fill.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_engine::fluid::{Capacity, GroupId, LinkId};
use forebay_model::law::Sharing;
use forebay_report::{LearnersOutcome, Occupancy};
use forebay_scenario::Kernels;

use crate::env::{ActivityId, Env};
use crate::ids::{DeviceId, IdVec, KernelsId, PieceId, WorkerId};

/// The flows, buffers and occupancy of a GPU that several users share.
#[derive(Debug)]
pub(crate) struct Gpu {
    /// Kinds of kernels of a step, which run one after the other.
    steps: IdVec<KernelsId, Sort>,
    /// Group of flows for the loader's kernels, and the number of GPUs that they use at once: those of the stage.
    loader: (GroupId, f64),
    memory: Option<GpuMemory>,
    /// Speed of the GPU relative to its speed without faults.
    pace: f64,
    /// Sums of the learners' gradients, if learners add them up on the GPU.
    pub(crate) sums: Sums,
    /// Buffers for the batches that learners train on; `activations` are buffers for the activations that forward keeps for
    /// backward.
    inputs: Buffers,
    activations: Buffers,
    /// Part of the GPU that is busy, over time.
    occupied: Occupied,
}

/// The memory of a GPU, whose bandwidth is limited.
#[derive(Debug)]
pub(crate) struct GpuMemory {
    /// Group of flows for models or gradients that learners move in it, and its link.
    pub(crate) group: GroupId,
    pub(crate) link: LinkId,
    /// Bandwidth without faults [B/s].
    pub(crate) bandwidth: f64,
}

/// Kernels of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sort {
    /// Share of the step's time that these kernels take.
    pub(crate) share: f64,
    /// Part of the GPU that these kernels fill, summed over the GPUs of the stage.
    pub(crate) used: f64,
    pub(crate) group: GroupId,
}

impl Gpu {
    /// Returns a GPU that runs nothing. `steps` are the kinds of kernels of a step; `loader` is the group of flows for the loader's
    /// kernels, and the number of GPUs that they use at once; `memory` is `None` if its bandwidth is unlimited or unused.
    pub(crate) fn new(
        steps: IdVec<KernelsId, Sort>,
        loader: (GroupId, f64),
        memory: Option<GpuMemory>,
        occupied: Occupied,
    ) -> Gpu {
        let (inputs, activations) = (Buffers::default(), Buffers::default());
        Gpu {
            steps,
            loader,
            memory,
            pace: 1.0,
            sums: Sums::default(),
            inputs,
            activations,
            occupied,
        }
    }

    /// Sets the speed of the GPU relative to its speed without faults.
    pub(crate) fn set_pace(&mut self, env: &mut Env, pace: f64) {
        self.pace = pace;
        if let Some(memory) = &self.memory {
            let capacity = Capacity::Fixed(memory.bandwidth * pace);
            env.network.set_capacity(env.now, memory.link, capacity);
        }
    }

    /// Begins kernels of kind `kernels` of device `d`, whose step would take `alone` on an otherwise unused GPU [s].
    pub(crate) fn begin_kernels(
        &mut self,
        env: &mut Env,
        d: DeviceId,
        (kernels, alone): (KernelsId, f64),
    ) {
        let Sort { share, used, group } = self.steps[kernels];
        self.occupied.enter(env.now, kernels);
        env.network.start(env.now, group, alone * share * used, ActivityId::Step(d));
    }

    /// Ends kernels of kind `kernels` of a device; returns the kind that follows in the step, if one does.
    pub(crate) fn end_kernels(&mut self, now: Time, kernels: KernelsId) -> Option<KernelsId> {
        self.occupied.leave(now, kernels);
        Some(kernels + 1).filter(|next| *next < self.steps.next_id())
    }

    /// Begins a kernel of the loader for worker `w` that takes `seconds` on an otherwise unused GPU without faults.
    pub(crate) fn begin_loader_kernel(&mut self, env: &mut Env, w: WorkerId, seconds: f64) {
        self.occupied.begin(env.now);
        let (group, gpus) = self.loader;
        env.network.start(env.now, group, seconds / self.pace * gpus, ActivityId::Worker(w));
    }

    /// Ends a kernel of the loader.
    pub(crate) fn end_loader_kernel(&mut self, now: Time) {
        self.occupied.end(now);
    }

    /// Begins to move `bytes` in the GPU's memory; returns false if that takes no time.
    pub(crate) fn move_bytes(&self, env: &mut Env, bytes: f64, activity: ActivityId) -> bool {
        let Some(memory) = self.memory.as_ref().filter(|_| bytes > 0.0) else { return false };
        env.network.start(env.now, memory.group, bytes, activity);
        true
    }

    /// Takes a buffer for a batch.
    pub(crate) fn take_input(&mut self) {
        self.inputs.take();
    }

    /// Frees a batch's buffer.
    pub(crate) fn free_input(&mut self) {
        self.inputs.leave();
    }

    /// Takes a buffer for the activations of a step.
    pub(crate) fn take_activations(&mut self) {
        self.activations.take();
    }

    /// Frees the buffer of a step's activations.
    pub(crate) fn free_activations(&mut self) {
        self.activations.leave();
    }

    /// Adds how the GPU was used to `outcome`.
    pub(crate) fn add_to(&self, outcome: &mut LearnersOutcome) {
        outcome.occupancy += self.occupied.seconds;
        outcome.inputs = outcome.inputs.max(self.inputs.made);
        outcome.activations = outcome.activations.max(self.activations.made);
    }

    /// Ends all use of the GPU and frees all buffers.
    pub(crate) fn clear(&mut self, now: Time) {
        self.occupied.clear(now);
        self.sums.clear();
        self.inputs.clear();
        self.activations.clear();
    }
}

/// Occupancy of a GPU over time. The kernels of all users of the GPU are flows over one link. The occupancy is the sum of the
/// parts of the GPU that the running kernels fill, at most 1. It is less than this sum if learners slow each other down before
/// the GPU is full.
#[derive(Debug)]
pub(crate) struct Occupied {
    /// Part of the GPU that one kernel of the loader fills, and number of its kernels running.
    loader: (f64, u32),
    /// For each kind of learners' kernels: the part of the GPU that one learner's kernels fill, and the number of learners
    /// running them.
    sorts: IdVec<KernelsId, (f64, u32)>,
    /// Part that one learner's kernels fill, if learners slow each other down before the GPU is full.
    mutual: Option<f64>,
    /// Time of the last change; `None` before the first one.
    since: Option<Time>,
    /// Time spent at each level of occupancy, up to the last change.
    seconds: Occupancy,
}

impl Occupied {
    /// Returns the occupancy of an unused GPU. `kernels` holds the kinds of learners' kernels, and `loader` the part of the GPU
    /// that a kernel of the loader fills.
    pub(crate) fn new(kernels: &[Kernels], loader: f64) -> Occupied {
        let mutual = kernels.iter().find(|of| of.sharing == Sharing::Mutual);
        Occupied {
            loader: (loader, 0),
            sorts: kernels.iter().map(|of| (of.occupancy, 0)).collect(),
            mutual: mutual.map(|of| of.occupancy),
            since: None,
            seconds: Occupancy::default(),
        }
    }

    /// Records that one learner begins kernels of kind `sort`.
    fn enter(&mut self, now: Time, sort: KernelsId) {
        self.pass(now);
        self.sorts[sort].1 += 1;
    }

    /// Records that one learner's kernels of kind `sort` end.
    fn leave(&mut self, now: Time, sort: KernelsId) {
        self.pass(now);
        self.sorts[sort].1 -= 1;
    }

    /// Records that a kernel of the loader begins.
    fn begin(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 += 1;
    }

    /// Records that a kernel of the loader ends.
    fn end(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 -= 1;
    }

    /// Ends all kernels.
    fn clear(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 = 0;
        self.sorts.iter_mut().for_each(|(_, number)| *number = 0);
    }

    fn pass(&mut self, now: Time) {
        let since = self.since.replace(now).unwrap_or(now);
        let part = |(part, number): &(f64, u32)| part * f64::from(*number);
        let sum: f64 = self.sorts.iter().map(part).sum();
        let learners = match self.mutual {
            Some(one) if sum > one => sum / (1.0 + sum - one),
            _ => sum,
        };
        let used = (learners + part(&self.loader)).min(1.0);
        self.seconds.add(used, now.since(since).seconds());
    }
}

/// Buffers of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Buffers {
    used: u32,
    /// Number of buffers, used or free: the maximum that was ever used at once.
    made: u32,
}

impl Buffers {
    /// Takes a buffer; allocates one if none is free.
    fn take(&mut self) {
        self.used += 1;
        self.made = self.made.max(self.used);
    }

    /// Gives a buffer back.
    fn leave(&mut self) {
        self.used -= 1;
    }

    /// Gives all buffers back.
    fn clear(&mut self) {
        self.used = 0;
    }
}

/// Sums of the gradients of a GPU's learners in a step.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// For each piece of the step, the number of learners that have done it.
    made: IdVec<PieceId, u32>,
    /// Number of pieces whose gradients have been summed; `busy` says whether a sum is in progress.
    over: u32,
    busy: bool,
    /// Pieces whose sums wait for compression; the first one is being compressed.
    compressing: VecDeque<u32>,
}

impl Sums {
    /// Records that one more learner has computed its gradients of piece `piece` of the model.
    pub(crate) fn add(&mut self, piece: u32) {
        let at = PieceId::new(piece);
        if self.made.get(at).is_none() {
            self.made.resize(piece + 1, 0);
        }
        self.made[at] += 1;
    }

    /// Begins the sum of the next piece, and returns the piece, if all `learners` have computed their gradients of it and no other
    /// sum is in progress.
    pub(crate) fn begin_next(&mut self, learners: u32) -> Option<u32> {
        let made = self.made.get(PieceId::new(self.over)).is_some_and(|made| *made == learners);
        let begins = made && !self.busy;
        self.busy |= begins;
        begins.then_some(self.over)
    }

    /// Ends the sum in progress and returns its piece; after the last of `pieces` pieces a new step begins.
    pub(crate) fn end(&mut self, pieces: usize) -> u32 {
        let piece = self.over;
        (self.over, self.busy) = (piece + 1, false);
        if self.over as usize == pieces {
            self.restart();
        }
        piece
    }

    /// Queues the sum of piece `piece` for compression; returns true if its compression begins now.
    pub(crate) fn queue_compression(&mut self, piece: u32) -> bool {
        self.compressing.push_back(piece);
        self.compressing.len() == 1
    }

    /// Returns the piece whose sum is being compressed, if there is one.
    pub(crate) fn compressing(&self) -> Option<u32> {
        self.compressing.front().copied()
    }

    /// Ends the compression in progress, and returns its piece; that of the next piece begins.
    pub(crate) fn end_compression(&mut self) -> Option<u32> {
        self.compressing.pop_front()
    }

    /// Begins a new step; sums of the step before may still wait for compression.
    fn restart(&mut self) {
        (self.over, self.busy) = (0, false);
        self.made.iter_mut().for_each(|made| *made = 0);
    }

    /// Forgets all gradients and sums.
    fn clear(&mut self) {
        self.restart();
        self.compressing.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_allocated_only_if_none_is_free() {
        let mut buffers = Buffers::default();
        buffers.take();
        buffers.take();
        buffers.leave();
        buffers.take();
        assert_eq!(buffers.made, 2);
        buffers.take();
        assert_eq!(buffers.made, 3);
    }
}
