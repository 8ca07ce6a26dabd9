//! `forebay diff`: what changed from one report to another.

use super::profile_text::{cells, table};
use super::{Failure, input, output};
use crate::cli::{Diff, ReportFormat};
use crate::input::shown;
use crate::metric::{self, Metric, Unit, Value as Place};
use crate::report::format::{Quantity, bytes, number, signed_share};
use crate::scenario::{Setting, printable_line};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum size of a report that is read [B]. In memory a report takes several times as much.
const LARGEST: u64 = 64 << 20;

/// Relative difference up to which two figures count as the same, because the difference would be printed as 0.0 %.
const SAME: f64 = 5e-4;

pub(super) fn execute(diff: &Diff) -> Result<(), Failure> {
    let [before, after] = [&diff.before, &diff.after].map(|path| read(path));
    let (before, after) = (before?, after?);
    let mut found = compare(&before.jobs, &after.jobs);
    found.settings = changed_settings(&before, &after);
    if found.jobs.is_empty() {
        let [before, after] = [&diff.before, &diff.after].map(|path| shown(path));
        return Err(Failure::Input(format!(
            "cannot compare {before} with {after}: no job has the same name in both reports; compare two reports of the same scenario"
        )));
    }
    let text = match diff.format {
        ReportFormat::Json => json(&found),
        ReportFormat::Text => text(&found),
    };
    output::stdout(text.as_bytes())
}

/// Parts of a JSON report that are compared.
struct Read {
    jobs: Vec<Value>,
    /// Keys that the scenario set; empty in reports of versions that did not record them.
    settings: Vec<Setting>,
    /// Values of the keys that the scenario did not set.
    assumed: Vec<Setting>,
}

/// Reads a JSON report.
fn read(path: &Path) -> Result<Read, Failure> {
    let text = input::text_within(path, LARGEST)?;
    let remedy = "write one with `forebay run SCENARIO --format json --output FILE`";
    let wrong =
        |what: String| Failure::Input(format!("cannot use {}: {what}; {remedy}", shown(path)));
    let report: Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("not JSON: {error}")))?;
    let jobs = report.get("jobs").and_then(Value::as_array);
    let named = jobs.filter(|jobs| jobs.iter().all(|job| name(job).is_some()));
    let jobs = named.cloned();
    let jobs =
        jobs.ok_or_else(|| wrong("not a report: there is no `jobs` with names".to_owned()))?;
    let list = |key: &str| {
        let entries = report.get(key).and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect()
    };
    Ok(Read { settings: list("settings"), assumed: list("assumed"), jobs })
}

/// A key of the scenario whose value differs between the two reports; `None` stands for a key that one scenario does not have.
#[derive(Serialize, Debug, PartialEq)]
struct ChangedSetting {
    key: String,
    before: Option<String>,
    after: Option<String>,
}

/// Returns the settings that differ, by key. A key that only one scenario sets differs if its value is not the other's default.
fn changed_settings(before: &Read, after: &Read) -> Vec<ChangedSetting> {
    let values = |read: &Read| {
        let all = read.assumed.iter().chain(&read.settings);
        all.map(|of| (of.key.clone(), of.value.clone())).collect::<BTreeMap<_, _>>()
    };
    let (old, new) = (values(before), values(after));
    let mut keys: Vec<&String> =
        before.settings.iter().chain(&after.settings).map(|of| &of.key).collect();
    keys.sort();
    keys.dedup();
    let one = |key: &String| {
        let (before, after) = (old.get(key).cloned(), new.get(key).cloned());
        (before != after).then(|| ChangedSetting { key: key.clone(), before, after })
    };
    keys.into_iter().filter_map(one).collect()
}

fn name(job: &Value) -> Option<&str> {
    job.get("name")?.as_str()
}

/// The comparison of two reports: common jobs, other jobs, and figures that differ.
#[derive(Serialize)]
struct Found {
    /// Names of jobs that both reports have.
    jobs: Vec<String>,
    /// Names of jobs that only the first report has.
    only_before: Vec<String>,
    only_after: Vec<String>,
    /// Settings that differ.
    settings: Vec<ChangedSetting>,
    /// Figures that differ.
    changes: Vec<Change>,
    /// Number of figures that are the same.
    same: usize,
}

