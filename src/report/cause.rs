//! Why an accelerator waited.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What the work that ends a wait was doing, or was queueing for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Cause {
    /// Opening files: waiting for, or being served by, a storage's operation station.
    Open,
    /// Request latency: network round trip, seek, first byte; also a user's own delay.
    Latency,
    /// Bytes on their way from storage.
    Transfer,
    /// Using a core.
    Decode,
    /// Runnable, but other threads have the cores.
    CpuWait,
    /// Finished, but held back behind an earlier item that is not.
    Order,
    /// Starting a loader again at an epoch boundary.
    Restart,
    /// Bytes on their way to the device.
    Copy,
    /// The trainer's own work on cores: launching kernels, the interpreter.
    Launch,
    /// A collective that backward does not hide.
    Communication,
    /// A pipeline stage without a batch, or without room for its result.
    Bubble,
    /// Out-of-core traffic.
    Swap,
    /// Writing a checkpoint.
    Checkpoint,
    /// A fault and the recovery from it.
    Fault,
    /// Training: only ever the cause of a peer's wait.
    Compute,
}

impl Cause {
    /// Every cause, in the order of the enum.
    pub const ALL: [Cause; 15] = [
        Cause::Open,
        Cause::Latency,
        Cause::Transfer,
        Cause::Decode,
        Cause::CpuWait,
        Cause::Order,
        Cause::Restart,
        Cause::Copy,
        Cause::Launch,
        Cause::Communication,
        Cause::Bubble,
        Cause::Swap,
        Cause::Checkpoint,
        Cause::Fault,
        Cause::Compute,
    ];

    /// Whether it is a part of getting a batch from storage to the device.
    pub fn is_input(self) -> bool {
        match self {
            Cause::Open
            | Cause::Latency
            | Cause::Transfer
            | Cause::Decode
            | Cause::CpuWait
            | Cause::Order
            | Cause::Restart
            | Cause::Copy => true,
            Cause::Launch
            | Cause::Communication
            | Cause::Bubble
            | Cause::Swap
            | Cause::Checkpoint
            | Cause::Fault
            | Cause::Compute => false,
        }
    }

    /// The cause as reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Open => "open",
            Cause::Latency => "latency",
            Cause::Transfer => "transfer",
            Cause::Decode => "decode",
            Cause::CpuWait => "cpu-wait",
            Cause::Order => "order",
            Cause::Restart => "restart",
            Cause::Copy => "copy",
            Cause::Launch => "launch",
            Cause::Communication => "communication",
            Cause::Bubble => "bubble",
            Cause::Swap => "swap",
            Cause::Checkpoint => "checkpoint",
            Cause::Fault => "fault",
            Cause::Compute => "compute",
        }
    }
}

/// The one cause of an instant of a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StallCause {
    /// Whether the wait was for a peer, which in turn waited (or computed) for `cause`.
    pub peer: bool,
    /// What the work was doing.
    pub cause: Cause,
}

impl StallCause {
    /// The accelerator's own input was late because of `cause`.
    pub fn own(cause: Cause) -> StallCause {
        StallCause { peer: false, cause }
    }

    /// A peer was late because of `cause`.
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
