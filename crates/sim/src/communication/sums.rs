//! Gradients of learners that share a GPU: they are added up in the GPU's memory, and only the sum takes part in the exchange
//! among GPUs. If gradients are compressed, the sum is compressed before the exchange.

use std::collections::VecDeque;

use crate::device::Device;
use crate::env::Env;
use crate::event::{ActivityId, Delay, Event};
use crate::ids::{DeviceId, IdVec, OfferId, PieceId, ProgramId};
use crate::invariant::broken;
use crate::job_run::JobRun;
use crate::jobs::Jobs;
use crate::program::Offered;

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
    fn add(&mut self, piece: u32) {
        let at = PieceId::new(piece);
        if self.made.get(at).is_none() {
            self.made.resize(piece + 1, 0);
        }
        self.made[at] += 1;
    }

    /// Returns the piece whose sum can begin now: all `learners` have computed their gradients of it, and no other sum is in
    /// progress.
    fn next(&mut self, learners: u32) -> Option<u32> {
        let made = self.made.get(PieceId::new(self.over)).is_some_and(|made| *made == learners);
        let begins = made && !self.busy;
        self.busy |= begins;
        begins.then_some(self.over)
    }

    /// Ends the sum in progress and returns its piece; after the last of `pieces` pieces a new step begins.
    fn end(&mut self, pieces: usize) -> u32 {
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
    pub(crate) fn clear(&mut self) {
        self.restart();
        self.compressing.clear();
    }
}

impl Jobs {
    /// Hands the gradients of a piece from device `d` to its GPU, which adds them to the gradients of the GPU's other learners.
    pub(super) fn add_to_sum(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        if let Some(gpu) = self.gpu_of(d) {
            gpu.sums.add(piece);
        }
        self.sum_next(env, d);
    }

    /// Begins the sum of the next piece that all learners of the GPU of device `d` have done: the GPU reads the gradients of
    /// each learner, and writes their sum.
    fn sum_next(&mut self, env: &mut Env, d: DeviceId) {
        let j = self.devices[d].job;
        let learners = self.jobs[j].learners.number;
        let Some(gpu) = self.gpu_of(d) else {
            return broken("learners that sum gradients share a GPU");
        };
        let Some(piece) = gpu.sums.next(learners) else { return };
        let memory = gpu.memory;
        let bytes = self.bytes_of(d, piece) * f64::from(learners + 1);
        match memory.filter(|_| bytes > 0.0) {
            Some((group, ..)) => {
                env.network.start(env.now, group, bytes, ActivityId::Sum(d));
            }
            None => self.summed(env, d),
        }
    }

    /// Ends a sum on the GPU of device `d`.
    pub(crate) fn summed(&mut self, env: &mut Env, d: DeviceId) {
        let pieces = self.pieces_of(d);
        let Some(gpu) = self.gpu_of(d) else {
            return broken("learners that sum gradients share a GPU");
        };
        let piece = gpu.sums.end(pieces);
        self.compress_sum(env, d, piece);
        self.sum_next(env, d);
    }

    /// Queues the summed gradients of a piece for compression on the GPU of device `d`. If they are not compressed, starts to
    /// exchange them at once.
    pub(super) fn compress_sum(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        if self.compress_seconds(d, piece) == 0.0 {
            return self.exchange_piece(env, d, piece);
        }
        let Some(gpu) = self.gpu_of(d) else {
            return broken("learners that sum gradients share a GPU");
        };
        gpu.sums.compressing.push_back(piece);
        if gpu.sums.compressing.len() == 1 {
            self.compress_next(env, d);
        }
    }

    fn compress_next(&mut self, env: &mut Env, d: DeviceId) {
        let next = self.gpu_of(d).and_then(|gpu| gpu.sums.compressing.front().copied());
        if let Some(piece) = next {
            let delay = Delay::once(self.compress_seconds(d, piece) / self.devices[d].on_gpu.pace);
            env.after(delay, Event::Waited(ActivityId::Sum(d)));
        }
    }

    /// Returns bucket number `piece` of those that device `d`, a stage of a learner, offers to the sums of its GPU; `None` if the
    /// device computes on whole batches.
    pub(super) fn offered(&self, d: DeviceId, piece: u32) -> Option<Offered> {
        let Device { job, program, .. } = self.devices[d];
        self.jobs[job]
            .spread
            .offered
            .get(ProgramId::new(program))
            .map(|all| all[OfferId::new(piece)])
    }

    /// Returns the number of pieces of a step after which device `d` offers gradients.
    pub(super) fn pieces_of(&self, d: DeviceId) -> usize {
        let Device { job, program, .. } = self.devices[d];
        let JobRun { spread, plan, .. } = &self.jobs[job];
        spread.offered.get(ProgramId::new(program)).map_or(plan.pieces.number(), IdVec::len)
    }

    /// Returns the size of the gradients of a piece of device `d` before compression [B].
    fn bytes_of(&self, d: DeviceId, piece: u32) -> f64 {
        let pieces = &self.jobs[self.devices[d].job].plan.pieces;
        self.offered(d, piece).map_or_else(|| pieces.of_exchange(piece).bytes, |of| of.bytes)
    }

    /// Returns the time to compress the sum of a piece on the GPU of device `d` [s].
    fn compress_seconds(&self, d: DeviceId, piece: u32) -> f64 {
        let plan = &self.jobs[self.devices[d].job].plan;
        if !plan.sums {
            return 0.0;
        }
        let compress = || plan.pieces.of_exchange(piece).compress;
        self.offered(d, piece).map_or_else(compress, |of| of.compress)
    }

    /// Ends a compression on the GPU of device `d`, which then exchanges the piece.
    pub(crate) fn compressed(&mut self, env: &mut Env, d: DeviceId) {
        let piece = self.gpu_of(d).and_then(|gpu| gpu.sums.compressing.pop_front());
        if let Some(piece) = piece {
            self.exchange_piece(env, d, piece);
            self.compress_next(env, d);
        }
    }
}