/// A figure of a job that differs between the two reports.
#[derive(Serialize)]
struct Change {
    job: String,
    metric: String,
    #[serde(skip)]
    label: String,
    #[serde(skip)]
    unit: Unit,
    before: f64,
    after: f64,
    /// 95 % intervals of the two figures.
    intervals: [Option<[f64; 2]>; 2],
    /// Change relative to `before`; `None` if `before` is 0.
    change: Option<f64>,
    difference: Difference,
}

/// Whether two figures differ by more than chance.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Difference {
    /// The 95 % intervals of the two figures do not overlap.
    Real,
    /// The 95 % intervals of the two figures overlap.
    Chance,
    /// At least one of the two figures has no interval.
    Unknown,
}

fn compare(before: &[Value], after: &[Value]) -> Found {
    let with =
        |all: &[Value], name: &str| all.iter().find(|job| self::name(job) == Some(name)).cloned();
    let names = |all: &[Value]| all.iter().filter_map(name).map(str::to_owned).collect::<Vec<_>>();
    let (old, new) = (names(before), names(after));
    let missing = |of: &[String], all: &[String]| {
        of.iter().filter(|name| !all.contains(name)).cloned().collect::<Vec<_>>()
    };
    let (only_before, only_after) = (missing(&old, &new), missing(&new, &old));
    let jobs: Vec<String> = old.into_iter().filter(|name| new.contains(name)).collect();
    let (mut changes, mut same) = (Vec::new(), 0);
    for job in &jobs {
        let Some((old, new)) = with(before, job).zip(with(after, job)) else { continue };
        for metric in metric::all().iter().filter(|metric| metric.is_swept()) {
            let Some((old, new)) = figure(metric, &old).zip(figure(metric, &new)) else { continue };
            let Some(means) = mean(&old).zip(mean(&new)) else { continue };
            if is_same(means) {
                same += 1;
            } else {
                changes.push(change((job, metric), means, [&old, &new].map(interval)));
            }
        }
    }
    Found { jobs, only_before, only_after, settings: Vec::new(), changes, same }
}

fn is_same((before, after): (f64, f64)) -> bool {
    (after - before).abs() <= SAME * before.abs().max(after.abs())
}

/// Returns the change of a job's figure. Whether the change counts as real follows from the figure's intervals before and after.
fn change(
    (job, metric): (&str, &Metric),
    (before, after): (f64, f64),
    intervals: [Option<[f64; 2]>; 2],
) -> Change {
    let difference = match intervals {
        [Some([low, high]), Some([least, most])] if high < least || most < low => Difference::Real,
        [Some(_), Some(_)] => Difference::Chance,
        _ => Difference::Unknown,
    };
    let change = (before != 0.0).then(|| after / before - 1.0);
    let (job, unit, label) = (job.to_owned(), metric.unit, metric.label.to_string());
    let metric = metric.column.to_string();
    Change { job, metric, label, unit, before, after, intervals, change, difference }
}

/// Returns the figure of a metric in a job of a JSON report. A cause of stalls that did not occur is missing in the report: its
/// share is 0.
fn figure(metric: &Metric, job: &Value) -> Option<Value> {
    if let Place::Stall(cause) = metric.value {
        let stalls = job.get("stall")?;
        let none = || serde_json::json!({ "mean": 0.0, "ci95": [0.0, 0.0] });
        return Some(stalls.get(cause.to_string()).cloned().unwrap_or_else(none));
    }
    let mut place = metric.json.strip_prefix("jobs.")?.split('.');
    place.try_fold(job, |at, key| at.get(key)).cloned()
}

/// Returns the value of a figure in JSON: the number itself, or its `mean`.
fn mean(figure: &Value) -> Option<f64> {
    figure.as_f64().or_else(|| figure.get("mean")?.as_f64())
}

fn interval(figure: &Value) -> Option<[f64; 2]> {
    let ends = figure.get("ci95")?.as_array()?;
    Some([ends.first()?.as_f64()?, ends.get(1)?.as_f64()?])
}

fn json(found: &Found) -> String {
    serde_json::to_string_pretty(found).map_or_else(|_| String::new(), |text| text + "\n")
}

