//! What cannot be done, and what to do instead.

use super::{Algorithm, Operation};
use thiserror::Error;

/// Most bytes of a buffer: whole in an `f64`.
pub(super) const MOST_BYTES: u64 = 1 << 53;
/// Most ranks.
pub(super) const MOST_RANKS: u32 = 1 << 24;

/// Why there is no such collective.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Invalid {
    /// No ranks, or too many.
    #[error("{0} ranks: from 1 to {MOST_RANKS} can take part")]
    Ranks(u32),
    /// Too many bytes.
    #[error("a buffer of {0} bytes: {MOST_BYTES} are the most")]
    Bytes(u64),
    /// Root outside of the ranks.
    #[error("root {root} is none of {ranks} ranks: choose one from 0 to {}", ranks - 1)]
    Root {
        /// The root.
        root: u32,
        /// How many there are.
        ranks: u32,
    },
    /// Chunks of nothing.
    #[error("a chunk has one byte at least")]
    Chunk,
    /// The algorithm does not do the operation.
    #[error("`{}` does not do `{}`: choose one of {}", algorithm.name(), operation.name(), offers(*operation))]
    NotOffered {
        /// The algorithm.
        algorithm: Algorithm,
        /// The operation.
        operation: Operation,
    },
    /// No groups for a hierarchical collective, or groups for another.
    #[error("`hierarchical` and groups go together: give both or none")]
    Groups,
    /// Groups that are empty, or not of all ranks.
    #[error(
        "groups have {in_groups} ranks of {ranks}: each rank is in one group, and no group is empty"
    )]
    NotAll {
        /// In groups.
        in_groups: u64,
        /// In the collective.
        ranks: u32,
    },
    /// Groups inside groups.
    #[error(
        "groups have no groups: choose another algorithm than `hierarchical` inside and across"
    )]
    Nested,
    /// Across by index where that cannot be.
    #[error(
        "ranks of the same index go across for `allreduce` and `all-to-all` among equal groups only: use leaders"
    )]
    SameIndex,
    /// An all-to-all by leaders.
    #[error(
        "`all-to-all` in groups takes equal groups, ranks of the same index, and `flat` inside and across"
    )]
    AllToAll,
}

/// Names of the algorithms for an operation.
fn offers(operation: Operation) -> String {
    let able = Algorithm::ALL.into_iter().filter(|algorithm| algorithm.offers(operation));
    able.map(|algorithm| format!("`{}`", algorithm.name())).collect::<Vec<_>>().join(", ")
}
