//! What owners tell each other.

use super::index::{CommunicatorId, DeviceId, Ids, JobId, LoaderId, WorkerId};
use super::staging::Staging;
use super::worker::Waiting;

/// A message from one owner to another. The world delivers notices in order, before workers and later events go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Notice {
    /// There is a batch for a device that waits for one of this loader; the worker has made the last of it.
    BatchReady { loader: LoaderId, worker: WorkerId },
    /// A core that a message left is the next one's.
    CoreFree(Waiting),
    /// A collective of a communicator is over, the `last` one of a step or not.
    CollectiveOver { communicator: CommunicatorId, last: bool },
    /// A device may begin its next step.
    GoOn(DeviceId),
    /// A job copy begins by copying its data set to its nodes.
    Stage(Ids<Staging>),
    /// A node of a job copy has all that it copies.
    NodeStaged(JobId),
    /// A fault leaves a device this share of its speed.
    DevicePace { device: DeviceId, pace: f64 },
    /// The same of the kernels of a loader.
    KernelPace { loader: LoaderId, pace: f64 },
}
