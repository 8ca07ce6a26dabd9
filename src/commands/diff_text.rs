//! The text of `forebay diff`.

use super::diff::{Change, ChangedSetting, Difference, Found, SAME};
use super::profile_text::{cells, table};
use crate::metric::Unit;
use crate::report::format::{Quantity, bytes, number, share, signed_share};
use crate::scenario::printable_line;
use comfy_table::{ColumnConstraint, Table, Width};

/// Returns the comparison as text: which report is faster, settings that differ, a table of figures, and what is left out.
pub(super) fn text(found: &Found) -> String {
    let mut text: String = found.speeds.iter().map(|speed| conclusion(speed) + "\n").collect();
    if !text.is_empty() {
        text += "\n";
    }
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
        text += &format!("{}\n\n{LEGEND}\n", figures(found));
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

const LEGEND: &str = "beyond chance: yes where the 95 % intervals do not overlap, no where they do, - where a figure has none; \
                      rates: in samples/s.";

/// Width of the names of figures, with a space on both sides, so that most of them take one line [columns].
const NAME: u16 = 26;

/// Returns a sentence on which report is faster for a job, by how much, and whether that is beyond chance.
fn conclusion(speed: &Change) -> String {
    let job = printable_line(&speed.job);
    let of = |value: f64, interval| written(speed.unit, value, interval);
    let (old, new) = (of(speed.before, speed.intervals[0]), of(speed.after, speed.intervals[1]));
    let (low, high) = (speed.before.min(speed.after), speed.before.max(speed.after));
    if high - low < SAME * high || high == low {
        return format!("`{job}` is as fast in both reports: {new}.");
    }
    let which = if speed.after > speed.before { "second" } else { "first" };
    let faster = format!("`{job}` is {} faster in the {which} report", share(high / low - 1.0));
    let figures = format!("{old} in the first, {new} in the second");
    match speed.difference {
        Difference::Real => format!("{faster}, which is beyond chance: {figures}."),
        Difference::Chance => format!(
            "Neither report is faster for `{job}` beyond chance: {figures}, and the 95 % intervals overlap."
        ),
        Difference::Unknown => format!(
            "{faster}: {figures}. Whether that is beyond chance is not known: a figure has no 95 % interval."
        ),
    }
}

/// Returns the table of figures.
fn figures(found: &Found) -> Table {
    const HEADING: [&str; 6] = ["job", "figure", "before", "after", "change", "beyond\nchance"];
    // A single job needs no column.
    let first = usize::from(found.jobs.len() == 1);
    let mut rows = table(&HEADING[first..]);
    if let Some(names) = rows.column_mut(1 - first) {
        names.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(NAME)));
    }
    for change in &found.changes {
        let value = |value, interval| match is_rate(change) {
            true => with_interval(Quantity::Count, value, interval),
            false => written(change.unit, value, interval),
        };
        let row = [
            printable_line(&change.job),
            short_name(change),
            value(change.before, change.intervals[0]),
            value(change.after, change.intervals[1]),
            change.change.map_or_else(|| "-".to_owned(), signed_share),
            change.difference.word().to_owned(),
        ];
        rows.add_row(cells(&row[first..]));
    }
    rows
}

/// Whether the legend says the unit of a figure.
fn is_rate(change: &Change) -> bool {
    change.unit == Unit::SamplesPerSecond
}

/// Returns the name of a figure for a narrow terminal, without a unit that its values or the legend have.
fn short_name(change: &Change) -> String {
    let name = &change.label;
    let name = name.strip_suffix(", share of time").unwrap_or(name);
    name.replace(", samples per second", "").replace(" per second", "/s")
}

/// Returns how many figures are listed, and how many are left out and why.
fn count(found: &Found) -> String {
    let reasons = [
        (found.same, "differ by less than 0.1 % (shares: of the time)"),
        (found.within_intervals, "lie in each other's 95 % intervals"),
        (found.repeated, "repeat a figure above"),
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
            Difference::Real => "yes",
            Difference::Chance => "no",
            Difference::Unknown => "-",
        }
    }
}

/// Formats a value with its unit and its interval, scaled to be readable.
fn written(unit: Unit, value: f64, interval: Option<[f64; 2]>) -> String {
    let with_interval = |quantity| with_interval(quantity, value, interval);
    match unit {
        Unit::Seconds => with_interval(Quantity::Seconds),
        Unit::Bytes => bytes(value),
        Unit::Share => with_interval(Quantity::Share),
        Unit::Count | Unit::Ratio | Unit::Text => number(value),
        of => format!("{} {}", with_interval(Quantity::Count), of.symbol()),
    }
}

fn with_interval(quantity: Quantity, value: f64, interval: Option<[f64; 2]>) -> String {
    match interval {
        Some(ends) => quantity.with_interval(value, ends),
        None => quantity.write(value),
    }
}
