//! Live runs: the scenario's stage graph runs on this machine with real threads.
//!
//! Threads read real files, keep real cores busy, pass samples through real bounded buffers and train. The report is the same as
//! for a simulation and is computed by the same crate (`forebay_metrics`): the same last buffer and the same rule for the causes
//! of stalls, applied to time stamps.
//!
//! - `clock`: wall and CPU time. `sizes`: sizes of samples, from the simulator's random numbers.
//! - `data`, `reader`: files, and how samples are read from them. `work`: the operations of workers. `log`: time stamps of their
//!   activities.
//! - `pace`: holds storage to the limits in the scenario. `books`: state of these limits. `ledger`: where this state is kept.
//! - `device`: executes steps. `gpu`: executes steps on real GPUs. `content`: the bytes of samples that are copied to them. `launch`: the trainer's own work for a step.
//!   [`forebay_live_queue`] has the state that the threads of a job copy share, and the rules for passing items and waking
//!   threads.
//! - `store`: generated data sets. `job`: runs one job copy; `build` prepares its state, `collect` its outcome. `team`: its
//!   workers. `loader_stream`: a loader's order of samples and random numbers. `children`: job copies as processes. `run`: the
//!   whole run.
//! - `check`: requirements that this machine lacks. `notes`: what was real and what was emulated. `task`: what a run is asked for, and
//!   what a job copy measures. `fault`: why runs fail.
//!
//! # Example
//!
//! ```
//! let machine = forebay_live::Machine::this();
//! assert!(machine.cores > 0.0 && machine.memory > 0.0);
//! ```

mod books;
mod build;
mod check;
mod children;
mod clock;
mod collect;
mod content;
#[cfg(test)]
mod content_tests;
mod data;
mod device;
mod fault;
mod gpu;
mod job;
mod launch;
mod ledger;
mod loader_stream;
mod log;
mod notes;
mod pace;
mod reader;
mod run;
mod sizes;
mod store;
mod task;
mod team;
mod work;

pub use check::{Machine, use_cores};
pub use children::{Assignment, Message, PART};
pub use clock::monotonic;
pub use data::Location;
pub use fault::Failure;
pub use job::run_copy;
pub use run::{Source, check, run};
pub use store::Store;
pub use task::{CopyOutcome, CopyTask, Event, Settings};
