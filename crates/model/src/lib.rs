//! Parts that scenarios, simulations and measurements share: units, laws, distributions, random numbers, published facts, caches
//! and device memory.
//!
//! # Example
//!
//! Each random number is a function of its address (seed, replication, purpose, owner, entity, index), so it does not depend on
//! numbers sampled before it.
//!
//! ```
//! use forebay_model::distribution::Distribution;
//! use forebay_model::random::{Purpose, Sampler, Streams};
//!
//! let sampler = Sampler::new(&Distribution::Exponential { mean: 3.0 });
//! let draw = || sampler.draw(&mut Streams::new(1, 0).at(Purpose::Arrival, 0, 7, 0));
//! assert_eq!(draw(), draw());
//! ```

pub mod cache;
pub mod catalogue;
pub mod device_memory;
pub mod distribution;
pub mod input;
pub mod law;
pub mod random;
pub mod units;
