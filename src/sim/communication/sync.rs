//! Synchronous training: the end of a step, when all model copies have computed and all gradients are reduced.

use crate::account::Segment;
use crate::engine::{Span, Time};
use crate::report::{Cause, StallCause};
use crate::sim::device::State;
use crate::sim::event::Clock;
use crate::sim::index::{CommunicatorId, DeviceId, JobId, MessageId};
use crate::sim::workers::Cores;
use crate::sim::world::World;

use super::pieces::Pieces;

/// What the model copies of a job copy do with their gradients.
#[derive(Debug)]
pub(in crate::sim) struct SyncRun {
    pub(in crate::sim) pieces: Pieces,
    /// The communicator in which they are reduced.
    pub(in crate::sim) communicator: CommunicatorId,
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
    pub(in crate::sim) fn new(
        pieces: Pieces,
        communicator: CommunicatorId,
        update: Span,
        (root, learners): (bool, bool),
    ) -> SyncRun {
        let (computed, updating) = (None, None);
        SyncRun { pieces, communicator, update, root, learners, computed, updating }
    }

    /// A new step begins.
    pub(in crate::sim) fn restart(&mut self) {
        (self.computed, self.updating) = (None, None);
    }
}

impl World<'_> {
    /// Device `d` has computed a piece of a step; its gradients of that piece are ready to be reduced.
    pub(in crate::sim) fn offer_gradients(&mut self, clock: &mut Clock, d: DeviceId, piece: u32) {
        let j = self.devices[d].job;
        if self.jobs[j].learners.number > 1 {
            return self.add_to_sum(clock, d, piece);
        }
        self.compress_sum(clock, d, piece);
    }

    /// The GPU of device `d` has the gradients of a piece.
    pub(super) fn start_reductions(&mut self, clock: &mut Clock, d: DeviceId, piece: u32) {
        let j = self.devices[d].job;
        let Some(sync) = &self.jobs[j].sync else { return };
        let (c, made) = (sync.communicator, sync.pieces.buckets_of(piece));
        self.start_collectives(clock, c, made, d);
    }

    /// What job copy `j` has to send when a step begins sets out: parameters of a root.
    pub(in crate::sim) fn begin_collectives(&mut self, clock: &mut Clock, j: JobId) {
        if let Some(sync) = &self.jobs[j].sync {
            self.next_collective(clock, sync.communicator);
        }
    }

    /// The cores of a node that message `m` is at work on, if it is.
    pub(in crate::sim) fn cores_of_message(&mut self, m: MessageId) -> Option<Cores> {
        let message = *self.messages.get(m);
        let ways = self.jobs[message.job].ways.as_ref()?;
        ways.core_seconds(&message).map(|(cores, _)| cores).filter(|_| message.is_on_core())
    }

    /// Message `m` has waited.
    #[inline(never)]
    pub(in crate::sim) fn message_waited(&mut self, clock: &mut Clock, m: MessageId) {
        match self.messages.communicator(m) {
            None => self.parcel_got_on(clock, m, |exchange, around| exchange.waited(around, m)),
            Some(c) => self.exchange(clock, c, |exchange, around| exchange.waited(around, m)),
        }
    }

    /// The bytes of message `m` are there.
    #[inline(never)]
    pub(in crate::sim) fn message_moved(&mut self, clock: &mut Clock, m: MessageId) {
        match self.messages.communicator(m) {
            None => self.parcel_got_on(clock, m, |exchange, around| exchange.moved(around, m)),
            Some(c) => self.exchange(clock, c, |exchange, around| exchange.moved(around, m)),
        }
    }

    /// All collectives of a step of job copy `j` are over.
    pub(super) fn end_reductions(&mut self, clock: &mut Clock, j: JobId) {
        if self.jobs[j].averaging.is_some() {
            return self.exchanged(clock, j);
        }
        self.begin_update(clock, j);
    }

    /// Whether job copy `j`, whose model copies have all computed, must wait for gradients; it does.
    pub(in crate::sim) fn awaits_gradients(&mut self, clock: &mut Clock, j: JobId) -> bool {
        let Some(sync) = &mut self.jobs[j].sync else { return false };
        let communicator = &mut self.communicators[sync.communicator];
        let over = communicator.is_over();
        if over && sync.update == Span::ZERO {
            sync.restart();
            communicator.restart();
            return false;
        }
        sync.computed = Some(clock.now);
        for d in self.jobs[j].devices {
            if self.devices[d].state != State::Off {
                self.devices[d].since = clock.now;
                self.trace_device(clock.now, d, Cause::Communication.name());
            }
        }
        if over {
            self.begin_update(clock, j);
        }
        true
    }

    /// What backward did not hide is over.
    pub(in crate::sim) fn end_communication(&mut self, clock: &mut Clock, j: JobId) {
        let job = &mut self.jobs[j];
        let Some(sync) = &mut job.sync else { return };
        let Some(since) = sync.computed else { return };
        let update = sync.updating.unwrap_or(clock.now);
        let cause = StallCause::own(Cause::Communication);
        for d in job.devices {
            if self.devices[d].state != State::Off {
                job.steps.add_stall(Segment { start: since, end: update, cause });
            }
        }
        sync.restart();
        self.communicators[sync.communicator].restart();
        self.account_for_update(clock.now, j, update);
        for d in self.jobs[j].devices {
            if self.devices[d].state != State::Off {
                self.trace_device(clock.now, d, "waiting");
            }
        }
        self.end_of_step(clock, j);
    }
}
