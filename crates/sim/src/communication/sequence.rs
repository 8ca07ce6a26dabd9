//! The collectives of a communicator, and its participants.

use std::sync::Arc;

use forebay_collective::Operation;
use forebay_engine::Span;
use forebay_scenario::Members;

/// The participants of a communicator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranks {
    /// The communicator's ranks, by their ports within the job copy.
    pub(crate) members: Members,
    /// Ids of the devices that wait for the communicator's collectives.
    pub(crate) devices: Members,
    /// Number of participants that must start each collective: devices, or GPUs on which learners first sum their gradients.
    pub(crate) starters: u32,
}

/// The collectives of a step.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// The collectives in order; if the list has a single entry, it stands for every collective of the step.
    pub(crate) collectives: Arc<[Planned]>,
    /// Number of collectives in a step.
    pub(crate) number: u32,
    /// Number of collectives that count as started when a step begins: broadcasts from a root, which has all parameters at that
    /// time.
    pub(crate) given: u32,
    /// Maximum bytes of waiting collectives that are fused into one [B].
    pub(crate) fusion: u64,
}

/// A collective of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) operation: Operation,
    pub(crate) bytes: u64,
    /// Time from the last rank's start of the collective until the framework notices that start; `overhead` is the time that the
    /// framework then needs for the collective's tensors.
    pub(crate) late: Span,
    pub(crate) overhead: Span,
}

impl Planned {
    /// Returns the minimum number of bytes that each of `ranks` ranks sends: 2 (n − 1) ÷ n of the bytes in an allreduce, half
    /// of that in other collectives.
    pub(super) fn volume(&self, ranks: u32) -> f64 {
        let part = 1.0 - 1.0 / f64::from(ranks.max(1));
        let twice = if self.operation == Operation::Allreduce { 2.0 } else { 1.0 };
        twice * part * self.bytes as f64
    }
}
