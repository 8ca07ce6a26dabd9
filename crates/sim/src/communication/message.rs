//! Messages: transfers in progress.

use forebay_collective::{Hop, Kind};

use crate::ids::{CommunicatorId, JobId, MessageId, ServersId, Slab};

/// What a message belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose {
    /// A collective of a communicator.
    Communicator(CommunicatorId),
    /// An exchange with parameter servers.
    Servers(ServersId),
}

/// A transfer of an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    /// The job copy that sends the message.
    pub(super) job: JobId,
    whose: Whose,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) bytes: u64,
    /// Whether the receiver adds the bytes to its own data.
    pub(super) reduces: bool,
    pub(super) stage: Stage,
}

impl Message {
    /// Returns whether the message uses a core or waits for one.
    pub(super) fn is_on_core(self) -> bool {
        matches!(self.stage, Stage::Sending | Stage::Receiving)
    }

    /// Returns whether the bytes leave before the latency passes.
    pub(super) fn is_sent_first(self) -> bool {
        matches!(self.whose, Whose::Servers(_))
    }

    /// Returns whether the bytes of a message that is sent first have left the links.
    pub(super) fn has_left(self) -> bool {
        !matches!(self.stage, Stage::Sending | Stage::Bytes)
    }
}

/// The next thing that a message waits for. A message of a collective passes through these stages in order: its latency is mostly
/// the work of beginning it. The bytes of a message to or from a parameter server leave first, and arrive a latency later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The message waits for a core of its sender's node, or uses it.
    Sending,
    /// The message waits for its latency to pass.
    Latency,
    /// The bytes of the message are being transferred.
    Bytes,
    /// The message waits for a core of its receiver's node, or uses it.
    Receiving,
    /// The receiver adds the bytes to its own data.
    Sum,
}

/// All messages in progress, of all jobs.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    all: Slab<MessageId, Message>,
}

impl Messages {
    /// Adds a message of job copy `job`, and returns its id.
    pub(super) fn add(&mut self, (job, whose): (JobId, Whose), hop: Hop) -> MessageId {
        let Hop { from, to, bytes, kind } = hop;
        let reduces = kind == Kind::Reduce;
        let stage = Stage::Sending;
        let message = Message { job, whose, from, to, bytes, reduces, stage };
        self.all.add(message)
    }

    /// Returns the job copy that message `m` belongs to.
    pub(crate) fn job(&self, m: MessageId) -> JobId {
        self.all[m].job
    }

    /// Returns the communicator that message `m` belongs to, if it belongs to one.
    pub(super) fn communicator(&self, m: MessageId) -> Option<CommunicatorId> {
        match self.all[m].whose {
            Whose::Communicator(communicator) => Some(communicator),
            Whose::Servers(_) => None,
        }
    }

    /// Returns the parameter servers whose exchange message `m` belongs to, if it belongs to one.
    pub(super) fn servers(&self, m: MessageId) -> Option<ServersId> {
        match self.all[m].whose {
            Whose::Communicator(_) => None,
            Whose::Servers(servers) => Some(servers),
        }
    }

    pub(super) fn get(&mut self, m: MessageId) -> &mut Message {
        &mut self.all[m]
    }

    /// Removes all messages of job copy `job`.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.all.remove_if(|message| message.job == job);
    }

    /// Removes message `m`, which has arrived, and returns it.
    pub(super) fn remove(&mut self, m: MessageId) -> Message {
        self.all.remove(m);
        self.all[m]
    }
}
