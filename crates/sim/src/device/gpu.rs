//! GPUs that several devices and loaders use at once. Their kernels are flows over one link; the rate of each flow is at most
//! the part of the GPU that the kernels of its kind fill.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_engine::fluid::{GroupId, LinkId};
use forebay_model::law::Sharing;
use forebay_report::Occupancy;
use forebay_scenario::Kernels;

use crate::ids::{IdVec, KernelsId, PieceId};

/// The flows, buffers and occupancy of a GPU that several users share.
#[derive(Debug)]
pub(crate) struct Gpu {
    /// Kinds of kernels of a step, which run one after the other.
    pub(crate) steps: IdVec<KernelsId, Sort>,
    /// Group of flows for the loader's kernels, and the number of GPUs that they use at once: those of the stage.
    pub(crate) loader: (GroupId, f64),
    /// Group of flows for models or gradients that learners move in the GPU's memory, its link, and the link's bandwidth without
    /// faults [B/s], if that is limited.
    pub(crate) memory: Option<(GroupId, LinkId, f64)>,
    /// Speed of the GPU relative to its speed without faults.
    pub(crate) pace: f64,
    /// Sums of the learners' gradients, if learners add them up on the GPU.
    pub(crate) sums: Sums,
    /// Buffers for the batches that learners train on; `activations` are buffers for the activations that forward keeps for
    /// backward.
    pub(crate) inputs: Buffers,
    pub(crate) activations: Buffers,
    /// Part of the GPU that is busy, over time.
    pub(crate) occupied: Occupied,
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
    pub(crate) fn enter(&mut self, now: Time, sort: KernelsId) {
        self.pass(now);
        self.sorts[sort].1 += 1;
    }

    /// Records that one learner's kernels of kind `sort` end.
    pub(crate) fn leave(&mut self, now: Time, sort: KernelsId) {
        self.pass(now);
        self.sorts[sort].1 -= 1;
    }

    /// Records that a kernel of the loader begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 += 1;
    }

    /// Records that a kernel of the loader ends.
    pub(crate) fn end(&mut self, now: Time) {
        self.pass(now);
        self.loader.1 -= 1;
    }

    /// Ends all kernels.
    pub(super) fn clear(&mut self, now: Time) {
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

    /// Returns the time spent at each level of occupancy, up to the last change.
    pub(crate) fn seconds(&self) -> Occupancy {
        self.seconds
    }
}

/// Buffers of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Buffers {
    used: u32,
    made: u32,
}

impl Buffers {
    /// Takes a buffer; allocates one if none is free.
    pub(crate) fn take(&mut self) {
        self.used += 1;
        self.made = self.made.max(self.used);
    }

    /// Gives a buffer back.
    pub(crate) fn leave(&mut self) {
        self.used -= 1;
    }

    /// Gives all buffers back.
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Returns the number of buffers, used or free: the maximum that was ever used at once.
    pub(crate) fn made(&self) -> u32 {
        self.made
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
    pub(crate) compressing: VecDeque<u32>,
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

    /// Returns the piece whose sum can begin now: all `learners` have computed their gradients of it, and no other sum is in
    /// progress.
    pub(crate) fn next(&mut self, learners: u32) -> Option<u32> {
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

    /// Begins a new step; sums of the step before may still wait for compression.
    fn restart(&mut self) {
        (self.over, self.busy) = (0, false);
        self.made.iter_mut().for_each(|made| *made = 0);
    }

    /// Forgets all gradients and sums.
    pub(super) fn clear(&mut self) {
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
        assert_eq!(buffers.made(), 2);
        buffers.take();
        assert_eq!(buffers.made(), 3);
    }
}
