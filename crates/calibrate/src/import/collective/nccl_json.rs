//! Reads the JSON output of nccl-tests (`-J`). This JSON has strings for booleans and for numbers that are not finite.

use super::TableError;
use super::nccl::{check_ratio, program};
use super::row::{Row, Rows};
use serde_json::Value;

pub(super) fn read(text: &str, rows: &mut Rows<'_>) -> Result<(), TableError> {
    let file: Value = serde_json::from_str(text).map_err(|error| {
        let what = format!("not JSON: {error}");
        TableError::at(error.line(), what, "give the file that `-J` wrote, whole")
    })?;
    let bad = |what: String| TableError {
        line: None,
        what,
        remedy: "give the file that `-J` wrote, whole".to_owned(),
    };
    let results = file.get("results").and_then(Value::as_array);
    let results = results.ok_or_else(|| bad("the file has no `results`".to_owned()))?;
    let collective =
        rows.collective(1, named(&file)).map_err(|error| TableError { line: None, ..error })?;
    let first = |device: &&Value| device.get("group").is_none_or(|group| *group == 0);
    let devices = file.get("devices").and_then(Value::as_array);
    let numbers = devices.into_iter().flatten().filter(first).enumerate();
    // A device without a number counts as one rank.
    let numbers =
        numbers.map(|(at, device)| device.get("rank").and_then(Value::as_u64).unwrap_or(at as u64));
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(bad(format!("two of its `devices` are rank {}", twice[0])));
    }
    let said = u32::try_from(numbers.len()).ok().filter(|count| *count > 0);
    let ranks =
        rows.ranks(1, collective, said).map_err(|error| TableError { line: None, ..error })?;
    for (index, result) in results.iter().enumerate() {
        let lost = |error: TableError| bad(format!("`results[{index}]`: {}", error.what));
        let bytes = value(result, "size")
            .ok_or_else(|| bad(format!("`results[{index}]` has no `size`")))?;
        for (half, buffers) in [("out_of_place", "out-of-place"), ("in_place", "in-place")] {
            let Some(half) = result.get(half).filter(|half| !half.is_null()) else { continue };
            let Some(time) = value(half, "time") else {
                rows.leave_out("halves of rows without a time");
                continue;
            };
            if let (Some(algorithm), Some(bus)) = (value(half, "alg_bw"), value(half, "bus_bw")) {
                check_ratio(1, collective, ranks, [algorithm, bus]).map_err(lost)?;
            }
            let wrong = value(half, "nwrong").filter(|count| *count != 0.0);
            let row = Row {
                line: 1,
                collective: Some(collective),
                ranks: Some(ranks),
                bytes,
                seconds: time * 1e-6,
                operations: result.get("actual_iterations").and_then(Value::as_u64),
                labels: &[("buffers", buffers)],
                excluded: wrong.map(|count| format!("{count} results were wrong")),
            };
            rows.add(row).map_err(lost)?;
        }
    }
    Ok(())
}

/// Returns a number, which may be written as a string; `None` if it is missing or not finite.
fn value(of: &Value, key: &str) -> Option<f64> {
    let found = match of.get(key)? {
        Value::String(text) => text.trim().parse().ok()?,
        other => other.as_f64()?,
    };
    Some(found).filter(|value: &f64| value.is_finite())
}

/// Returns the operation of the first program of nccl-tests that a text in the file names. Texts in the results and the
/// environment are ignored.
fn named(file: &Value) -> Option<super::kind::Collective> {
    match file {
        Value::String(text) => program(text),
        Value::Array(all) => all.iter().find_map(named),
        Value::Object(all) => all
            .iter()
            .filter(|(key, _)| !["results", "env"].contains(&key.as_str()))
            .find_map(|(_, v)| named(v)),
        _ => None,
    }
}
