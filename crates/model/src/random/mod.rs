//! Draws addressed by (seed, replication, purpose, owner, entity, index).
//!
//! Every draw has an address and depends on nothing else, so that changing one part of a scenario
//! leaves the draws of the others alone (common random numbers), whatever the order in which they
//! are asked for. Recorded values in the tests guard that a release never changes a stream unseen.

mod failure;
#[cfg(test)]
mod fit_tests;
mod order;
mod permutation;
mod replicas;
mod sampler;
mod streams;

pub use failure::time_to_failure;
pub use order::{FileOrder, SampleOrder, Split, Visits};
pub use permutation::Permutation;
pub use replicas::Replicas;
pub use sampler::Sampler;
pub use streams::{Generator, Purpose, Streams};
