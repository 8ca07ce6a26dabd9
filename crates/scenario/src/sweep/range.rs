//! Ranges of `[sweep]`: `{ from = 1, to = 16, steps = 4 }`.

use super::MOST_VALUES;
use crate::document::{Document, Kind, NodeId};
use crate::problem::Log;
use crate::value::{Tree, Value};
use forebay_model::units::{self, rounded};

/// Spacings of the values in a range.
const SCALES: [&str; 2] = ["linear", "log"];
const KEYS: [&str; 4] = ["from", "to", "steps", "scale"];

/// Returns whether a table looks like a range.
pub(super) fn is_range(document: &Document, line: NodeId) -> bool {
    document.member(line, "from").is_some() || document.member(line, "to").is_some()
}

/// Records a problem for a member of a table that is not in `known`.
pub(super) fn only(document: &Document, table: NodeId, known: &[&str], log: &Log) -> Option<()> {
    let unknown = document
        .children(table)
        .iter()
        .find(|&&member| !known.contains(&document.node(member).key.as_str()));
    match unknown {
        None => Some(()),
        Some(&member) => {
            let what = format!("`{}` is not known here", document.node(member).key);
            log.key(member, what, format!("known are {}", known.join(", ")));
            None
        }
    }
}

/// The values between two ends, in the unit of the lower end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Range {
    pub(super) key: String,
    from: f64,
    to: f64,
    /// Unit of both ends; `None` for plain numbers.
    unit: Option<String>,
    /// Whether only whole numbers are values.
    whole: bool,
    log: bool,
}

/// An end of a range: its number, its unit, and whether it is a whole number of things.
struct End(f64, Option<String>, bool);

impl Range {
    /// Reads a range, and its number of steps if it says one.
    pub(super) fn read(
        document: &Document,
        line: NodeId,
        key: String,
        log: &Log,
    ) -> Option<(Range, Option<usize>)> {
        only(document, line, &KEYS, log)?;
        let [from, to] = ["from", "to"].map(|name| {
            let member = document.member(line, name);
            if member.is_none() {
                let remedy = "write both ends: `{ from = 1, to = 16, steps = 4 }`";
                log.value(line, format!("`{name}` is missing"), remedy);
            }
            Some((member?, end(document, member?, log)?))
        });
        let ((from_at, End(low, unit, whole)), (to_at, End(high, other, also_whole))) =
            (from?, to?);
        let high = match (&unit, &other) {
            (None, None) => Some(high),
            (Some(unit), Some(other)) => in_unit(high, other, unit),
            _ => None,
        };
        let Some(high) = high else {
            log.value(
                to_at,
                "the ends of the range have units of different kinds",
                "write the same unit",
            );
            return None;
        };
        if low >= high {
            log.value(to_at, "the range ends before it begins", "write a larger `to` than `from`");
            return None;
        }
        let scale = document.member(line, "scale");
        let scale = scale.map_or(Some(SCALES[0]), |at| {
            let found = SCALES.into_iter().find(|of| document.text(at) == Some(*of));
            if found.is_none() {
                log.value(at, "this is no scale", "write \"linear\" or \"log\"");
            }
            found
        })?;
        let logarithmic = scale == SCALES[1];
        if logarithmic && low <= 0.0 {
            log.value(from_at, "a logarithmic range begins above 0", "write a larger `from`");
            return None;
        }
        let steps = document.member(line, "steps");
        let steps =
            steps.map_or(Some(None), |at| count(document, at, 2, MOST_VALUES, log).map(Some));
        let whole = whole && also_whole;
        let range = Range { key, from: low, to: high, unit, whole, log: logarithmic };
        Some((range, steps?))
    }

    /// Returns the value at this share of the range, from 0 at its beginning to 1 at its end.
    pub(super) fn end(&self, share: f64) -> Value {
        let at = match self.log {
            true => self.from * (self.to / self.from).powf(share),
            false => self.from + share * (self.to - self.from),
        };
        self.value(if self.whole { at.round() } else { at })
    }

    /// Returns `steps` values from end to end, of which whole numbers that repeat are left out.
    pub(super) fn steps(&self, steps: usize) -> Vec<Vec<Value>> {
        let mut values: Vec<Vec<Value>> =
            (0..steps).map(|step| vec![self.end(step as f64 / (steps - 1) as f64)]).collect();
        values.dedup();
        values
    }

    /// Returns the value for a number that is uniform from 0 to 1. Every whole number of a linear range is as likely.
    pub(super) fn drawn(&self, uniform: f64) -> Value {
        if self.whole && !self.log {
            let at = self.from + (uniform * (self.to - self.from + 1.0)).floor();
            return self.value(at.min(self.to));
        }
        self.end(uniform)
    }

    fn value(&self, number: f64) -> Value {
        let number = rounded(number.clamp(self.from, self.to));
        Value(match &self.unit {
            Some(unit) => Tree::Text(format!("{number} {unit}")),
            None if self.whole => Tree::Integer(number as i128),
            None => Tree::Float(number),
        })
    }
}

/// Returns a number of unit `from` in the unit `to`; `None` if these are units of different kinds.
fn in_unit(number: f64, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(number);
    }
    let [from, to] = [from, to].map(|unit| format!("1 {unit}"));
    if units::si_unit(&from) != units::si_unit(&to) {
        return None;
    }
    Some(rounded(number * units::si(&from)? / units::si(&to)?))
}

fn end(document: &Document, at: NodeId, log: &Log) -> Option<End> {
    let found = match &document.node(at).kind {
        Kind::Integer(value) => Some(End(*value as f64, None, true)),
        Kind::Float(value) if value.is_finite() => Some(End(*value, None, false)),
        Kind::Text(text) => units::number_and_unit(text)
            .map(|(number, unit)| End(number, Some(unit.to_owned()), units::is_counted(text))),
        _ => None,
    };
    if found.is_none() {
        log.value(at, "a number or a quantity is expected", "write 4, 0.5 or \"10 Gbit/s\"");
    }
    found
}

/// Reads a whole number from `least` to `most`.
pub(super) fn count(
    document: &Document,
    at: NodeId,
    least: usize,
    most: usize,
    log: &Log,
) -> Option<usize> {
    let found = match document.node(at).kind {
        Kind::Integer(value) => usize::try_from(value).ok(),
        _ => None,
    };
    let found = found.filter(|value| (least..=most).contains(value));
    if found.is_none() {
        log.value(
            at,
            "this number cannot be used",
            format!("write a whole number from {least} to {most}"),
        );
    }
    found
}
