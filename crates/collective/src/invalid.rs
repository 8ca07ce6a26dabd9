//! Errors: why a collective is not valid, and what to choose instead.

use super::{Algorithm, Operation};
use thiserror::Error;

/// Largest number of bytes of a buffer: all numbers up to it are exact in an `f64`.
pub(super) const MOST_BYTES: u64 = 1 << 53;
/// Largest number of ranks.
pub(super) const MOST_RANKS: u32 = 1 << 24;

/// The reason why a collective is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Invalid {
    /// A number of ranks that is zero or too large.
    #[error("{0} ranks: from 1 to {MOST_RANKS} can take part")]
    Ranks(u32),
    /// Too many bytes.
    #[error("a buffer of {0} bytes: at most {MOST_BYTES} are possible")]
    Bytes(u64),
    /// A root that is not one of the ranks.
    #[error("root {root} is none of {ranks} ranks: choose one from 0 to {}", ranks - 1)]
    Root {
        /// The root.
        root: u32,
        /// Number of ranks.
        ranks: u32,
    },
    /// Chunks of zero bytes.
    #[error("a chunk has one byte at least")]
    Chunk,
    /// An algorithm that does not offer the operation.
    #[error("`{}` does not do `{}`: choose one of {}", algorithm.name(), operation.name(), offers(*operation))]
    NotOffered {
        /// The algorithm.
        algorithm: Algorithm,
        /// The operation.
        operation: Operation,
    },
    /// A hierarchical collective without groups, or another collective with groups.
    #[error("`hierarchical` and groups go together: give both or none")]
    Groups,
    /// Groups that have more or fewer ranks in all than the collective, or an empty group among
    /// them.
    #[error(
        "groups have {in_groups} of {ranks} ranks: put each rank into exactly one group, and leave no group empty"
    )]
    NotAll {
        /// Number of ranks in groups.
        in_groups: u64,
        /// Number of ranks in the collective.
        ranks: u32,
    },
    /// Groups inside groups.
    #[error("`hierarchical` cannot be nested: choose another algorithm inside and across groups")]
    Nested,
    /// An exchange across groups among ranks of the same index, for an operation that is neither an allreduce nor an
    /// all-to-all, or for an allreduce in groups of different sizes.
    #[error(
        "`allreduce` and `all-to-all` across groups of different sizes cannot go between ranks of the same index: use \
         leaders"
    )]
    SameIndex,
    /// An all-to-all in groups with leaders, with unequal groups, or with another algorithm than
    /// `flat`.
    #[error(
        "`all-to-all` in groups needs equal groups, ranks of the same index, and `flat` inside and across"
    )]
    AllToAll,
}

/// Returns the names of the algorithms that offer an operation.
fn offers(operation: Operation) -> String {
    let able = Algorithm::ALL.into_iter().filter(|algorithm| algorithm.offers(operation));
    able.map(|algorithm| format!("`{}`", algorithm.name())).collect::<Vec<_>>().join(", ")
}
