//! Reads folders of results of MLPerf Storage: what a run measured, on what, and where its time went.
//!
//! A run's folder has DLIO's `summary.json`, `per_epoch_stats.json` and configuration; some have `N_output.json`, the times of each step of
//! rank N. Definitions are those of DLIO's `statscounter.py` in the round's version.

mod explain;
mod run;
mod system;

pub use explain::{Explained, MOST_RANKS, Part, explain};
pub use run::{MlperfError, Round, Run, RunTexts, read};
pub use system::{ClientHost, client_host};
