//! Messages between the owners of the world.

use super::index::{CommunicatorId, DeviceId, Ids, JobId, LoaderId, WorkerId};
use super::staging::Staging;
use super::worker::Waiting;

/// A message from one owner to another. The world delivers notices in order, before workers and later events go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Notice {
    /// A batch is ready for a device that waits for `loader`; `worker` has made its last sample.
    BatchReady { loader: LoaderId, worker: WorkerId },
    /// A core that a message has left is free for the next waiting activity.
    CoreFree(Waiting),
    /// A collective of a communicator is over; `last`: it is the last one of the step.
    CollectiveOver { communicator: CommunicatorId, last: bool },
    /// A device may begin its next step.
    GoOn(DeviceId),
    /// A job copy starts by copying its data sets to its nodes.
    Stage(Ids<Staging>),
    /// A node of a job copy has all data that are copied to it.
    NodeStaged(JobId),
    /// A fault reduces the speed of `device` to the share `pace`.
    DevicePace { device: DeviceId, pace: f64 },
    /// A fault reduces the speed of the kernels of `loader` to the share `pace`.
    KernelPace { loader: LoaderId, pace: f64 },
}
