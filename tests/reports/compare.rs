//! Compares two folders of reports, figure by figure.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Largest difference of two figures that are equal, relative to the larger one.
const TOLERANCE: f64 = 1e-9;
/// Figures below this are rounding errors of a sum that is zero.
const ZERO: f64 = 1e-12;
/// Key of the simulation's wall time, which does not depend on the scenario.
const WALL_TIME: &str = "wall_time";
/// Largest number of differences that are listed for each file.
const MOST_NAMED: usize = 6;

/// Returns the number of equal reports, or all differences as an error.
pub(crate) fn folders(before: &Path, after: &Path, ignore: &[String]) -> Result<String, String> {
    let (then, now) = (names(before)?, names(after)?);
    let mut wrong: Vec<String> = Vec::new();
    for name in then.union(&now) {
        let differences = match (then.contains(name), now.contains(name)) {
            (true, true) => files(&before.join(name), &after.join(name), ignore)?,
            (true, false) => vec!["there was such a report, and is none".to_owned()],
            _ => vec!["there is such a report, and was none".to_owned()],
        };
        let more = differences.len().saturating_sub(MOST_NAMED);
        wrong.extend(differences.iter().take(MOST_NAMED).map(|of| format!("{name}: {of}")));
        if more > 0 {
            wrong.push(format!("{name}: and {more} more figures"));
        }
    }
    if wrong.is_empty() {
        return Ok(format!("{} reports are equal to {TOLERANCE:e}", then.len()));
    }
    Err(wrong.join("\n"))
}

fn names(folder: &Path) -> Result<BTreeSet<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn files(before: &Path, after: &Path, ignore: &[String]) -> Result<Vec<String>, String> {
    let text = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (then, now) = (text(before)?, text(after)?);
    if before.extension().is_none_or(|extension| extension != "json") {
        return Ok(if then == now { Vec::new() } else { vec!["the refusal differs".to_owned()] });
    }
    let parsed = |text: &str, path: &Path| {
        serde_json::from_str::<Value>(text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut differences = Vec::new();
    values("", &parsed(&then, before)?, &parsed(&now, after)?, ignore, &mut differences);
    Ok(differences)
}

/// Adds the differences below `path` to `found`.
fn values(path: &str, before: &Value, after: &Value, ignore: &[String], found: &mut Vec<String>) {
    let last = path.rsplit('.').next().unwrap_or(path);
    if last == WALL_TIME || ignore.iter().any(|name| name == last) {
        return;
    }
    match (before, after) {
        (Value::Object(then), Value::Object(now)) => objects(path, then, now, ignore, found),
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            for (place, (then, now)) in then.iter().zip(now).enumerate() {
                values(&format!("{path}[{place}]"), then, now, ignore, found);
            }
        }
        (Value::Number(then), Value::Number(now)) => {
            let [then, now] = [then, now].map(|number| number.as_f64().unwrap_or(f64::NAN));
            let apart = (then - now).abs();
            if !(apart <= TOLERANCE * then.abs().max(now.abs()) || apart <= ZERO) {
                found.push(format!("{path}: {then} -> {now} ({:+.2e})", (now - then) / then));
            }
        }
        _ if before != after => {
            found.push(format!("{path}: {} -> {}", short(before), short(after)));
        }
        _ => {}
    }
}

fn objects(
    path: &str,
    then: &Map<String, Value>,
    now: &Map<String, Value>,
    ignore: &[String],
    found: &mut Vec<String>,
) {
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    for key in keys {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let none = Value::Null;
        values(&path, then.get(key).unwrap_or(&none), now.get(key).unwrap_or(&none), ignore, found);
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 80 { text } else { text.chars().take(80).chain(['…']).collect() }
}

/// Checks that values that differ by a rounding error are equal, and that larger differences, missing and new
/// values are listed with their path.
pub(crate) fn differences_are_found() {
    let before = json!({"jobs": [{"step": 0.1, "rate": 3.0, "text": "a"}], "events": 5, "old": 1});
    let after = json!({"jobs": [{"step": 0.100_000_001, "rate": 3.000_000_000_1, "text": "b"}],
        "events": 6, "new": 0.0});
    let mut found = Vec::new();
    values("", &before, &after, &["events".to_owned()], &mut found);
    let places: Vec<&str> = found.iter().filter_map(|of| of.split(':').next()).collect();
    assert_eq!(places, ["jobs[0].step", "jobs[0].text", "new", "old"], "{found:?}");
    let mut none = Vec::new();
    values("", &before, &before, &[], &mut none);
    assert_eq!(none, [""; 0]);
}
