//! Kinds of communicators, and tables with an entry for each kind.

use std::ops::{Index, IndexMut};

/// A table with a `T` for each kind of communicator, indexed by the kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByCommunicator<T>([T; Communicator::ALL.len()]);

impl<T> Index<Communicator> for ByCommunicator<T> {
    type Output = T;

    #[inline]
    fn index(&self, kind: Communicator) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<Communicator> for ByCommunicator<T> {
    fn index_mut(&mut self, kind: Communicator) -> &mut T {
        &mut self.0[kind as usize]
    }
}

/// The kind of a communicator, named by what its ranks have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Communicator {
    /// Ranks of all model copies that have the same part of the model.
    Data,
    /// Ranks that split the layers of a stage (tensor parallelism).
    Tensor,
    /// Ranks that split the sequences of a model copy (context parallelism).
    Context,
    /// Ranks that together hold all experts of a stage.
    Expert,
    /// Ranks that hold the same part of the same experts, and reduce the gradients of these experts.
    ExpertData,
    /// Ranks of `Data` that shard states among themselves, where not all of them do (hybrid sharding).
    Shard,
    /// Ranks of `Data` that hold the same shards, one in each group of `Shard`.
    Replica,
    /// Ranks of `Data` that shard a second copy of the parameters (hpZ), from which backward gathers.
    Secondary,
    /// Ranks of `ExpertData` that shard states among themselves.
    ExpertShard,
    /// Ranks of `ExpertData` that hold the same shards.
    ExpertReplica,
    /// Ranks of `ExpertData` that shard a second copy of the parameters (hpZ), from which backward gathers.
    ExpertSecondary,
    /// Ranks of `Data` that train one model together, between exchanges that average parameters.
    Inner,
    /// Ranks of `ExpertData` that train one model together, between exchanges that average parameters.
    ExpertInner,
}

impl Communicator {
    /// Kinds of communicators among ranks that reduce gradients, each with the kind for gradients of experts.
    pub(crate) const OF_GRADIENTS: [[Communicator; 2]; 3] = [
        [Communicator::Data, Communicator::ExpertData],
        [Communicator::Shard, Communicator::ExpertShard],
        [Communicator::Replica, Communicator::ExpertReplica],
    ];

    /// Returns this kind's counterpart for gradients of experts if `experts` is true; otherwise this kind.
    pub(crate) fn for_experts(self, experts: bool) -> Communicator {
        match (self, experts) {
            (Communicator::Data, true) => Communicator::ExpertData,
            (Communicator::Shard, true) => Communicator::ExpertShard,
            (Communicator::Replica, true) => Communicator::ExpertReplica,
            (Communicator::Secondary, true) => Communicator::ExpertSecondary,
            (Communicator::Inner, true) => Communicator::ExpertInner,
            (kind, _) => kind,
        }
    }

    /// All kinds of communicators, in the order of their numbers.
    pub(super) const ALL: [Communicator; 13] = [
        Communicator::Data,
        Communicator::Tensor,
        Communicator::Context,
        Communicator::Expert,
        Communicator::ExpertData,
        Communicator::Shard,
        Communicator::Replica,
        Communicator::Secondary,
        Communicator::ExpertShard,
        Communicator::ExpertReplica,
        Communicator::ExpertSecondary,
        Communicator::Inner,
        Communicator::ExpertInner,
    ];
}
