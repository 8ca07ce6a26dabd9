//! The live world: the scenario's stage graph on this machine, for real.
//!
//! Threads read real files, keep real cores busy, hand samples through real bounded buffers and
//! train; the report is the simulated world's, from the same books (`forebay_metrics`): the same last
//! buffer, the same rule for the causes of stalls, applied to time stamps.
//!
//! - `clock`: wall and CPU time; `sizes`: how large samples are, by the simulator's draws,
//! - `data`, `reader`: files, and how samples are read from them; `work`: what workers do,
//! - `pace`: storage as slow as the scenario writes it; `books`: what it serves; `ledger`: where those are,
//! - `device`: who carries out steps, `gpu`: the same on real GPUs, `launch`: what trainers do beside them; what the threads of a job copy share, the rules of handing over
//!   and who is woken are [`forebay_live_queue`]'s,
//! - `store`: data sets that are generated; `job`: one job copy from start to outcome, with `build` before and `collect` after;
//!   `team`: its workers, `loader_stream`: what its readers draw for; `children`: several job copies, as processes; `run`: all of it,
//! - `check`: what this machine lacks; `notes`: what was emulated.
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
mod team;
mod work;

pub use check::{Machine, use_cores};
pub use children::{Assignment, Message};
pub use clock::monotonic;
pub use data::Location;
pub use job::{CopyOutcome, CopyTask, run_copy};
pub use run::{Event, Settings, Source, check, run};
pub use store::Store;

use forebay_model::input;
use forebay_model::input::shown;
use std::io;
use std::path::Path;

/// Why a live run cannot be, or did not end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// What the user wrote or named does not fit.
    #[error("{0}")]
    Input(String),
    /// The machine lacks what was asked for, or failed.
    #[error("{0}")]
    Lacking(String),
    /// Somebody ended it.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The system starts no thread or process for `what`.
    pub fn threads(what: &str, error: &io::Error) -> Failure {
        Failure::Lacking(format!(
            "cannot start threads for {what}: {}; raise `ulimit -u`, or write fewer workers or `copies`",
            input::words(error)
        ))
    }

    /// `path` cannot be opened, read, …
    fn file(what: &str, path: &Path, error: impl Into<io::Error>) -> Failure {
        Failure::Lacking(format!("cannot {what} {}: {}", shown(path), fault::words(&error.into())))
    }
}
