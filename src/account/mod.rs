//! The books that both worlds keep, so that a figure means the same in both: hand-over between stages,
//! what a loader was asked for, or who sleeps before it, the last buffer with its accounts, steps with their stalls, who did what
//! when and the one cause of each instant of a stall, and what is recorded over time; `intervals`: sets of samples.
//!
//! Everything here is told the time and never asks for it: the simulated world says its own, the
//! live one says how long its run has lasted.

mod hand_over;
mod intervals;
mod launch;
mod polling;
mod queue;
mod recorder;
mod requests;
mod spent;
mod steps;
mod timeline;
mod tuner;

pub(crate) use hand_over::HandOver;
pub(crate) use intervals::Intervals;
pub(crate) use launch::launch_waits;
pub(crate) use polling::{Polling, Promise};
pub(crate) use queue::Queue;
pub(crate) use recorder::{Recorder, add_steps};
pub(crate) use requests::Requests;
pub(crate) use steps::Steps;
pub(crate) use timeline::{Activity, NOBODY, Segment, Timeline, blame};
pub(crate) use tuner::Tuner;
