//! Gradients: sums of a GPU's learners, and what follows the end of a collective.

use super::jobs::Jobs;
use super::program::Offered;
use crate::device::Device;
use crate::env::{ActivityId, Delay, Env, Event, broken};
use crate::ids::{CommunicatorId, DeviceId, IdVec, OfferId};

impl Jobs {
    /// Offers for reduction the gradients that device `d` has computed in a piece of the step.
    pub(super) fn offer_gradients(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        let j = self.devices[d].job;
        if piece as usize + 1 == self.pieces_of(d) {
            // The GPU pushes the last buckets as soon as it has those of all its learners.
            self.communicators.note_computed(env.now, d);
        }
        if self.jobs[j].learners.number() > 1 {
            return self.add_to_sum(env, d, piece);
        }
        self.compress_sum(env, d, piece);
    }

    /// Handles the end of a collective of communicator `c`, which may be the `last` one of its step: lets waiting devices go on, or
    /// ends the average of models that it is part of.
    pub(crate) fn go_on_after_collective(&mut self, env: &mut Env, c: CommunicatorId, last: bool) {
        let j = self.communicators.job(c);
        if self.averages(j).is_some() && self.communicators[c].averages_models() {
            if last && self.communicators.are_averaged(self.jobs[j].parts.communicators) {
                self.begin_average_update(env, j);
            }
            return;
        }
        for d in self.communicators[c].devices() {
            self.wake_program(env, d);
        }
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
        let learners = self.jobs[j].learners.number();
        let Some(gpu) = self.gpu_of(d) else {
            return broken("learners that sum gradients share a GPU");
        };
        let Some(piece) = gpu.sums.begin_next(learners) else { return };
        let bytes = self.offered(d, piece).bytes * f64::from(learners + 1);
        let gpu = self.gpu_of(d);
        if !gpu.is_some_and(|gpu| gpu.move_bytes(env, bytes, ActivityId::Sum(d))) {
            self.end_sum(env, d);
        }
    }

    /// Ends a sum on the GPU of device `d`.
    pub(crate) fn end_sum(&mut self, env: &mut Env, d: DeviceId) {
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
        if self.offered(d, piece).compress == 0.0 {
            return self.begin_exchange_of(env, d, self.offered(d, piece).exchange);
        }
        let Some(gpu) = self.gpu_of(d) else {
            return broken("learners that sum gradients share a GPU");
        };
        if gpu.sums.queue_compression(piece) {
            self.compress_next(env, d);
        }
    }

    fn compress_next(&mut self, env: &mut Env, d: DeviceId) {
        let next = self.gpu_of(d).and_then(|gpu| gpu.sums.compressing());
        if let Some(piece) = next {
            let delay = Delay::once(self.offered(d, piece).compress / self.devices[d].pace());
            env.after(delay, Event::Waited(ActivityId::Sum(d)));
        }
    }

    /// Returns what device `d` offers in steps that end with an exchange, in order.
    fn offers(&self, d: DeviceId) -> &IdVec<OfferId, Offered> {
        let Device { job, program, .. } = self.devices[d];
        self.jobs[job].plan.programs.offered(program)
    }

    /// Returns offer number `piece` of device `d`.
    fn offered(&self, d: DeviceId, piece: u32) -> Offered {
        self.offers(d)[OfferId::new(piece)]
    }

    /// Returns the number of offers of device `d` in a step that ends with an exchange.
    pub(super) fn pieces_of(&self, d: DeviceId) -> usize {
        self.offers(d).len()
    }

    /// Ends a compression on the GPU of device `d`, which then exchanges the piece.
    pub(crate) fn end_compression(&mut self, env: &mut Env, d: DeviceId) {
        let piece = self.gpu_of(d).and_then(|gpu| gpu.sums.end_compression());
        if let Some(piece) = piece {
            self.begin_exchange_of(env, d, self.offered(d, piece).exchange);
            self.compress_next(env, d);
        }
    }
}
