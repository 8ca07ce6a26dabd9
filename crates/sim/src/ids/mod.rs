//! Ids of the simulator's entities, and the tables that they index. Nothing here knows what an entity is.
//!
//! A [`DeviceId`] identifies one device and indexes every table with one entry for each device; an id of another kind, such as
//! a [`WorkerId`], cannot index these tables. [`Ids<DeviceId>`] is a range of consecutive ids, [`IdVec<DeviceId, T>`] a table
//! with a `T` for each device. The owner of an entity keeps its table.

mod slab;
mod table;

use std::fmt;

pub(crate) use slab::Slab;
pub(crate) use table::{IdVec, RangeVec};

/// Identifies one entity of its kind by its number, counted from 0.
pub(crate) trait Id: Copy + Ord + fmt::Debug {
    /// Returns the id with number `number`.
    fn new(number: u32) -> Self;

    /// Returns the id's number.
    fn number(self) -> u32;
}

/// Declares kinds of ids.
macro_rules! ids {
    ($($(#[$meaning:meta])* $Name:ident;)*) => {$(
        $(#[$meaning])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $Name(u32);

        impl $Name {
            /// Returns the id with number `number`.
            #[inline(always)]
            pub(crate) const fn new(number: u32) -> $Name {
                $Name(number)
            }

            /// Returns the id's number.
            #[inline(always)]
            pub(crate) const fn number(self) -> u32 {
                self.0
            }
        }

        impl Id for $Name {
            #[inline(always)]
            fn new(number: u32) -> $Name {
                $Name::new(number)
            }

            #[inline(always)]
            fn number(self) -> u32 {
                $Name::number(self)
            }
        }

        /// Returns the id `by` places after this one.
        impl std::ops::Add<u32> for $Name {
            type Output = $Name;

            #[inline(always)]
            fn add(self, by: u32) -> $Name {
                $Name(self.0 + by)
            }
        }

        /// Returns the id `by` places before this one.
        impl std::ops::Sub<u32> for $Name {
            type Output = $Name;

            #[inline(always)]
            fn sub(self, by: u32) -> $Name {
                $Name(self.0 - by)
            }
        }

        /// Returns by how many places this id comes after `first`.
        impl std::ops::Sub for $Name {
            type Output = u32;

            #[inline(always)]
            fn sub(self, first: $Name) -> u32 {
                self.0 - first.0
            }
        }

        impl fmt::Debug for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// The averages of the models of a job copy's learners.
    AveragesId;
    /// A bucket of gradients that is exchanged with parameter servers, by its number in the exchange.
    BucketId;
    /// The token bucket of a storage that gives bursts, or of a CPU quota.
    TokenBucketId;
    /// A node's cache on a tier, or of decoded samples.
    CacheId;
    CheckpointId;
    /// A collective of a step, by its number in its communicator.
    CollectiveId;
    /// A simulated node of a job copy, by its number among those that are simulated.
    SimulatedNodeId;
    CommunicatorId;
    /// A stream that copies files to a node.
    CopyId;
    DatasetId;
    DeviceId;
    DiskHeadId;
    /// The failures of a job copy.
    FailuresId;
    FaultId;
    /// A GPU of those that a loader feeds.
    GpuId;
    /// A list that records, for each cache unit, the node that keeps the unit.
    HoldersId;
    JobId;
    /// A kind of kernels of a step.
    KernelsId;
    LimiterId;
    /// A background load.
    LoadId;
    LoaderId;
    MessageId;
    /// A model copy of a job copy, by its number there.
    ModelId;
    /// A bucket that a device offers to the sums of its GPU, by its number in the step.
    OfferId;
    PageCacheId;
    /// A part of a model copy (a pipeline stage), by its number there.
    PartId;
    /// A rank of a collective, by its number there.
    PartyId;
    /// A piece of a step after which gradients are offered.
    PieceId;
    /// A program of a job copy.
    ProgramId;
    /// A request for one range of a file.
    RangeId;
    /// A rank of a job copy: a GPU or a server.
    RankId;
    /// The saved state of a job copy, and what its checkpoints and failures cost.
    RecoveryId;
    /// A background request.
    RequestId;
    /// One of the alternative routes of a mount.
    RouteId;
    /// An exchange with parameter servers.
    ServersId;
    ServerWorkerId;
    /// A server's part of a bucket, by its number in the exchange.
    ShardId;
    StageId;
    /// The copying of a data set to a node.
    StagingId;
    StationId;
    TableId;
    TrainerId;
    /// The requests at a storage that serves them in order of arrival.
    TurnsId;
    /// A unit of a cache.
    UnitId;
    /// An operation of a stage.
    WorkId;
    WorkerId;
    /// A checkpoint that is not yet written.
    WriteId;
}

/// A range of consecutive ids.
#[derive(Clone, Copy)]
pub(crate) struct Ids<I> {
    pub(crate) start: I,
    /// The id one after the last.
    pub(crate) end: I,
}

impl<I: Id> Ids<I> {
    /// Returns the range from `start` up to, but without, `end`.
    pub(crate) const fn new(start: I, end: I) -> Ids<I> {
        Ids { start, end }
    }

    /// Returns the number of ids.
    pub(crate) fn len(self) -> usize {
        self.end.number().saturating_sub(self.start.number()) as usize
    }

    /// Returns whether the range holds no id.
    pub(crate) fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the first id; `None` if the range holds no id.
    pub(crate) fn first(self) -> Option<I> {
        self.iter().next()
    }

    /// Returns whether `id` is in the range.
    pub(crate) fn contains(self, id: I) -> bool {
        self.start <= id && id < self.end
    }

    /// Iterates over all ids of the range, in order.
    #[inline(always)]
    pub(crate) fn iter(self) -> IdIter<I> {
        (self.start.number()..self.end.number()).map(I::new)
    }
}

impl<I: Id> Default for Ids<I> {
    fn default() -> Ids<I> {
        Ids::new(I::new(0), I::new(0))
    }
}

impl<I: fmt::Debug> fmt::Debug for Ids<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}..{:?}", self.start, self.end)
    }
}

/// Iterator over consecutive ids.
pub(crate) type IdIter<I> = std::iter::Map<std::ops::Range<u32>, fn(u32) -> I>;

impl<I: Id> IntoIterator for Ids<I> {
    type Item = I;
    type IntoIter = IdIter<I>;

    #[inline(always)]
    fn into_iter(self) -> IdIter<I> {
        self.iter()
    }
}

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
