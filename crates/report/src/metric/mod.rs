//! Every metric of a report: its names in rows and in JSON, its unit, its meaning, where it is found, and which way is better.
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

/// A metric.
#[derive(Debug, Clone)]
pub struct Metric {
    /// The column of rows that holds it; empty where only JSON has it.
    pub column: Cow<'static, str>,
    /// Its place in a JSON report, such as `jobs.queue.occupancy`; lists are passed through. Empty where only rows have it.
    pub json: Cow<'static, str>,
    /// What an axis with it is called.
    pub label: Cow<'static, str>,
    /// What it is measured in.
    pub unit: Unit,
    /// What it says, in a sentence.
    pub meaning: Cow<'static, str>,
    /// Which way is better.
    pub better: Better,
    /// Where it is found.
    pub value: Value,
}

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The more, the better.
    Higher,
    /// The less, the better.
    Lower,
    /// It describes; neither is better.
    Neither,
}

/// Where a metric is found.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// In a report and one of its jobs.
    Job(fn(&Report, &JobReport) -> Figure),
    /// The share of time that a job waits for this cause.
    Stall(StallCause),
    /// A text of a job; `None` where there is nothing to say.
    Text(fn(&JobReport) -> Option<String>),
    /// In each resource of a report.
    Resource(fn(&ResourceReport) -> Figure),
    /// Nowhere: the rows that have the column make it, as the instant of a series or the ordinate of a distribution.
    Row,
}

impl Better {
    /// In words: `higher`, `lower` or `neither`.
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
    /// Makes a metric with this accessor; the rest of its row is set by the methods that follow.
    fn new(
        column: impl Into<Cow<'static, str>>,
        unit: Unit,
        better: Better,
        value: Value,
    ) -> Metric {
        let (json, label, meaning) = (Cow::default(), Cow::default(), Cow::default());
        Metric { column: column.into(), json, label, unit, meaning, better, value }
    }

    /// A column of sweeps.
    fn column(
        name: &'static str,
        unit: Unit,
        better: Better,
        find: fn(&Report, &JobReport) -> Figure,
    ) -> Metric {
        Metric::new(name, unit, better, Value::Job(find))
    }

    /// A figure that only JSON has, at this place.
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

    /// The figure of a job; `None` for what is text, of a resource, or made by rows.
    #[must_use]
    pub fn figure(&self, report: &Report, job: &JobReport) -> Option<Figure> {
        match self.value {
            Value::Job(find) => Some(find(report, job)),
            Value::Stall(cause) => Some(stall(job, cause)),
            Value::Text(_) | Value::Resource(_) | Value::Row => None,
        }
    }

    /// Whether sweeps write it, in three columns: the mean and the ends of its 95 % interval.
    #[must_use]
    pub fn is_swept(&self) -> bool {
        !self.column.is_empty() && matches!(self.value, Value::Job(_) | Value::Stall(_))
    }
}

/// The column with the cause of stalls that takes most time.
pub const LARGEST_STALL: &str = "largest_stall";

/// Every metric: those of sweeps in the order of their columns, then those that only JSON has, then the columns that only
/// other rows have.
#[must_use]
pub fn all() -> &'static [Metric] {
    static ALL: OnceLock<Vec<Metric>> = OnceLock::new();
    ALL.get_or_init(|| {
        let columns = job::training().into_iter().chain(job::stalls());
        let columns = columns.chain(queue::columns()).chain(job::results()).chain(whole::columns());
        let json = queue::only_json().into_iter().chain(job::only_json()).chain(whole::only_json());
        columns.chain(job::texts()).chain(json).chain(series::columns()).collect()
    })
}

/// The metric of a column; `None` for swept keys and the ends of intervals.
#[must_use]
pub fn of_column(name: &str) -> Option<&'static Metric> {
    all().iter().find(|metric| !metric.column.is_empty() && metric.column == name)
}

/// The share of time that a job waits for a cause: 0 for one that did not occur, where stalls were observed at all.
fn stall(job: &JobReport, wanted: StallCause) -> Figure {
    let found = job.figures.stall.causes.iter().find(|(cause, _)| *cause == wanted);
    let none = Figure { mean: job.figures.stall.total.mean.map(|_| 0.0), ..Figure::default() };
    found.map_or(none, |(_, figure)| *figure)
}

/// A number without an interval, where there is one.
fn number(mean: Option<f64>) -> Figure {
    Figure { mean, ..Figure::default() }
}

/// One over a figure that is positive; the interval's ends change places.
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
    fn a_rate_is_the_reciprocal_of_its_time_with_the_ends_of_its_interval_swapped() {
        let time = Figure { mean: Some(0.5), ci95: Some([0.25, 1.0]), ..Figure::default() };
        let rate = reciprocal(&time);
        assert_eq!((rate.mean, rate.ci95), (Some(2.0), Some([1.0, 4.0])));
    }
}
