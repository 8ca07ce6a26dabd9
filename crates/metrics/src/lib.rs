//! Records of a run: the buffers between a loader's stages, the batches requested from the loader, the loader's last buffer, the
//! steps with their stalls, a timeline of each worker, and the single cause of each instant of a stall. The simulator and live
//! runs keep these records in the same way, so that a figure means the same for both.
//!
//! Nothing here reads a clock. The caller passes the time: simulated time, or the time since a live run began.
//!
//! # Example
//!
//! Which samples of an epoch were trained on, and which sample comes next.
//!
//! ```
//! use forebay_metrics::Intervals;
//!
//! let mut trained = Intervals::default();
//! trained.insert(0..3);
//! trained.insert(5..6);
//! assert_eq!((trained.count(), trained.next_gap(0), trained.gaps()), (4, 3, vec![3, 4]));
//! ```

mod cycle;
mod first_batches;
mod intervals;
mod launch;
mod pages;
mod polling;
mod queue;
mod rebuilds;
mod recorder;
mod requests;
mod spent;
mod stage_buffer;
mod steps;
mod timeline;
mod tuner;

pub use cycle::Cycle;
pub use first_batches::FirstBatches;
pub use intervals::Intervals;
pub use launch::{HostWork, launch_waits};
pub use pages::{Entries, Pages};
pub use polling::{Polling, Promise};
pub use queue::Queue;
pub use rebuilds::Rebuilds;
pub use recorder::{Recorder, add_steps};
pub use requests::{BegunEpochs, Requests};
pub use stage_buffer::StageBuffer;
pub use steps::Steps;
pub use timeline::{Activity, NOBODY, Segment, Timeline, blame};
pub use tuner::Tuner;
