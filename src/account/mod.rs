//! The books that both worlds keep, so that a figure means the same in both: the last buffer with
//! its accounts, who did what when and the one cause of each instant of a stall, and what is
//! recorded over time.
//!
//! Everything here is told the time and never asks for it: the simulated world says its own, the
//! live one says how long its run has lasted.

mod queue;
mod recorder;
mod timeline;

pub(crate) use queue::Queue;
pub(crate) use recorder::{Recorder, add_steps};
pub(crate) use timeline::{Activity, NOBODY, Segment, Timeline, blame};
