//! The bounded buffers between loaders and trainers, with their threads: who waits for whom, and
//! who is woken, or sleeps and looks again. The live world runs job copies through it, the probe `queue` times it.
//!
//! - `State`: loaders with their stages, workers, requests and last buffers, devices, and the rules of handing over,
//! - `Shared`: the lock around it, and the threads that sleep before it.
//!
//! Nothing here looks at a clock: who uses it brings a `Watch`.

#[cfg(test)]
mod ahead_tests;
mod batches;
mod loader;
mod plain;
mod polling;
mod requests;
mod shared;
mod stages;
mod state;
#[cfg(test)]
mod tests;
mod training;
mod tuned;

pub use loader::LoaderRun;
pub use plain::Plain;
pub use shared::{Shared, Watch};
pub use state::{Item, State};
pub use training::{Step, Training};
