//! Synchronous training: the end of a step, when all model copies have computed and all gradients are reduced.

use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use crate::device::{Device, State};
use crate::env::Env;
use crate::ids::{CommunicatorId, DeviceId, JobId};
use crate::invariant::broken;
use crate::jobs::Jobs;
use crate::program::Communicator;

/// State of a job copy at the end of a step: all devices wait until gradients are reduced, and then parameters are updated.
#[derive(Debug)]
pub(crate) struct UpdateRun {
    /// Duration of the update at a root, or of the decompression of gradients on each device.
    pub(super) span: Span,
    /// Whether the update happens at a root.
    pub(super) root: bool,
    /// Number of steps from one reduction of gradients to the next; [`forebay_scenario::ENDLESS`] if gradients are not reduced.
    pub(crate) every: u64,
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
    pub(crate) fn restart(&mut self) {
        (self.computed, self.updating) = (None, None);
    }

    /// Returns whether all devices wait for the reduction of gradients.
    fn is_due(&self) -> bool {
        self.computed.is_some() && self.updating.is_none()
    }
}

impl Jobs {
    /// Offers for reduction the gradients that device `d` has computed in a piece of the step.
    pub(crate) fn offer_gradients(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
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
        let Device { job, next: step, .. } = self.devices[d];
        if let Some(offered) = self.offered(d, piece) {
            return self.begin_exchange_of(env, d, offered.exchange);
        }
        self.push_gradients(env, d, piece);
        let made = self.jobs[job].plan.pieces.buckets_of(piece);
        for c in self.communicators_of(d, Communicator::Data) {
            self.communicators.start(env, c, (step, made.clone()), d);
        }
    }

    /// Begins the collectives with which a step of job copy `j` starts: broadcasts of a root's parameters.
    pub(crate) fn begin_collectives(&mut self, env: &mut Env, j: JobId) {
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

    /// Returns whether job copy `j`, whose model copies have all computed, must wait for gradients; if so, begins that wait.
    pub(crate) fn awaits_gradients(&mut self, env: &mut Env, j: JobId) -> bool {
        if self.are_reduced(j) && self.jobs[j].update.span == Span::ZERO {
            self.end_reductions(j);
            return false;
        }
        self.jobs[j].update.computed = Some(env.now);
        for d in self.jobs[j].parts.devices {
            if self.devices[d].state != State::Off {
                self.devices[d].since = env.now;
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
        let Some(since) = job.update.computed else {
            return broken("communication ends after the backward pass");
        };
        let update = job.update.updating.unwrap_or(env.now);
        let cause = StallCause::own(Cause::Communication);
        for d in job.parts.devices {
            if self.devices[d].state != State::Off {
                job.steps.add_stall(Segment { start: since, end: update, cause });
            }
        }
        self.end_reductions(j);
        self.account_for_update(env.now, j, update);
        for d in self.jobs[j].parts.devices {
            if self.devices[d].state != State::Off {
                self.trace_device(env, d, "waiting");
            }
        }
        self.end_of_step(env, j);
    }
}
