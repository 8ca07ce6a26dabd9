//! A table of throughput from a file.

use super::{MOST, Table};
use crate::check::Check;
use crate::document::NodeId;
use crate::file;
use crate::problem::Problem;
use forebay_model::input;
use forebay_model::input::shown;
use forebay_model::units::{Bandwidth, Dimension, Quantity, Size};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum size of a file [B].
const LARGEST: u64 = 64 << 20;
/// Maximum number of concurrent requests.
const MOST_REQUESTS: f64 = 1e6;

/// A line: size [B], number of requests, throughput [B/s].
type Line = [f64; 3];

/// Returns the table in the file `name`, which the scenario names at document node `at`; reports a problem and
/// returns `None` if the file is invalid.
pub(super) fn read(check: Check<'_>, at: NodeId, name: &str) -> Option<Table> {
    let path = check.directory.join(name);
    let bytes = file::read(&path, LARGEST);
    let text = bytes.and_then(|bytes| {
        let remedy = "name a text file with a size, a number and a throughput on each line";
        input::as_text(bytes).map_err(|error| (error.to_string(), remedy.to_owned()))
    });
    match text {
        Ok(text) => table(check, at, &shown(&path), &text),
        Err((what, remedy)) => {
            check.wrong(at, format!("{name:?}: {what}"), remedy);
            None
        }
    }
}

fn table(check: Check<'_>, at: NodeId, file: &str, text: &str) -> Option<Table> {
    // The bits of positive floats have the same order as the numbers, so they can be the keys of a map.
    let mut entries = BTreeMap::new();
    let wrong = |what: String, span: Range<usize>| {
        let remedy = "write `64 KiB,4,200 MB/s`: a size, a number of concurrent requests, their total throughput";
        check.log.elsewhere(at, Problem::new(file, what, remedy).at(text, span));
    };
    let (mut start, mut headings) = (0, true);
    for whole in text.split_inclusive('\n') {
        let span = start..start + whole.trim_end().len();
        start += whole.len();
        let content = whole.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let could_be_headings =
            std::mem::take(&mut headings) && content.starts_with(char::is_alphabetic);
        match line(content) {
            Ok([size, number, rate]) => {
                if entries.insert((size.to_bits(), number.to_bits()), rate).is_some() {
                    wrong(
                        "this size and number of requests are already in the file".to_owned(),
                        span,
                    );
                    return None;
                }
            }
            Err(_) if could_be_headings => {}
            Err(what) => {
                wrong(what, span);
                return None;
            }
        }
    }
    whole(check, at, file, &entries)
}

/// Returns the table if the file has a throughput for each combination of its sizes and its numbers of requests;
/// otherwise reports a problem and returns `None`.
fn whole(
    check: Check<'_>,
    at: NodeId,
    file: &str,
    entries: &BTreeMap<(u64, u64), f64>,
) -> Option<Table> {
    let column = |of: fn(&(u64, u64)) -> u64| {
        let mut bits: Vec<u64> = entries.keys().map(of).collect();
        bits.sort_unstable();
        bits.dedup();
        bits.into_iter().map(f64::from_bits).collect::<Vec<f64>>()
    };
    let (sizes, numbers) = (column(|key| key.0), column(|key| key.1));
    let all = sizes.len() * numbers.len();
    if entries.len() != all || entries.is_empty() || sizes.len().max(numbers.len()) > MOST {
        let (n, sizes, numbers) = (entries.len(), sizes.len(), numbers.len());
        let what = format!(
            "{file} has {n} throughputs for {sizes} sizes by {numbers} numbers of requests"
        );
        let remedy =
            format!("write one for each size and number of requests, up to {MOST} of each");
        check.wrong(at, what, remedy);
        return None;
    }
    // Keys are in the order of sizes, then numbers.
    Some(Table { sizes, numbers, rates: entries.values().copied().collect() })
}

fn line(content: &str) -> Result<Line, String> {
    let parts: Vec<&str> = content.split(',').map(str::trim).collect();
    let [size, number, rate] = parts[..] else {
        return Err(format!("there are {} columns here, not 3", parts.len()));
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is no number of requests"))?;
    if !(1.0..=MOST_REQUESTS).contains(&number) {
        return Err(format!("{number} requests at once are not between 1 and {MOST_REQUESTS}"));
    }
    Ok([value::<Size>(size)?, number, value::<Bandwidth>(rate)?])
}

fn value<D: Dimension>(text: &str) -> Result<f64, String> {
    let value = match text.parse::<f64>() {
        Ok(value) => value,
        Err(_) => text.parse::<Quantity<D>>().map_err(|error| format!("{text:?}: {error}"))?.si(),
    };
    if (D::MIN..=D::MAX).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{value} is not between {} and {}", D::MIN, D::MAX))
    }
}
