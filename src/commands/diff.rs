//! `forebay diff`: what changed from one report to another.

use super::diff_text::text;
use super::paths::Paths;
use super::{Failure, input, output};
use crate::cli::{Diff, ReportFormat};
use crate::input::shown;
use crate::metric::{self, Metric, Unit, Value as Place};
use crate::scenario::Setting;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Relative difference below which two figures count as the same. Shares of time count as the same below this share.
pub(super) const SAME: f64 = 1e-3;

/// Column of the figure that says which of two reports is faster.
const SPEED: &str = "samples_per_second";

/// Places of the figures of epochs in a job, by column. They repeat figures of the whole run, so that the table of metrics has no
/// places for them.
const OF_EPOCHS: [(&str, &str); 4] = [
    ("first_epoch_step_time", "first_epoch.step_time"),
    ("later_epochs_step_time", "later_epochs.step_time"),
    ("first_epoch_utilisation", "first_epoch.accelerator_utilisation"),
    ("later_epochs_utilisation", "later_epochs.accelerator_utilisation"),
];

pub(super) fn execute(diff: &Diff) -> Result<(), Failure> {
    let reports = [&diff.before, &diff.after];
    Paths::default().prints(true).reads_all("the report", reports).check()?;
    let [before, after] = reports.map(|path| read(path));
    let (before, after) = (before?, after?);
    let mut found = compare(&before.jobs, &after.jobs, diff.all);
    found.settings = changed_settings(&before, &after);
    if found.jobs.is_empty() {
        let [before, after] = [&diff.before, &diff.after].map(|path| shown(path));
        return Err(Failure::Input(format!(
            "cannot compare {before} with {after}: no job has the same name in both reports; compare two reports of the same scenario"
        )));
    }
    match diff.format {
        ReportFormat::Json => output::stdout(json(&found).as_bytes()),
        ReportFormat::Text => output::text(&text(&found)),
    }
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
    let report = input::report(path)?;
    let jobs = report.get("jobs").and_then(Value::as_array).cloned().unwrap_or_default();
    let list = |key: &str| {
        let entries = report.get(key).and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect()
    };
    Ok(Read { settings: list("settings"), assumed: list("assumed"), jobs })
}

/// A key of the scenario whose value differs between the two reports; `None` stands for a key that one scenario does not have.
#[derive(Serialize, Debug, PartialEq)]
pub(super) struct ChangedSetting {
    pub(super) key: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
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
pub(super) struct Found {
    /// Names of jobs that both reports have.
    pub(super) jobs: Vec<String>,
    /// Names of jobs that only the first report has.
    pub(super) only_before: Vec<String>,
    pub(super) only_after: Vec<String>,
    /// Settings that differ.
    pub(super) settings: Vec<ChangedSetting>,
    /// Throughput of each job that completed steps in both reports.
    pub(super) speeds: Vec<Change>,
    /// Figures that differ; all figures if all are asked for.
    pub(super) changes: Vec<Change>,
    /// Number of figures that are left out because they differ by less than [`SAME`].
    pub(super) same: usize,
    /// Number of figures that are left out because each lies in the other's 95 % interval.
    pub(super) within_intervals: usize,
    /// Number of figures that are left out because an earlier figure of the job has the same values.
    pub(super) repeated: usize,
}

/// A figure of a job in the two reports.
#[derive(Serialize, Clone)]
pub(super) struct Change {
    pub(super) job: String,
    metric: String,
    #[serde(skip)]
    pub(super) label: String,
    #[serde(skip)]
    pub(super) unit: Unit,
    pub(super) before: f64,
    pub(super) after: f64,
    /// 95 % intervals of the two figures.
    pub(super) intervals: [Option<[f64; 2]>; 2],
    /// Change relative to `before`; `None` if `before` is 0.
    pub(super) change: Option<f64>,
    pub(super) difference: Difference,
}

/// Whether two figures differ by more than chance.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Difference {
    /// The 95 % intervals of the two figures do not overlap.
    Real,
    /// The 95 % intervals of the two figures overlap.
    Chance,
    /// At least one of the two figures has no interval.
    Unknown,
}

