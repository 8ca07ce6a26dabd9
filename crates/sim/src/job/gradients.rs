//! Gradients of synchronous training: sums of a GPU's learners, the start of collectives, the end of a step when all gradients are
//! reduced, and the update.

use forebay_engine::{Span, Time};
use forebay_report::{Cause, StallCause};

use super::jobs::Jobs;
use super::program::{Handover, Offered};
use crate::communication::Communicator;
use crate::device::{Device, State};
use crate::env::{ActivityId, Delay, Env, Event, broken};
use crate::ids::{CommunicatorId, DeviceId, IdVec, Ids, JobId, OfferId, ProgramId};

/// State of a job copy at the end of a step: all devices wait until gradients are reduced, and then parameters are updated.
#[derive(Debug)]
pub(crate) struct UpdateRun {
    /// Duration of the update at a root, or of the decompression of gradients on each device.
    pub(super) span: Span,
    /// Whether the update happens at a root.
    pub(super) root: bool,
    /// Number of steps from one reduction of gradients to the next; [`forebay_scenario::ENDLESS`] if gradients are not reduced.
    pub(super) every: u64,
    /// Time when the last model copy finished its computation.
    pub(super) computed: Option<Time>,
    /// Time when the update began.
    pub(super) updating: Option<Time>,
}

impl UpdateRun {
    /// Returns the state before the first step of a job copy. The job copy reduces gradients after each `every` steps and then
    /// updates parameters, which takes the time `span`: at a root if `root` is set, otherwise on every device.
    pub(crate) fn new(span: Span, root: bool, every: u64) -> UpdateRun {
        UpdateRun { span, root, every, computed: None, updating: None }
    }

    /// Prepares for a new step.
    pub(super) fn restart(&mut self) {
        (self.computed, self.updating) = (None, None);
    }

    /// Returns whether all devices wait for the reduction of gradients.
    fn is_due(&self) -> bool {
        self.computed.is_some() && self.updating.is_none()
    }
}

impl Jobs {
    /// Offers for reduction the gradients that device `d` has computed in a piece of the step.
    pub(super) fn offer_gradients(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        let j = self.devices[d].job;
        self.note_offer(env, d, piece);
        if self.jobs[j].learners.number > 1 {
            return self.add_to_sum(env, d, piece);
        }
        self.compress_sum(env, d, piece);
    }

    /// Lets the GPU of device `d` exchange the gradients of a piece: pushes them to its servers, if it has any, and starts the
    /// collectives of the piece's buckets in its communicators, if it has any.
    pub(super) fn exchange_piece(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        match self.offered(d, piece).exchange {
            Handover::Op(op) => self.begin_exchange_of(env, d, op),
            Handover::Buckets { first, end } => {
                self.push_gradients(env, d, end - first);
                let step = self.devices[d].next;
                for c in self.communicators_of(d, Communicator::Data) {
                    self.communicators.start(env, c, (step, first..end), d);
                }
            }
        }
    }

    /// Begins the collectives with which a step of job copy `j` starts: broadcasts of a root's parameters.
    pub(super) fn begin_collectives(&mut self, env: &mut Env, j: JobId) {
        for c in self.jobs[j].parts.communicators {
            self.communicators.begin_next(env, c);
        }
    }

    /// Handles the end of a collective of communicator `c`, which may be the `last` one of its step: lets waiting devices go
    /// on, or ends the reductions of the step.
    pub(crate) fn collective_over(&mut self, env: &mut Env, c: CommunicatorId, last: bool) {
        let j = self.communicators.job(c);
        if self.averages(j).is_some() && self.communicators.all[c].averages_models() {
            if last && self.are_averaged(j) {
                self.exchanged(env, j);
            }
            return;
        }
        if self.jobs[j].update.is_due() {
            return self.begin_update(env, j);
        }
        for d in self.communicators.all[c].devices() {
            self.wake_program(env, d);
        }
    }

    /// Returns whether all collectives that average the models of the learners of job copy `j` are over.
    fn are_averaged(&self, j: JobId) -> bool {
        let all = self.communicators.all[self.jobs[j].parts.communicators].iter();
        all.filter(|of| of.averages_models()).all(|of| of.is_over())
    }

    /// Returns whether all collectives that ranks of job copy `j` have started are over.
    pub(super) fn are_reduced(&self, j: JobId) -> bool {
        let mut all = self.communicators.all[self.jobs[j].parts.communicators].iter();
        all.all(|communicator| communicator.is_over())
    }

