//! A run: the world that routes events to owners, from a scenario to the start, and from the end to the outcome.

mod build;
mod memory;
mod resource;
mod sampled;
mod watch;
mod world;

pub use memory::{Memory, memory};
pub use sampled::run;
pub use watch::Progress;
pub use world::{LOOK_UPS_IN_EVENT, Options};