/// Compares the jobs of two reports. Small differences are left out unless `all`.
fn compare(before: &[Value], after: &[Value], all: bool) -> Found {
    let with =
        |all: &[Value], name: &str| all.iter().find(|job| self::name(job) == Some(name)).cloned();
    let names = |all: &[Value]| all.iter().filter_map(name).map(str::to_owned).collect::<Vec<_>>();
    let (old, new) = (names(before), names(after));
    let missing = |of: &[String], all: &[String]| {
        of.iter().filter(|name| !all.contains(name)).cloned().collect::<Vec<_>>()
    };
    let (only_before, only_after) = (missing(&old, &new), missing(&new, &old));
    let jobs: Vec<String> = old.into_iter().filter(|name| new.contains(name)).collect();
    let pairs = jobs.iter().filter_map(|job| Some([with(before, job)?, with(after, job)?]));
    let (mut speeds, mut changes) = (Vec::new(), Vec::<Change>::new());
    let (mut same, mut within_intervals, mut repeated) = (0, 0, 0);
    for change in pairs.flat_map(|[old, new]| changes_of(&old, &new)) {
        if change.metric == SPEED {
            speeds.push(change.clone());
        }
        match change.size() {
            Size::Same if !all => same += 1,
            Size::WithinIntervals if !all => within_intervals += 1,
            _ if !all && changes.iter().any(|earlier| change.repeats(earlier)) => repeated += 1,
            Size::Same | Size::WithinIntervals | Size::Larger => changes.push(change),
        }
    }
    let settings = Vec::new();
    Found {
        jobs,
        only_before,
        only_after,
        settings,
        speeds,
        changes,
        same,
        within_intervals,
        repeated,
    }
}

/// Returns the figures that a job has in both reports.
fn changes_of(old: &Value, new: &Value) -> Vec<Change> {
    let metrics = metric::all().iter().filter(|metric| metric.is_swept());
    let change = |metric: &Metric| {
        let figures = [figure(metric, old)?, figure(metric, new)?];
        let means = (mean(&figures[0])?, mean(&figures[1])?);
        Some(change((name(old)?, metric), means, figures.each_ref().map(interval)))
    };
    metrics.filter_map(change).collect()
}

/// How much two figures differ.
enum Size {
    /// By less than [`SAME`].
    Same,
    /// By more, but each figure lies in the other's 95 % interval.
    WithinIntervals,
    Larger,
}

impl Change {
    /// Returns whether the figure has the values of another figure of the same job, as the throughput in fresh samples has those of
    /// all samples where none is repeated.
    fn repeats(&self, other: &Change) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        let values = close(self.before, other.before) && close(self.after, other.after);
        self.job == other.job && self.unit == other.unit && values
    }

    fn size(&self) -> Size {
        let Change { before, after, .. } = *self;
        let whole = if self.unit == Unit::Share { 1.0 } else { before.abs().max(after.abs()) };
        let lies_in = |value: f64, [low, high]: [f64; 2]| low <= value && value <= high;
        match self.intervals {
            _ if (after - before).abs() < SAME * whole || before == after => Size::Same,
            [Some(old), Some(new)] if lies_in(before, new) && lies_in(after, old) => {
                Size::WithinIntervals
            }
            _ => Size::Larger,
        }
    }
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
pub(super) fn figure(metric: &Metric, job: &Value) -> Option<Value> {
    if let Place::Stall(cause) = metric.value {
        let stalls = job.get("stall")?;
        let none = || serde_json::json!({ "mean": 0.0, "ci95": [0.0, 0.0] });
        return Some(stalls.get(cause.to_string()).cloned().unwrap_or_else(none));
    }
    let of_epoch = OF_EPOCHS.iter().find(|(column, _)| *column == metric.column);
    let place = of_epoch.map(|(_, place)| *place).or(metric.json.strip_prefix("jobs."))?;
    place.split('.').try_fold(job, |at, key| at.get(key)).cloned()
}

/// Returns the value of a figure in JSON: the number itself, or its `mean`.
pub(super) fn mean(figure: &Value) -> Option<f64> {
    figure.as_f64().or_else(|| figure.get("mean")?.as_f64())
}

pub(super) fn interval(figure: &Value) -> Option<[f64; 2]> {
    ends(figure.get("ci95")?)
}

/// Returns two numbers in JSON: the ends of an interval.
pub(super) fn ends(of: &Value) -> Option<[f64; 2]> {
    let ends = of.as_array()?;
    Some([ends.first()?.as_f64()?, ends.get(1)?.as_f64()?])
}