fn text(found: &Found) -> String {
    const HEADING: [&str; 6] = ["job", "figure", "before", "after", "change", "difference"];
    // A single job needs no column.
    let first = usize::from(found.jobs.len() == 1);
    let mut rows = table(output::width(), &HEADING[first..]);
    for change in &found.changes {
        let row = [
            printable_line(&change.job),
            change.label.clone(),
            written(change.unit, change.before, change.intervals[0]),
            written(change.unit, change.after, change.intervals[1]),
            change.change.map_or_else(|| "-".to_owned(), signed_share),
            change.difference.word().to_owned(),
        ];
        rows.add_row(cells(&row[first..]));
    }
    let mut text = String::new();
    for ChangedSetting { key, before, after } in &found.settings {
        let said = |value: &Option<String>| {
            value.as_ref().map_or_else(|| "not there".to_owned(), |value| printable_line(value))
        };
        text += &format!("{}: {} → {}\n", printable_line(key), said(before), said(after));
    }
    if !found.settings.is_empty() {
        text += "\n";
    }
    if !found.changes.is_empty() {
        text += &format!(
            "{rows}\n\nreal: the 95 % intervals do not meet; chance: they do; unknown: a figure has no interval.\n"
        );
    }
    text += &format!(
        "{} figures differ, {} are the same to 0.05 %.\n",
        found.changes.len(),
        found.same
    );
    for (names, which) in [(&found.only_before, "first"), (&found.only_after, "second")] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| printable_line(name)).collect();
            text += &format!("Only in the {which} report: {}.\n", names.join(", "));
        }
    }
    text
}

impl Difference {
    fn word(self) -> &'static str {
        match self {
            Difference::Real => "real",
            Difference::Chance => "chance",
            Difference::Unknown => "unknown",
        }
    }
}

/// Formats a value with its unit and the half-width of its interval, scaled to be readable.
fn written(unit: Unit, value: f64, interval: Option<[f64; 2]>) -> String {
    let with_half = |quantity: Quantity| match interval {
        Some([low, high]) => quantity.with_half(value, (high - low) / 2.0),
        None => quantity.write(value),
    };
    match unit {
        Unit::Seconds => with_half(Quantity::Seconds),
        Unit::Bytes => bytes(value),
        Unit::Share => with_half(Quantity::Share),
        Unit::Count | Unit::Ratio | Unit::Text => number(value),
        of => format!("{} {}", with_half(Quantity::Count), of.symbol()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(step: f64, half: f64) -> Value {
        json!({ "name": "j", "step_time": { "mean": step, "ci95": [step - half, step + half] } })
    }

    #[test]
    fn a_difference_is_significant_if_confidence_intervals_do_not_overlap() {
        let of = |old: Value, new: Value| {
            let found = compare(&[old], &[new]);
            found.changes.iter().map(|change| change.difference).collect::<Vec<_>>()
        };
        assert_eq!(of(job(1.0, 0.1), job(2.0, 0.1)), [Difference::Real]);
        assert_eq!(of(job(1.0, 0.6), job(2.0, 0.6)), [Difference::Chance]);
        assert_eq!(of(job(1.0, 0.1), job(1.0, 0.2)), []);
        let single = json!({ "name": "j", "step_time": { "mean": 3.0, "ci95": null } });
        assert_eq!(of(job(1.0, 0.1), single), [Difference::Unknown]);
    }

    #[test]
    fn explicit_settings_equal_to_the_default_are_not_listed_as_differences() {
        let read = |settings: &[(&str, &str)], assumed: &[(&str, &str)]| {
            let list = |of: &[(&str, &str)]| {
                let one = |(key, value): &(&str, &str)| Setting {
                    key: (*key).to_owned(),
                    value: (*value).to_owned(),
                };
                of.iter().map(one).collect()
            };
            Read { jobs: Vec::new(), settings: list(settings), assumed: list(assumed) }
        };
        let before = read(&[("a", "1"), ("b", "2"), ("c", "3")], &[("d", "4")]);
        let after = read(&[("a", "1"), ("b", "5"), ("d", "4"), ("e", "6")], &[]);
        let found = changed_settings(&before, &after);
        let found: Vec<_> =
            found.iter().map(|of| (&*of.key, of.before.as_deref(), of.after.as_deref())).collect();
        assert_eq!(
            found,
            [("b", Some("2"), Some("5")), ("c", Some("3"), None), ("e", None, Some("6"))]
        );
    }

    #[test]
    fn changes_are_relative_to_the_first_report_and_unmatched_jobs_are_listed() {
        let mut other = job(1.0, 0.0);
        other["name"] = "k".into();
        let found = compare(&[job(2.0, 0.0)], &[job(1.5, 0.0), other]);
        assert_eq!(found.changes[0].change, Some(-0.25));
        assert_eq!((found.only_before.len(), found.only_after), (0, vec!["k".to_owned()]));
    }
}
