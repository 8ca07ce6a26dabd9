//! Transfers in progress.

use crate::index::{CommunicatorId, JobId, MessageId, Slab};
use forebay_collective::{Hop, Kind};

/// A transfer of an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    /// The job copy that sends it, and the communicator in whose collective it is, `None` for
    /// one between a model copy and a parameter server.
    pub(super) job: JobId,
    pub(super) communicator: Option<CommunicatorId>,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) bytes: u64,
    /// Whether its receiver adds the bytes to its own.
    pub(super) reduces: bool,
    pub(super) stage: Stage,
}

impl Message {
    /// Whether it has, or waits for, a core.
    pub(super) fn is_on_core(self) -> bool {
        matches!(self.stage, Stage::Sending | Stage::Receiving)
    }
}

/// What a transfer waits for, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// A core of its sender's node.
    Sending,
    /// The latency.
    Latency,
    /// Its bytes.
    Bytes,
    /// A core of its receiver's node.
    Receiving,
    /// Its receiver's sum.
    Sum,
}

/// All transfers in progress, of all jobs.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    all: Slab<Message>,
}

impl Messages {
    /// Begins a transfer of a communicator of job copy `job`; its place.
    pub(super) fn add(
        &mut self,
        (job, communicator): (JobId, Option<CommunicatorId>),
        hop: Hop,
    ) -> MessageId {
        let Hop { from, to, bytes, kind } = hop;
        let reduces = kind == Kind::Reduce;
        let stage = Stage::Sending;
        let message = Message { job, communicator, from, to, bytes, reduces, stage };
        self.all.add(message)
    }

    /// The job copy whose message number `m` is.
    pub(crate) fn job(&self, m: MessageId) -> JobId {
        self.all[m].job
    }

    /// The communicator whose message number `m` is.
    pub(super) fn communicator(&self, m: MessageId) -> Option<CommunicatorId> {
        self.all[m].communicator
    }

    pub(super) fn get(&mut self, m: MessageId) -> &mut Message {
        &mut self.all[m]
    }

    /// Nothing of job copy `job` is on its way any more.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.all.remove_if(|message| message.job == job);
    }

    /// Message `m` has arrived.
    pub(super) fn remove(&mut self, m: MessageId) -> Message {
        self.all.remove(m);
        self.all[m]
    }
}
