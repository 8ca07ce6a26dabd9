//! Columns of rows over time, and of distributions.

use super::Better::Neither;
use super::{Metric, Unit, Value};
use crate::SeriesReport;

/// A function that returns one column of a job's series.
pub type OverTime = fn(&SeriesReport) -> &[Option<f64>];

/// Columns of a run over time, after `job` and `time`. Each has the name and the meaning of a column of sweeps, but each
/// of its values covers only one time interval of the run.
pub const OVER_TIME: [(&str, OverTime); 5] = [
    ("step_time", |series| &series.step_time),
    ("queue_occupancy", |series| &series.occupancy),
    ("enqueue_rate", |series| &series.enqueue_rate),
    ("dequeue_rate", |series| &series.dequeue_rate),
    ("net_enqueue_rate", |series| &series.net_enqueue_rate),
];

/// Returns the columns that only rows over time or rows of a distribution have.
pub(super) fn columns() -> Vec<Metric> {
    vec![
        Metric::new("time", Unit::Seconds, Neither, Value::Row)
            .at("jobs.series.time")
            .called("Time")
            .means("Rows over time (`series = true` in a recipe): middle of the stretch of the run that the row is about."),
        Metric::new("share", Unit::Share, Neither, Value::Row)
            .called("Share of time")
            .means(
                "Rows of a distribution (`distribution` in a recipe): share of time in which no more than \
                 `gpu_occupancy` of a GPU is in use.",
            ),
    ]
}
