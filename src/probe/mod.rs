//! Timed experiments on this machine; knows nothing of scenarios.

mod queue;

pub use queue::{Closed, Queue};
