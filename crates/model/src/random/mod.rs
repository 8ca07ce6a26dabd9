//! Random numbers addressed by (seed, replication, purpose, owner, entity, index).
//!
//! Each random number depends on nothing but its address. So changing one part of a scenario leaves the random numbers of the
//! other parts unchanged (common random numbers), whatever the order in which they are sampled. Tests compare with recorded
//! values, so that no release changes a stream unnoticed.

mod failure;
#[cfg(test)]
mod fit_tests;
mod order;
mod permutation;
mod replicas;
mod sampler;
mod streams;

pub use failure::{failed_node, time_to_failure};
pub use order::{FileOrder, SampleOrder, Split, Visits};
pub use permutation::Permutation;
pub use replicas::Replicas;
pub use sampler::Sampler;
pub use streams::{Generator, Purpose, Streams};
