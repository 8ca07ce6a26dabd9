//! Processes on the nodes of a cluster that measure its network and its shared storage together.
//!
//! A launcher starts a process on each node ([`launch`]). Rank 0 writes where it listens, with a secret, into a file that all nodes see
//! ([`rendezvous`]); the others connect, and both ends prove that they know the secret ([`secret`]). Rank 0 then says who does what and
//! when ([`message`]); the others do it (`work`) and answer. Clocks are compared, so that all begin at the same time ([`clock`]). Rank 0
//! works too, as a rank like the others. A rank that ends, hangs or lacks something is named, and what needs it is left out ([`crew`]).
//!
//! What is measured in which order is in [`survey`].

pub mod arrivals;
pub mod clock;
pub mod control;
pub mod crew;
pub mod facts;
pub mod frame;
pub mod launch;
pub mod message;
pub mod rank;
pub mod rendezvous;
pub mod secret;
pub mod survey;
mod work;

/// Largest number of ranks.
pub const MOST_RANKS: u32 = 65_536;
/// Longest name of a node.
pub const MOST_NAME: usize = 64;
