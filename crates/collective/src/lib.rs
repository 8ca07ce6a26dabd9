//! Collectives: which rank sends what to which rank, in which phase; a pure function of ranks and bytes.
//!
//! A [`Collective`] is the request; its [`Schedule`] has the transfers. A schedule makes each transfer when it is asked
//! for, so that 4,096 ranks in a ring need no memory.
//!
//! # How a schedule runs
//!
//! A transfer of phase p starts when its sender and its receiver have finished all their own transfers of earlier
//! phases. The transfer first takes a latency alpha; then its bytes pass the network; then, if it reduces, its receiver
//! reduces the bytes; then it is finished. Transfers of one rank in one phase share the rank's links. There is no other
//! barrier: ranks may be in different phases.
//!
//! A broadcast run backwards is a reduction, and an allgather run backwards is a reduce-scatter (Chan, Heimlich,
//! Purkayastha and van de Geijn, *Collective communication: theory, practice, and experience*, 2007). This crate makes
//! reductions and reduce-scatters in this way.
//!
//! # Example
//!
//! A ring among 8 ranks has 14 phases, each with an eighth of the bytes.
//!
//! ```
//! use forebay_collective::{Algorithm, Collective, Cost, Operation, closed_form};
//!
//! let collective = Collective::new(Operation::Allreduce, Algorithm::Ring, 8, 800_000_000);
//! assert_eq!(collective.schedule()?.phases(), 14);
//! let link = Cost { alpha: 0.0, beta: 1e-9, gamma: 0.0 };
//! assert!((closed_form(&collective, &link, &link)? - 1.4).abs() < 1e-9);
//! # Ok::<(), forebay_collective::Invalid>(())
//! ```

mod binomial_tree;
mod bruck;
mod choice;
mod closed_form;
mod double_binary_tree;
mod flat;
mod halving_doubling;
mod hierarchical;
mod in_switch;
mod invalid;
mod names;
mod nccl_trees;
mod neighbours;
mod part;
mod pattern;
mod placement;
mod plan;
mod recursive_doubling;
mod request;
mod ring;
mod run;
mod scatter_allgather;
mod schedule;
mod shards;
#[cfg(test)]
mod tests;
mod transfer;
mod two_level;

pub use choice::{Choice, Fabric, Generation, Library, Protocol, choose};
pub use closed_form::{Cost, closed_form};
pub use invalid::Invalid;
pub use names::{Algorithm, Operation};
pub use request::{Across, Collective, Levels};
pub use run::Run;
pub use schedule::Schedule;
pub use transfer::{Block, Blocks, Content, Hop, Kind, Span, Transfer};
