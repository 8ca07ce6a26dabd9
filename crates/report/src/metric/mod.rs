//! Every metric of a report: its names in rows and in JSON, its unit, its meaning, how its value is found, and whether higher or
//! lower is better.
//!
//! The columns of sweeps, the names and units on the axes of figures, the JSON Schema of reports and the reference of all
//! keys and columns are made from this table. A new figure is a field of the report and one row here.

mod job;
mod queue;
mod schema;
mod series;
mod unit;
mod whole;

pub use schema::report_schema;
pub use series::{OVER_TIME, OverTime};
pub use unit::Unit;

use crate::{Figure, JobReport, Report, ResourceReport, StallCause};
use std::borrow::Cow;
use std::sync::OnceLock;

/// One metric of a report: a row of the table.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Name of the column that holds the metric in rows; empty if only JSON reports have the metric.
    pub column: Cow<'static, str>,
    /// Path of the metric in a JSON report, such as `jobs.queue.occupancy`, without the indices of lists. Empty if only rows have
    /// the metric.
    pub json: Cow<'static, str>,
    /// Label of an axis that shows the metric.
    pub label: Cow<'static, str>,
    /// Unit of the metric.
    pub unit: Unit,
    /// Meaning of the metric, in a sentence.
    pub meaning: Cow<'static, str>,
    /// Whether higher or lower values are better.
    pub better: Better,
    /// How the value is found in a report.
    pub value: Value,
}

/// Whether higher or lower values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Higher values are better.
    Higher,
    /// Lower values are better.
    Lower,
    /// The metric only describes: neither direction is better.
    Neither,
}

/// How the value of a metric is found.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// A figure of one job of a report.
    Job(fn(&Report, &JobReport) -> Figure),
    /// The share of time that a job waits for this cause.
    Stall(StallCause),
    /// A text of a job; `None` where there is nothing to say.
    Text(fn(&JobReport) -> Option<String>),
    /// A figure of each resource of a report.
    Resource(fn(&ResourceReport) -> Figure),
    /// A value that reports do not contain; the code that writes the rows computes it, such as the instant of a series or the
    /// ordinate of a distribution.
    Row,
}

impl Better {
    /// Returns the direction as a word: `higher`, `lower` or `neither`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => "neither",
        }
    }
}

impl Metric {
    /// Makes a metric whose value is found by `value`; the methods `at`, `called` and `means` set the rest of its row.
    fn new(
        column: impl Into<Cow<'static, str>>,
        unit: Unit,
        better: Better,
        value: Value,
    ) -> Metric {
        let (json, label, meaning) = (Cow::default(), Cow::default(), Cow::default());
        Metric { column: column.into(), json, label, unit, meaning, better, value }
    }

    /// Makes a metric that is a column of sweeps.
    fn column(
        name: &'static str,
        unit: Unit,
        better: Better,
        find: fn(&Report, &JobReport) -> Figure,
    ) -> Metric {
        Metric::new(name, unit, better, Value::Job(find))
    }

    /// Makes a metric that only JSON reports have, at the path `place`.
    fn json(
        place: &'static str,
        unit: Unit,
        better: Better,
        find: fn(&Report, &JobReport) -> Figure,
    ) -> Metric {
        Metric::new("", unit, better, Value::Job(find)).at(place)
    }

    fn at(self, place: impl Into<Cow<'static, str>>) -> Metric {
        Metric { json: place.into(), ..self }
    }

    fn called(self, label: impl Into<Cow<'static, str>>) -> Metric {
        Metric { label: label.into(), ..self }
    }

    fn means(self, meaning: impl Into<Cow<'static, str>>) -> Metric {
        Metric { meaning: meaning.into(), ..self }
    }

    /// Returns the metric's figure for a job; `None` if the metric is a text, belongs to resources, or is computed by the code
    /// that writes the rows.
    #[must_use]
    pub fn figure(&self, report: &Report, job: &JobReport) -> Option<Figure> {
        match self.value {
            Value::Job(find) => Some(find(report, job)),
            Value::Stall(cause) => Some(stall(job, cause)),
            Value::Text(_) | Value::Resource(_) | Value::Row => None,
        }
    }

    /// Whether sweeps write the metric, in three columns: the mean and the ends of its 95 % interval.
    #[must_use]
    pub fn is_swept(&self) -> bool {
        !self.column.is_empty() && matches!(self.value, Value::Job(_) | Value::Stall(_))
    }

    /// Returns how sweeps find the text of the metric, which they write in one column; `None` if the metric is no text. The job's
    /// name is not among these texts, because it is written before all figures.
    #[must_use]
    pub fn swept_text(&self) -> Option<fn(&JobReport) -> Option<String>> {
        match self.value {
            Value::Text(find) if self.column != "job" => Some(find),
            _ => None,
        }
    }
}

/// Name of the column with the cause of stalls that takes the most time.
pub const LARGEST_STALL: &str = "largest_stall";

/// Returns every metric: first the columns of sweeps in their order, then the metrics that only JSON reports have, then the
/// columns that only rows over time or rows of a distribution have.
#[must_use]
pub fn all() -> &'static [Metric] {
    static ALL: OnceLock<Vec<Metric>> = OnceLock::new();
    ALL.get_or_init(|| {
        let columns = job::training().into_iter().chain(job::stalls());
        let columns = columns.chain(queue::columns()).chain(job::results()).chain(job::by_epoch());
        let columns = columns.chain(job::epoch_starts());
        let columns = columns.chain(whole::columns());
        let json = queue::only_json().into_iter().chain(job::only_json()).chain(whole::only_json());
        columns.chain(job::texts()).chain(json).chain(series::columns()).collect()
    })
}

/// Returns the metric of a column; `None` for columns of swept keys and of interval ends.
#[must_use]
pub fn of_column(name: &str) -> Option<&'static Metric> {
    all().iter().find(|metric| !metric.column.is_empty() && metric.column == name)
}

/// Returns the share of time that a job waits for a cause: 0 for a cause that did not occur, if stalls were observed at all.
fn stall(job: &JobReport, wanted: StallCause) -> Figure {
    let found = job.figures.stall.causes.iter().find(|(cause, _)| *cause == wanted);
    let none = Figure { mean: job.figures.stall.total.mean.map(|_| 0.0), ..Figure::default() };
    found.map_or(none, |(_, figure)| *figure)
}

/// Returns a figure with this mean and without an interval.
fn number(mean: Option<f64>) -> Figure {
    Figure { mean, ..Figure::default() }
}

/// Returns 1 ÷ `figure`, which must be positive; the ends of its interval are swapped.
fn reciprocal(figure: &Figure) -> Figure {
    let invert = |value: f64| if value > 0.0 { 1.0 / value } else { f64::NAN };
    Figure {
        mean: figure.mean.map(invert),
        ci95: figure.ci95.map(|[low, high]| [invert(high), invert(low)]),
        ..Figure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocal_metrics_have_reciprocal_means_and_swapped_interval_ends() {
        let time = Figure { mean: Some(0.5), ci95: Some([0.25, 1.0]), ..Figure::default() };
        let rate = reciprocal(&time);
        assert_eq!((rate.mean, rate.ci95), (Some(2.0), Some([1.0, 4.0])));
    }
}
