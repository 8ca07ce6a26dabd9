//! What scenarios, simulations and measurements have in common: units, laws, distributions and their draws, published facts, caches, device memory.
//!
//! # Example
//!
//! A draw has an address, and is the same whatever was drawn before it.
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
