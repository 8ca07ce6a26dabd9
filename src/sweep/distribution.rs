//! How much of their GPUs the learners of a sweep's jobs use, as a distribution.

use super::columns::point;
use super::{Cell, Grid, Row};
use crate::report::{JobReport, Report};

/// Columns of [`occupancy_rows`]: the grid's keys, the job, a part of a GPU, and the share of time in which no more than
/// that was in use.
pub fn occupancy_header(grid: &Grid) -> Vec<String> {
    let own = ["job", "gpu_occupancy", "share"].map(str::to_owned);
    grid.keys().map(str::to_owned).chain(own).collect()
}

/// Rows of the grid's point `index`: of each job as many as its report has parts; none of a job of whose kernels nothing
/// is said.
pub fn occupancy_rows(grid: &Grid, index: usize, report: &Report) -> Vec<Row> {
    let of = |job: &JobReport| {
        let shares = job.learners.as_ref().map_or(&[][..], |of| &of.occupancy_cumulative);
        let last = (shares.len().max(2) - 1) as f64;
        let row = |(place, share): (usize, &f64)| {
            let own = [Cell::Text(job.name.clone()), Cell::number(place as f64 / last)];
            [point(grid, index), own.into(), vec![Cell::number(*share)]].concat()
        };
        shares.iter().enumerate().map(row).collect::<Vec<Row>>()
    };
    report.jobs.iter().flat_map(of).collect()
}