/// Returns whether two intervals have no value in common, so that the difference is beyond chance.
pub(super) fn are_apart(a: Option<[f64; 2]>, b: Option<[f64; 2]>) -> bool {
    matches!((a, b), (Some([low, high]), Some([least, most])) if high < least || most < low)
}

fn json(found: &Found) -> String {
    serde_json::to_string_pretty(found).map_or_else(|_| String::new(), |text| text + "\n")
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
            let found = compare(&[old], &[new], false);
            found.changes.iter().map(|change| change.difference).collect::<Vec<_>>()
        };
        assert_eq!(of(job(1.0, 0.1), job(2.0, 0.1)), [Difference::Real]);
        assert_eq!(of(job(1.0, 0.6), job(2.0, 0.6)), [Difference::Chance]);
        let single = json!({ "name": "j", "step_time": { "mean": 3.0, "ci95": null } });
        assert_eq!(of(job(1.0, 0.1), single), [Difference::Unknown]);
    }

    #[test]
    fn a_figure_that_repeats_another_one_is_left_out_and_counted() {
        // System: a job that repeats no samples, and one that trains on each twice. Expectation: fresh samples are listed only of the
        // second one; all figures if all are asked for.
        let rates = |all: f64, fresh: f64| json!({ "name": "j", "samples_per_second": all, "fresh_samples_per_second": fresh });
        let of = |before, after, all| {
            let found = compare(&[before], &[after], all);
            (found.changes.len(), found.repeated, found.speeds.len())
        };
        assert_eq!(of(rates(1.0, 1.0), rates(3.0, 3.0), false), (1, 1, 1));
        assert_eq!(of(rates(1.0, 0.5), rates(3.0, 1.5), false), (2, 0, 1));
        assert_eq!(of(rates(1.0, 1.0), rates(3.0, 3.0), true), (2, 0, 1));
    }

    #[test]
    fn differences_below_a_thousandth_or_within_both_intervals_are_left_out_and_counted() {
        let found = |old: &Value, new: &Value, all| {
            let found = compare(std::slice::from_ref(old), std::slice::from_ref(new), all);
            [found.changes.len(), found.same, found.within_intervals]
        };
        let one = job(1.0, 0.1);
        for (other, expected) in [
            (job(1.0009, 0.0), [0, 1, 0]),
            (job(1.0011, 0.0), [1, 0, 0]),
            (job(1.05, 0.2), [0, 0, 1]),
            // The first figure lies in the second's interval, and the second one outside the first's.
            (job(1.2, 0.3), [1, 0, 0]),
        ] {
            assert_eq!(found(&one, &other, false), expected, "{other}");
            assert_eq!(found(&one, &other, true), [1, 0, 0], "{other}");
        }
        // A share of the time is compared with all time.
        let share = |value: f64| json!({ "name": "j", "accelerator_utilisation": value });
        assert_eq!(found(&share(0.0001), &share(0.0009), false), [0, 1, 0]);
        assert_eq!(found(&share(0.001), &share(0.003), false), [1, 0, 0]);
    }

    #[test]
    fn first_and_later_epochs_are_compared_where_both_reports_have_them() {
        let epochs = |first: f64, later: f64| {
            let step =
                |mean: f64| json!({ "step_time": mean, "accelerator_utilisation": 1.0 / mean });
            json!({ "name": "j", "first_epoch": step(first), "later_epochs": step(later) })
        };
        let found = compare(&[epochs(4.0, 2.0)], &[epochs(4.0, 1.0)], false);
        let metrics: Vec<&str> = found.changes.iter().map(|of| &*of.metric).collect();
        assert_eq!(metrics, ["later_epochs_step_time", "later_epochs_utilisation"]);
        assert_eq!(found.same, 2);
        let without = json!({ "name": "j", "first_epoch": null, "later_epochs": null });
        assert!(compare(&[epochs(4.0, 2.0)], &[without], true).changes.is_empty());
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
        let found = compare(&[job(2.0, 0.0)], &[job(1.5, 0.0), other], false);
        assert_eq!(found.changes[0].change, Some(-0.25));
        assert_eq!((found.only_before.len(), found.only_after), (0, vec!["k".to_owned()]));
    }
}
