//! Messages between the owners of the world.

use super::station::Waiting;
use crate::ids::{CommunicatorId, DeviceId, Ids, JobId, LoaderId, StagingId, WorkerId};

/// A message from one owner to another. The world delivers notices in order, before workers and later events go on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Notice {
    /// A batch is ready for a device that waits for `loader`; `worker` has made the batch's last sample.
    BatchReady { loader: LoaderId, worker: WorkerId },
    /// A core that a message has left is free for the next waiting activity.
    CoreFree(Waiting),
    /// A collective of a communicator is over; `last` says whether it was the last one of the step.
    CollectiveOver { communicator: CommunicatorId, last: bool },
    /// The current op of a device is over.
    OpOver(DeviceId),
    /// A job copy starts with copying its data sets to its nodes; these stagings have to begin.
    Stage(Ids<StagingId>),
    /// A node of a job copy has all data that are copied to it.
    NodeStaged(JobId),
    /// Faults have changed the speed of the GPUs of `device` to the share `pace` of its normal speed.
    DevicePace { device: DeviceId, pace: f64 },
}
