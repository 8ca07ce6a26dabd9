//! Synchronous training: the end of a step, when all model copies have computed and all gradients are reduced.

use crate::device::State;
use crate::env::Env;
use crate::index::{CommunicatorId, DeviceId, JobId};
use crate::jobs::Jobs;
use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::pieces::Pieces;

/// What the model copies of a job copy do with their gradients.
#[derive(Debug)]
pub(crate) struct SyncRun {
    pub(crate) pieces: Pieces,
    /// The communicator in which they are reduced.
    pub(crate) communicator: CommunicatorId,
    /// Time of the update at a root, or of everyone to decompress gradients.
    pub(super) update: Span,
    /// Whether that is a root's.
    pub(super) root: bool,
    /// Whether gradients are the sums of a GPU's learners, which it compresses.
    pub(super) learners: bool,
    /// When the last model copy had computed.
    pub(super) computed: Option<Time>,
    /// When the update began.
    pub(super) updating: Option<Time>,
}

impl SyncRun {
    /// Gradients of `pieces`, of `learners` or not, reduced in `communicator`, then an update, by a `root` or by everyone.
    pub(crate) fn new(
        pieces: Pieces,
        communicator: CommunicatorId,
        update: Span,
        (root, learners): (bool, bool),
    ) -> SyncRun {
        let (computed, updating) = (None, None);
        SyncRun { pieces, communicator, update, root, learners, computed, updating }
    }

    /// A new step begins.
    pub(crate) fn restart(&mut self) {
        (self.computed, self.updating) = (None, None);
    }
}

impl Jobs {
    /// Device `d` has computed a piece of a step; its gradients of that piece are ready to be reduced.
    pub(crate) fn offer_gradients(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        let j = self.devices[d].job;
        if self.jobs[j].learners.number > 1 {
            return self.add_to_sum(env, d, piece);
        }
        self.compress_sum(env, d, piece);
    }

    /// The GPU of device `d` has the gradients of a piece.
    pub(super) fn start_reductions(&mut self, env: &mut Env, d: DeviceId, piece: u32) {
        let j = self.devices[d].job;
        let Some(sync) = &self.jobs[j].sync else { return };
        let (c, made) = (sync.communicator, sync.pieces.buckets_of(piece));
        self.communicators.start(env, c, made, d);
    }

    /// What job copy `j` has to send when a step begins sets out: parameters of a root.
    pub(crate) fn begin_collectives(&mut self, env: &mut Env, j: JobId) {
        if let Some(sync) = &self.jobs[j].sync {
            self.communicators.begin_next(env, sync.communicator);
        }
    }

    /// A collective of communicator `c` is over, the `last` one of a step or not: who waited goes on.
    pub(crate) fn collective_over(&mut self, env: &mut Env, c: CommunicatorId, last: bool) {
        let j = self.communicators.job(c);
        if last && self.jobs[j].sync.is_some() {
            return self.end_reductions(env, j);
        }
        for d in self.communicators.all[c].devices() {
            self.wake_program(env, d);
        }
    }

    /// All collectives of a step of job copy `j` are over.
    pub(super) fn end_reductions(&mut self, env: &mut Env, j: JobId) {
        if self.jobs[j].averaging.is_some() {
            return self.exchanged(env, j);
        }
        self.begin_update(env, j);
    }

    /// Whether job copy `j`, whose model copies have all computed, must wait for gradients; it does.
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

    /// What backward did not hide is over.
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
