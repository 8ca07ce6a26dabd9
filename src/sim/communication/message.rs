//! Transfers in progress.

use std::collections::BTreeSet;

use crate::collective::{Hop, Kind};

/// In place of a communicator: model copies and their parameter servers, which push and pull.
pub(super) const SERVERS: u32 = u32::MAX;

/// A transfer of an exchange.
#[derive(Debug, Clone, Copy)]
pub(in crate::sim) struct Message {
    /// The job copy that sends it, and the communicator in whose collective it is, or [`SERVERS`].
    pub(super) job: u32,
    pub(super) communicator: u32,
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
pub(in crate::sim) struct Messages {
    all: Vec<Message>,
    free: Vec<u32>,
}

impl Messages {
    /// Begins a transfer of a communicator of job copy `job`; its place.
    pub(super) fn add(&mut self, (job, communicator): (u32, u32), hop: Hop) -> u32 {
        let Hop { from, to, bytes, kind } = hop;
        let reduces = kind == Kind::Reduce;
        let stage = Stage::Sending;
        let message = Message { job, communicator, from, to, bytes, reduces, stage };
        match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = message;
                place
            }
            None => {
                self.all.push(message);
                self.all.len() as u32 - 1
            }
        }
    }

    /// The job copy whose message number `m` is.
    pub(in crate::sim) fn job(&self, m: u32) -> u32 {
        self.all[m as usize].job
    }

    /// The communicator whose message number `m` is.
    pub(super) fn communicator(&self, m: u32) -> u32 {
        self.all[m as usize].communicator
    }

    pub(super) fn get(&mut self, m: u32) -> &mut Message {
        &mut self.all[m as usize]
    }

    /// Nothing of job copy `job` is on its way any more.
    pub(in crate::sim) fn forget(&mut self, job: u32) {
        let free: BTreeSet<u32> = self.free.iter().copied().collect();
        let of = |m: &u32| !free.contains(m) && self.job(*m) == job;
        let forgotten: Vec<u32> = (0..self.all.len() as u32).filter(of).collect();
        self.free.extend(forgotten);
    }

    /// Message `m` has arrived.
    pub(super) fn remove(&mut self, m: u32) -> Message {
        self.free.push(m);
        self.all[m as usize]
    }
}
