//! Causes for which accelerators wait.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Cause of a wait: what the awaited work was doing, or queueing for, during the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Cause {
    /// Opening files: waiting for, or being served by, a storage's operation station.
    Open,
    /// Request latency: network round trip, seek, first byte; also a `delay` that the user sets for a loader.
    Latency,
    /// Bytes on their way from storage.
    Transfer,
    /// A worker computes on a core, as in decoding.
    Decode,
    /// A worker could run, but other threads have the cores.
    CpuWait,
    /// A worker could run, but its control group has used up its CPU quota for this period.
    Throttled,
    /// Holding back a finished item, because an earlier item is not yet finished.
    Order,
    /// Starting a loader again at an epoch boundary.
    Restart,
    /// Bytes on their way to the device.
    Copy,
    /// The first batch of an epoch, which workers read and decode while no other batch is ready.
    FirstBatch,
    /// The trainer's own work: launching kernels, the interpreter.
    Launch,
    /// A collective that the backward pass does not hide.
    Communication,
    /// Idleness of a pipeline stage that has no batch, or no room for its result.
    Bubble,
    /// Copying parts of a model that does not fit on a GPU to or from the node's memory.
    Swap,
    /// Writing a checkpoint.
    Checkpoint,
    /// A fault and the recovery from it.
    Fault,
    /// Computing a step; occurs only as the cause of a wait for a peer.
    Compute,
}

impl Cause {
    /// Every cause, in the order of the enum.
    pub const ALL: [Cause; 17] = [
        Cause::Open,
        Cause::Latency,
        Cause::Transfer,
        Cause::Decode,
        Cause::CpuWait,
        Cause::Throttled,
        Cause::Order,
        Cause::Restart,
        Cause::Copy,
        Cause::FirstBatch,
        Cause::Launch,
        Cause::Communication,
        Cause::Bubble,
        Cause::Swap,
        Cause::Checkpoint,
        Cause::Fault,
        Cause::Compute,
    ];

    /// Whether the cause is a part of getting a batch from storage to the device.
    pub fn is_input(self) -> bool {
        match self {
            Cause::Open
            | Cause::Latency
            | Cause::Transfer
            | Cause::Decode
            | Cause::CpuWait
            | Cause::Throttled
            | Cause::Order
            | Cause::Restart
            | Cause::Copy
            | Cause::FirstBatch => true,
            Cause::Launch
            | Cause::Communication
            | Cause::Bubble
            | Cause::Swap
            | Cause::Checkpoint
            | Cause::Fault
            | Cause::Compute => false,
        }
    }

