//! The columns of a sweep, from the table of metrics, and the rows of a report with these columns.

use super::{Cell, Grid, Row};
use crate::metric::{self, Metric};
use crate::report::{Figure, JobReport, Report};
use crate::scenario::Value;

/// Returns the names of the columns of a sweep over `grid`: the swept keys, the job, three columns for each figure, and the
/// texts.
pub fn header(grid: &Grid) -> Vec<String> {
    grid.keys().map(str::to_owned).chain(["job".to_owned()]).chain(header_after()).collect()
}

/// Returns the names of the columns after the job.
pub(super) fn header_after() -> impl Iterator<Item = String> {
    let three = |name: String| {
        let (low, high) = (format!("{name}_lo"), format!("{name}_hi"));
        [name, low, high]
    };
    swept().map(|of| of.column.to_string()).flat_map(three).chain(text_names())
}

/// Returns the metrics that sweeps write with their intervals.
fn swept() -> impl Iterator<Item = &'static Metric> {
    metric::all().iter().filter(|metric| metric.is_swept())
}

/// Returns the names of the columns of texts.
pub(super) fn text_names() -> impl Iterator<Item = String> {
    let texts = metric::all().iter().filter(|metric| metric.swept_text().is_some());
    texts.map(|of| of.column.to_string())
}

/// Returns the names of all figures and texts, without the columns of interval ends.
pub(super) fn figure_names() -> impl Iterator<Item = String> {
    swept().map(|of| of.column.to_string()).chain(text_names())
}

/// Returns the rows of the grid's point `index`, one per job.
pub fn rows(grid: &Grid, index: usize, report: &Report) -> Vec<Row> {
    let values = point(grid, index);
    let row = |job: &JobReport| {
        let mut row = values.clone();
        row.push(Cell::Text(job.name.clone()));
        row.extend(swept().filter_map(|of| of.figure(report, job)).flat_map(cells));
        let texts = metric::all().iter().filter_map(Metric::swept_text);
        row.extend(texts.map(|text| text(job).map_or(Cell::Empty, Cell::Text)));
        row
    };
    report.jobs.iter().map(row).collect()
}

/// Returns the values of the swept keys at the grid's point `index`.
pub fn point(grid: &Grid, index: usize) -> Row {
    grid.values(index).into_iter().map(|value| value.map_or(Cell::Empty, cell)).collect()
}

/// Returns the cell of a swept value.
fn cell(value: &Value) -> Cell {
    match (value.as_str(), value.as_f64()) {
        (Some(text), _) => Cell::Text(text.to_owned()),
        (None, Some(number)) => Cell::number(number),
        (None, None) => Cell::Text(value.to_string()),
    }
}

/// Returns the cells of a figure: mean, and ends of its interval: that of single runs where parameters were sampled, otherwise the 95 %
/// interval of the mean.
fn cells(figure: Figure) -> [Cell; 3] {
    let end = |at: usize| Cell::number(figure.prediction90.or(figure.ci95).map(|ends| ends[at]));
    [Cell::number(figure.mean), end(0), end(1)]
}
