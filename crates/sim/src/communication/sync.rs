//! Synchronous training: the end of a step, when all model copies have computed and all gradients are reduced.

use crate::device::State;
use crate::env::Env;
use crate::index::{CommunicatorId, DeviceId, JobId};
use crate::jobs::Jobs;
use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::pieces::Pieces;

/// How the model copies of a job copy synchronise their gradients.
#[derive(Debug)]
pub(crate) struct SyncRun {
    pub(crate) pieces: Pieces,
    /// The communicator in which gradients are reduced.
    pub(crate) communicator: CommunicatorId,
    /// Duration of the update at a root, or of the decompression of gradients on each device.
    pub(super) update: Span,
    /// Whether the update happens at a root.
    pub(super) root: bool,
    /// Whether gradients are summed over the learners of a GPU, which then compresses the sum.
    pub(super) learners: bool,
    /// Time when the last model copy finished its computation.
    pub(super) computed: Option<Time>,
    /// Time when the update began.
    pub(super) updating: Option<Time>,
}

impl SyncRun {
    /// Returns the state of the synchronisation of `pieces` before the first step. `communicator` reduces the gradients.
    /// `learners` says whether gradients are first summed over the learners of each GPU. `root` says whether the update, which
    /// takes the time `update`, happens at a root or on every device.
    pub(crate) fn new(
        pieces: Pieces,
        communicator: CommunicatorId,
        update: Span,
        (root, learners): (bool, bool),
    ) -> SyncRun {
        let (computed, updating) = (None, None);
        SyncRun { pieces, communicator, update, root, learners, computed, updating }
    }

    /// Prepares for a new step.
    pub(crate) fn restart(&mut self) {
        (self.computed, self.updating) = (None, None);
    }
}

impl Jobs {
    /// Offers for reduction the gradients that device `d` has computed in a piece of the step.
    pub(crate) fn offer_gradients(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        let j = self.devices[d].job;
        if self.jobs[j].learners.number > 1 {
            return self.add_to_sum(env, d, piece);
        }
        self.compress_sum(env, d, piece);
    }

    /// Starts the collectives of the buckets of a piece, for the GPU of device `d`.
    pub(super) fn start_reductions(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        let j = self.devices[d].job;
        let Some(sync) = &self.jobs[j].sync else { return };
        let (c, made) = (sync.communicator, sync.pieces.buckets_of(piece));
        self.communicators.start(env, c, made, d);
    }

    /// Begins the collectives with which a step of job copy `j` starts: broadcasts of a root's parameters.
    pub(crate) fn begin_collectives(&mut self, env: &mut Env, j: JobId) {
        if let Some(sync) = &self.jobs[j].sync {
            self.communicators.begin_next(env, sync.communicator);
        }
    }

    /// Handles the end of a collective of communicator `c`, which may be the `last` one of its step: lets waiting devices go
    /// on, or ends the reductions of the step.
    pub(crate) fn collective_over(&mut self, env: &mut Env, c: CommunicatorId, last: bool) {
        let j = self.communicators.job(c);
        if last && self.jobs[j].sync.is_some() {
            return self.end_reductions(env, j);
        }
        for d in self.communicators.all[c].devices() {
            self.wake_program(env, d);
        }
    }

    /// Handles the end of all collectives of a step of job copy `j`.
    pub(super) fn end_reductions(&mut self, env: &mut Env, j: JobId) {
        if self.jobs[j].averaging.is_some() {
            return self.exchanged(env, j);
        }
        self.begin_update(env, j);
    }

    /// Returns whether job copy `j`, whose model copies have all computed, must wait for gradients; if so, begins that wait.
    pub(crate) fn awaits_gradients(&mut self, env: &mut Env, j: JobId) -> bool {
        let Some(sync) = &mut self.jobs[j].sync else { return false };
        let communicator = &mut self.communicators.all[sync.communicator];
        let over = communicator.is_over();
        if over && sync.update == Span::ZERO {
            sync.restart();
            communicator.restart();
            return false;
        }
        sync.computed = Some(env.now);
        for d in self.jobs[j].parts.devices {
            if self.devices[d].state != State::Off {
                self.devices[d].since = env.now;
                self.trace_device(env, d, Cause::Communication.name());
            }
        }
        if over {
            self.begin_update(env, j);
        }
        true
    }

    /// Ends the part of the communication that the backward pass of job copy `j` did not hide, and with it the step.
    pub(crate) fn end_communication(&mut self, env: &mut Env, j: JobId) {
        let job = &mut self.jobs[j];
        let Some(sync) = &mut job.sync else { return };
        let Some(since) = sync.computed else { return };
        let update = sync.updating.unwrap_or(env.now);
        let cause = StallCause::own(Cause::Communication);
        for d in job.parts.devices {
            if self.devices[d].state != State::Off {
                job.steps.add_stall(Segment { start: since, end: update, cause });
            }
        }
        sync.restart();
        self.communicators.all[sync.communicator].restart();
        self.account_for_update(env.now, j, update);
        for d in self.jobs[j].parts.devices {
            if self.devices[d].state != State::Off {
                self.trace_device(env, d, "waiting");
            }
        }
        self.end_of_step(env, j);
    }
}
