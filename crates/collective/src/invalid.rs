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
    #[error("a collective cannot have {0} ranks: use 1 to {MOST_RANKS} ranks")]
    Ranks(u32),
    /// Too many bytes.
    #[error("a buffer of {0} bytes is too large: use at most {MOST_BYTES} bytes")]
    Bytes(u64),
    /// A root that is not one of the ranks.
    #[error("root {root} is not one of the {ranks} ranks: choose a root from 0 to {}", ranks - 1)]
    Root {
        /// The root.
        root: u32,
        /// Number of ranks.
        ranks: u32,
    },
    /// Chunks of zero bytes.
    #[error("a chunk must have at least one byte")]
    Chunk,
    /// An algorithm that does not offer the operation.
    #[error("the algorithm `{}` does not support the collective `{}`: choose an algorithm from {}", algorithm.name(), operation.name(), offers(*operation))]
    NotOffered {
        /// The algorithm.
        algorithm: Algorithm,
        /// The operation.
        operation: Operation,
    },
    /// A hierarchical collective without groups, or another collective with groups.
    #[error(
        "the algorithm `hierarchical` and groups are valid only together: give both or neither"
    )]
    Groups,
    /// Groups that have more or fewer ranks in all than the collective, or an empty group among
    /// them.
    #[error(
        "the groups contain {in_groups} ranks in total, and the collective has {ranks}: put each rank into exactly one group, and leave no group empty"
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
        "`all-to-all` in groups needs groups of equal size, exchanges between ranks of the same index, and the algorithm `flat` both inside and across groups"
    )]
    AllToAll,
}

/// Returns the names of the algorithms that offer an operation.
fn offers(operation: Operation) -> String {
    let able = Algorithm::ALL.into_iter().filter(|algorithm| algorithm.offers(operation));
    able.map(|algorithm| format!("`{}`", algorithm.name())).collect::<Vec<_>>().join(", ")
}
