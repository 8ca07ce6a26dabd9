//! A run: the world that routes events to owners, from a scenario to the start, and from the end to the outcome.

mod build;
mod memory;
mod options;
mod resource;
mod sampled;
mod steady;
mod watch;
mod world;

pub use memory::{Memory, memory};
pub use options::{LOOK_UPS_IN_EVENT, Options};
pub use sampled::run;
pub use watch::Progress;
