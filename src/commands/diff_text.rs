//! The text of `forebay diff`.

use super::diff::{ChangedSetting, Difference, Found};
use super::output;
use super::profile_text::{cells, table};
use crate::metric::Unit;
use crate::report::format::{Quantity, bytes, number, signed_share};
use crate::scenario::printable_line;

/// Returns the comparison as text: settings that differ, a table of figures, and what is left out.
pub(super) fn text(found: &Found) -> String {
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
    text += &count(found);
    for (names, which) in [(&found.only_before, "first"), (&found.only_after, "second")] {
        if !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| printable_line(name)).collect();
            text += &format!("Only in the {which} report: {}.\n", names.join(", "));
        }
    }
    text
}

/// Returns how many figures are listed, and how many are left out and why.
fn count(found: &Found) -> String {
    let reasons = [
        (found.same, "differ by less than 0.1 % (shares: of the time)"),
        (found.within_intervals, "lie in each other's 95 % intervals"),
    ];
    let reasons = reasons.iter().filter(|(number, _)| *number > 0);
    let reasons: Vec<String> =
        reasons.map(|(number, why)| format!("{number} that {why}")).collect();
    let left_out = match reasons.is_empty() {
        true => String::new(),
        false => format!("; left out: {} (`--all` lists all)", reasons.join(", ")),
    };
    format!("Figures listed: {}{left_out}.\n", found.changes.len())
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
