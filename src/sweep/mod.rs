//! Sweeps: runs the points of a grid of one scenario, returns their rows, and keeps finished points if the sweep is
//! interrupted.

mod columns;
mod distribution;
mod grid;
mod journal;
mod row;
mod runner;
mod selection;
mod settings;
mod shard;

pub use columns::{header, point, rows};
pub use distribution::{occupancy_header, occupancy_rows};
pub use grid::{Grid, MOST_POINTS};
pub use journal::{Journal, JournalRead, ShardRecord, key};
pub use row::{Cell, Row};
pub use runner::{Finished, Plan, SampledRuns, Start, run};
pub use selection::Selection;
#[cfg(test)]
pub(crate) use settings::SCENARIO;
pub use settings::{Sampled, SweepSettings};
pub use shard::Shard;