    /// Returns the name of the cause in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Open => "open",
            Cause::Latency => "latency",
            Cause::Transfer => "transfer",
            Cause::Decode => "decode",
            Cause::CpuWait => "cpu-wait",
            Cause::Throttled => "throttled",
            Cause::Order => "order",
            Cause::Restart => "restart",
            Cause::Copy => "copy",
            Cause::FirstBatch => "first-batch",
            Cause::Launch => "launch",
            Cause::Communication => "communication",
            Cause::Bubble => "bubble",
            Cause::Swap => "swap",
            Cause::Checkpoint => "checkpoint",
            Cause::Fault => "fault",
            Cause::Compute => "compute",
        }
    }

    /// Returns what happens during a wait for this cause, as a clause without a full stop.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Cause::Open => "files are opened, or wait for the storage's limit of operations",
            Cause::Latency => {
                "a request's first byte is on its way (network round trip, seek), or the loader waits in a `delay`"
            }
            Cause::Transfer => "bytes come from the storage",
            Cause::Decode => "a worker computes on a core: decoding, augmenting, collating",
            Cause::CpuWait => "a worker could compute, and other threads have the cores",
            Cause::Throttled => {
                "a worker could compute, and its control group has used up its CPU quota for this period"
            }
            Cause::Order => "a batch is finished and held back behind an earlier one that is not",
            Cause::Restart => "the loader starts its workers, or builds its pipeline, for an epoch",
            Cause::Copy => "a batch is copied to the device",
            Cause::FirstBatch => {
                "the first batch of an epoch is read and decoded, and the loader has no other ready"
            }
            Cause::Launch => {
                "the trainer itself works on cores: launching kernels, the interpreter"
            }
            Cause::Communication => {
                "a collective, push or pull goes on that computing does not hide"
            }
            Cause::Bubble => "a pipeline stage has no micro-batch, or no room for its result",
            Cause::Swap => {
                "parts of a model that does not fit are copied to or from the node's memory"
            }
            Cause::Checkpoint => "a checkpoint is written",
            Cause::Fault => "work is lost to a failure, or the job recovers from it",
            Cause::Compute => "another rank still computes its step",
        }
    }

    /// Returns what to change so that less time goes into this cause, as a sentence.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Cause::Open => {
                "Pack samples into shards (`layout`), cache the data set on the nodes (`page_cache`, `cache`), or buy more \
                 metadata operations (`operations`)."
            }
            Cause::Latency => {
                "Read more at a time: more loader workers or a deeper prefetch; or larger requests, or a storage with less \
                 latency."
            }
            Cause::Transfer => {
                "Raise what is full (`bandwidth`, `nic`); if nothing is, more workers or a faster `per_stream`. Or move fewer \
                 bytes: compressed samples, a cache on the nodes."
            }
            Cause::Decode => {
                "Add loader workers while cores are free; or decode less (`decoded_cache`, smaller images, `dali` on the GPU)."
            }
            Cause::CpuWait => {
                "Use more cores for each accelerator (`cores`), or cheaper decoding; processes as workers where `gil` is what is \
                 waited for."
            }
            Cause::Throttled => {
                "Raise `cpu_quota`, or run no more threads than it has cores, so that no period ends early; and queue more batches \
                 ahead than the devices take in a period."
            }
            Cause::Order => {
                "Deliver batches as they are finished (`in_order = false`, `deterministic = false`), or prefetch deeper."
            }
            Cause::Restart => {
                "Keep workers from epoch to epoch (`persistent_workers = true`), or repeat the data set in one pipeline of `tf.data`; make \
                 longer epochs."
            }
            Cause::Copy => {
                "Pin memory (`pin_memory`) so that copies go on beside the steps; copy smaller samples; use a faster `pcie`."
            }
            Cause::FirstBatch => {
                "Make epochs longer, or let the loader read ahead across their ends; or prefetch less at a time (fewer workers), so that \
                 the first batches are not read beside many later ones; or use a faster storage."
            }
            Cause::Launch => {
                "Use larger batches, fewer and larger kernels (graphs, fusion), or faster cores."
            }
            Cause::Communication => {
                "Exchange less (compression, accumulation, a longer `period`), overlap it with backward, or use a faster \
                 network."
            }
            Cause::Bubble => {
                "Use more micro-batches, fewer or more even stages, or another schedule (`1f1b`, interleaved, zero-bubble)."
            }
            Cause::Swap => "Make it fit: a smaller batch, ZeRO, more GPUs; or a faster `pcie`.",
            Cause::Checkpoint => {
                "Write checkpoints less often (see `best_interval`), in the background, from more nodes, or to a faster storage."
            }
            Cause::Fault => {
                "Write checkpoints more often, or faster; restart faster; replace what fails."
            }
            Cause::Compute => {
                "Give every rank the same work (batch, stages, GPUs), or find why one is slower: faults, jitter, mixed nodes."
            }
        }
    }
}

/// Cause of a stall; each instant of a stall has exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StallCause {
    /// Whether the accelerator waited for a peer. If so, `cause` is what the peer was waiting for, or `Compute` if
    /// the peer was computing.
    pub peer: bool,
    /// Cause of the wait: what the awaited work was doing, or queueing for, during the wait.
    pub cause: Cause,
}

impl StallCause {
    /// Returns the cause of a wait for the accelerator's own input or results, which were late because of `cause`.
    pub fn own(cause: Cause) -> StallCause {
        StallCause { peer: false, cause }
    }

    /// Returns the cause of a wait for a peer that was late because of `cause`.
    pub fn peer(cause: Cause) -> StallCause {
        StallCause { peer: true, cause }
    }
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.peer { "peer." } else { "" };
        write!(f, "{prefix}{}", self.cause.name())
    }
}
