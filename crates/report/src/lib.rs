//! Results of a run, simulated or live: plain numbers, and their forms for people and programs.
//!
//! # Example
//!
//! Every figure of a report is a row of one table: JSON, columns of sweeps and axes of figures are made from it.
//!
//! ```
//! use forebay_report::metric::{self, Better};
//!
//! let row = metric::of_column("step_time").unwrap();
//! assert_eq!(row.better, Better::Lower);
//! ```

mod accuracy;
mod bottleneck;
mod cause;
mod cost;
mod device_memory;
mod energy;
mod epoch_starts;
mod epochs;
mod figures;
#[cfg(test)]
mod fixture;
pub mod format;
pub mod json;
mod known;
mod learners;
mod lines;
mod locality;
mod measured;
pub mod metric;
mod outcome;
mod page;
mod parallel;
mod periods;
mod prediction;
mod queue;
mod rare;
mod recovery;
mod resource;
mod sample;
mod sampling;
mod schedule;
mod staging;
mod summary;
#[cfg(test)]
mod summary_tests;
mod sync;
mod tables;
pub mod text;
pub mod trace;
mod unfinished;
mod verdict;
mod warnings;
mod window;

pub use bottleneck::{choose_job, say_without_step};
pub use cause::{Cause, StallCause};
pub use cost::{CostReport, JobCost, money, money_with_half};
pub use device_memory::DeviceMemoryReport;
pub use figures::*;
pub use json::schema;
pub use known::Known;
pub use learners::{LearnersOutcome, LearnersReport, LearnersTried, Occupancy};
pub use outcome::*;
pub use parallel::ParallelReport;
pub use prediction::{Predicted, predict};
pub use resource::{Direction, IntraLink, Owner, Part, Resource};
pub use sampling::SampledReport;
pub use summary::summarise;
pub use unfinished::Unfinished;
pub use verdict::{Limit, LongRun, Need, OtherJob, RestsOn, Verdict};
pub use warnings::{draws_nothing, lockstep, of_scenario as remarks, run_warnings};
