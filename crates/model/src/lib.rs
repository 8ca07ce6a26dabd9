//! What scenarios, simulations and measurements have in common: units, laws, distributions and their draws, published facts, caches, device memory.

pub mod cache;
pub mod catalogue;
pub mod device_memory;
pub mod distribution;
pub mod input;
pub mod law;
pub mod random;
pub mod units;