    /// Begins the wait of job copy `j`, whose model copies have all computed, for gradients; returns false if all are reduced and
    /// there is nothing to update.
    pub(super) fn begin_gradient_wait(&mut self, env: &mut Env, j: JobId) -> bool {
        if self.are_reduced(j) && self.jobs[j].update.span == Span::ZERO {
            self.end_reductions(j);
            return false;
        }
        self.jobs[j].update.computed = Some(env.now);
        for d in self.jobs[j].parts.devices {
            if self.devices[d].account.state() != State::Off {
                self.trace_device(env, d, Cause::Communication.name());
            }
        }
        self.begin_update(env, j);
        true
    }

    /// Prepares the communicators of job copy `j` for a new step.
    fn end_reductions(&mut self, j: JobId) {
        let job = &mut self.jobs[j];
        job.update.restart();
        for c in job.parts.communicators {
            self.communicators.all[c].restart();
        }
    }

    /// Ends the part of the communication that the backward pass of job copy `j` did not hide, and with it the step.
    pub(crate) fn end_communication(&mut self, env: &mut Env, j: JobId) {
        let job = &mut self.jobs[j];
        if job.update.computed.is_none() {
            return broken("communication ends after the backward pass");
        }
        let update = job.update.updating.unwrap_or(env.now);
        for d in job.parts.devices {
            self.settle(d, update);
            self.charge_update(env.now, d);
        }
        self.end_reductions(j);
        for d in self.jobs[j].parts.devices {
            if self.devices[d].account.state() != State::Off {
                self.trace_device(env, d, "waiting");
            }
        }
        self.end_of_step(env, j);
    }
}

impl Jobs {
    /// Begins the wait of device `d` before it computes: for parameters from the servers, or for a checkpoint. Returns false if it
    /// need not wait; its computation then begins.
    pub(super) fn begin_pull_wait(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let parts = self.jobs[self.devices[d].job].parts;
        let there = !self.recoveries.is_saving(parts.checkpoints) && self.has_parameters(d);
        if there {
            self.begin_exchange(env.now, d);
        } else {
            self.wait_for_parameters_from(env, d);
        }
        !there
    }

    /// Begins the wait of device `d` for parameters from the servers.
    fn wait_for_parameters_from(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        device.account.begin(env.now, State::AwaitingParameters);
        self.trace_device(env, d, Cause::Communication.name());
    }

    /// Begins the update of job copy `j`, whose devices have all computed, if all gradients are reduced. The root applies the
    /// gradients, or every device decompresses them.
    pub(super) fn begin_update(&mut self, env: &mut Env, j: JobId) {
        if !self.are_reduced(j) {
            return;
        }
        let job = &mut self.jobs[j];
        let root = job.parts.devices.start;
        let update = &mut job.update;
        if update.span == Span::ZERO {
            return self.end_communication(env, j);
        }
        update.updating = Some(env.now);
        let span = update.span;
        let everyone = if update.root { Ids::new(root, root + 1) } else { job.parts.devices };
        let delay = Delay { span, lane: None }.at_pace(self.slowest_of(everyone));
        env.after(delay, Event::Waited(ActivityId::Update(j)));
        for d in everyone {
            self.trace_device(env, d, "compute");
        }
    }

    /// Charges the time of device `d` up to `now`, the end of an update. Either all devices computed, or only the root did and the
    /// other devices waited for it.
    fn charge_update(&mut self, now: Time, d: DeviceId) {
        let device = &mut self.devices[d];
        let job = &mut self.jobs[device.job];
        let works = !job.update.root || d == job.parts.devices.start;
        match device.account.state() {
            State::Off => {}
            _ if works => device.account.update(&mut job.steps, now),
            _ => device.account.wait(&mut job.steps, now, StallCause::peer(Cause::Compute)),
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
        let learners = self.jobs[j].learners.number;
        let Some(gpu) = self.gpu_of(d) else {
            return broken("learners that sum gradients share a GPU");
        };
        let Some(piece) = gpu.sums.next(learners) else { return };
        let memory = gpu.memory;
        let bytes = self.offered(d, piece).bytes * f64::from(learners + 1);
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
        if self.offered(d, piece).compress == 0.0 {
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
            let delay = Delay::once(self.offered(d, piece).compress / self.devices[d].on_gpu.pace);
            env.after(delay, Event::Waited(ActivityId::Sum(d)));
        }
    }

    /// Returns what device `d` offers in steps that end with an exchange, in order.
    fn offers(&self, d: DeviceId) -> &IdVec<OfferId, Offered> {
        let Device { job, program, .. } = self.devices[d];
        &self.jobs[job].plan.offers[ProgramId::new(program)]
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
    pub(crate) fn compressed(&mut self, env: &mut Env, d: DeviceId) {
        let piece = self.gpu_of(d).and_then(|gpu| gpu.sums.compressing.pop_front());
        if let Some(piece) = piece {
            self.exchange_piece(env, d, piece);
            self.compress_next(env, d);
        }
    }
}
