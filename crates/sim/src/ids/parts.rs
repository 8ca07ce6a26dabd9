//! Ranges of ids that belong together.

use super::{
    AveragesId, CheckpointId, CommunicatorId, DeviceId, FailuresId, Ids, LoaderId, RecoveryId,
    ServersId, StagingId, TrainerId,
};

/// The parts of a job copy, as ranges of the world's tables.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts {
    /// Copying of data sets to the job copy's nodes before training.
    pub(crate) stagings: Ids<StagingId>,
    pub(crate) loaders: Ids<LoaderId>,
    pub(crate) devices: Ids<DeviceId>,
    /// The trainers of its GPUs; empty if they use no cores.
    pub(crate) trainers: Ids<TrainerId>,
    /// The communicators between its ranks.
    pub(crate) communicators: Ids<CommunicatorId>,
    /// The averages of its learners' models; empty if they do not average their models.
    pub(crate) averages: Ids<AveragesId>,
    /// The exchange with its parameter servers; empty if it has none.
    pub(crate) servers: Ids<ServersId>,
    /// Its checkpoints and failures, and the state from which it would restart; empty if they are not simulated.
    pub(crate) checkpoints: Ids<CheckpointId>,
    pub(crate) failures: Ids<FailuresId>,
    pub(crate) recoveries: Ids<RecoveryId>,
}
