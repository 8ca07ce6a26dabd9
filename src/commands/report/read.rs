//! Reads values of JSON, and writes figures with their intervals.

use crate::commands::{diff, keys};
use crate::metric::{Metric, Unit};
use crate::page::Cell;
use crate::plan::goal::{with_interval, written};
use crate::report::format;
use serde_json::Value;

/// Returns the text at a JSON pointer.
pub(super) fn text(of: &Value, pointer: &str) -> Option<String> {
    of.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

/// Returns the number at a JSON pointer: the number itself, or the mean of a figure.
pub(super) fn number(of: &Value, pointer: &str) -> Option<f64> {
    of.pointer(pointer).and_then(diff::mean)
}

/// Returns the entries of a list; none if there is no list.
pub(super) fn list<'v>(of: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    of.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the texts of a list.
pub(super) fn texts(of: &Value, key: &str) -> Vec<String> {
    list(of, key).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns a figure as a cell: its mean, with its interval if there is one, or with what holds 90 % of runs over draws of parameters.
pub(super) fn cell(figure: Option<&Value>, unit: Unit, currency: &str) -> Cell {
    let Some(figure) = figure else { return Cell::from("–") };
    let drawn = figure.get("prediction90").and_then(diff::ends);
    Cell::number(diff::mean(figure), |mean| match drawn {
        Some(ends) => with_range(mean, ends, unit, currency),
        None => with_interval(mean, diff::interval(figure), unit, currency),
    })
}

/// Writes a value with a range around it that need not have it in the middle.
pub(super) fn with_range(mean: f64, ends: [f64; 2], unit: Unit, currency: &str) -> String {
    let [low, high] = ends.map(|end| written(end, unit, currency));
    format!("{} [{low}, {high}]", written(mean, unit, currency))
}

/// Returns the value of a key as a cell, which is sorted by the value's amount.
pub(super) fn value_cell(text: &str) -> Cell {
    Cell { text: text.to_owned(), value: keys::number(text).map(|(number, _)| number) }
}

/// Returns a text with a capital first letter.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Writes a number of things.
pub(super) fn counted(number: f64, thing: &str) -> String {
    format!("{} {thing}{}", format::count(number), if number == 1.0 { "" } else { "s" })
}

/// Returns the figure of a metric in a report, for one of its jobs.
pub(super) fn figure(metric: &Metric, report: &Value, job: &Value) -> Option<Value> {
    match metric.json.starts_with("jobs.") || metric.json.is_empty() {
        true => diff::figure(metric, job),
        false => metric.json.split('.').try_fold(report, |at, key| at.get(key)).cloned(),
    }
}
