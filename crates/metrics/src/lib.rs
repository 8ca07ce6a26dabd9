//! The books that both worlds keep, so that a figure means the same in both: hand-over between stages,
//! what a loader was asked for, or who sleeps before it, the last buffer with its accounts, steps with their stalls, who did what
//! when and the one cause of each instant of a stall, and what is recorded over time; `intervals`: sets of samples.
//!
//! Everything here is told the time and never asks for it: the simulated world says its own, the
//! live one says how long its run has lasted.
//!
//! # Example
//!
//! Which samples of an epoch were trained on, and which one comes next.
//!
//! ```
//! use forebay_metrics::Intervals;
//!
//! let mut trained = Intervals::default();
//! trained.insert(0..3);
//! trained.insert(5..6);
//! assert_eq!((trained.count(), trained.next_gap(0), trained.gaps()), (4, 3, vec![3, 4]));
//! ```

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

pub use hand_over::HandOver;
pub use intervals::Intervals;
pub use launch::launch_waits;
pub use polling::{Polling, Promise};
pub use queue::Queue;
pub use recorder::{Recorder, add_steps};
pub use requests::Requests;
pub use steps::Steps;
pub use timeline::{Activity, NOBODY, Segment, Timeline, blame};
pub use tuner::Tuner;
