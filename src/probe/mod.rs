//! Timed experiments on this machine; knows nothing of scenarios.

pub mod cpu;
mod queue;

pub use queue::{Closed, Queue};
