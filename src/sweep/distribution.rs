//! The cumulative distribution of GPU occupancy of the learners of a sweep's jobs.

use super::columns::point;
use super::{Cell, Grid, Row};
use crate::report::{JobReport, Report};

/// Returns the columns of [`occupancy_rows`]: the swept keys, the job, a GPU occupancy, and the share of time with at most this
/// occupancy.
pub fn occupancy_header(grid: &Grid) -> Vec<String> {
    let own = ["job", "gpu_occupancy", "share"].map(str::to_owned);
    grid.keys().map(str::to_owned).chain(own).collect()
}

/// Returns the rows of the grid's point `index`: for each job, one row for each step of the job's cumulative distribution. There
/// is no row for a job whose kernels have no known occupancy.
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
