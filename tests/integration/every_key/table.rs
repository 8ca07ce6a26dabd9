//! The tables: scenarios as code blocks, and rows that change a key of a scenario.
//!
//! A row is `key | scenario | values | quantity | expected | with | why`:
//! - `key`: as an override takes it; `{a,b}` in place of a part stands for each of these names, `*` for any
//!   name, and `$1`, `$2` elsewhere in the row and in its scenario for the name at the first and the second such
//!   part.
//! - `values`: `from → to`; `-`: the key is not written.
//! - `quantity`: see `quantity`. `expected`: the change of the quantity, `<` and `>` (by 0.1 % at least), `=`,
//!   `≠`, `×2` (within 3 %); or `refused: words` for a message that refuses the second value.
//! - `with`: other changes before this one, `key=value`, separated by `;`. If one of them contains `$v`, the
//!   value is put there, and the key itself is not changed.
//! - `why`: why the quantity stays (`=`), changes in no certain direction (`≠`), or is the number of remarks.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use super::super::runs::repository;
use super::{Key, Quantity};

/// Columns of a row.
const COLUMNS: usize = 7;
/// Least relative change that counts as a fall or a rise.
const LEAST: f64 = 1e-3;
/// Relative tolerance of an expected ratio.
const TOLERANCE: f64 = 0.03;

/// The rows of an area.
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
}

/// One row.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) values: [String; 2],
    pub(super) quantity: Quantity,
    pub(super) expected: Expected,
    pub(super) why: String,
    base: String,
    with: Vec<String>,
    line: usize,
}

/// Expected change of the quantity.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expected {
    Falls,
    Rises,
    Same,
    Differs,
    Times(f64),
    Refused(String),
}

/// A row for one of its keys.
pub(super) struct Case<'r> {
    pub(super) row: &'r Row,
    pub(super) key: &'r str,
    /// The names for `$1`, `$2` …
    places: Vec<String>,
}

impl Table {
    /// Reads the table of an area.
    pub(super) fn read(area: &str) -> Table {
        let path = repository(&format!("tests/integration/every_key/{area}.md"));
        Table::parse(&fs::read_to_string(&path).expect("a table"))
    }

    /// Parses a table; panics at a line that looks like a row but is malformed.
    pub(super) fn parse(text: &str) -> Table {
        let mut bases: BTreeMap<&str, String> = BTreeMap::new();
        let (mut rows, mut name, mut inside) = (Vec::new(), "", false);
        for (number, line) in text.lines().enumerate() {
            if line.starts_with("```") {
                inside = !inside;
            } else if inside {
                let base = bases.entry(name).or_default();
                *base += line;
                base.push('\n');
            } else if let Some(heading) = line.strip_prefix("## ") {
                name = heading;
            } else if line.starts_with("| `") {
                rows.push(Row::parse(line, number + 1, &bases));
            } else {
                let is_head = line.starts_with("| key |") || line.starts_with("|---");
                assert!(is_head || !line.starts_with('|'), "line {}: no row: {line}", number + 1);
            }
        }
        Table { rows }
    }
}

impl Row {
    fn parse(text: &str, line: usize, bases: &BTreeMap<&str, String>) -> Row {
        let wrong = |what: &str| -> ! { panic!("line {line}: {what}: {text}") };
        let columns = text.trim_matches('|').split('|').map(|of| of.trim().trim_matches('`'));
        let columns: Vec<&str> = columns.collect();
        let &[key, base, values, quantity, expected, with, why] = columns.as_slice() else {
            wrong(&format!("there are {} columns instead of {COLUMNS}", columns.len()))
        };
        let Some((from, to)) = values.split_once(" → ") else { wrong("no values") };
        let with = with.split(';').map(|change| change.trim().to_owned());
        Row {
            key: key.to_owned(),
            values: [from.to_owned(), to.to_owned()],
            quantity: Quantity::named(quantity).unwrap_or_else(|| wrong("no such quantity")),
            expected: Expected::named(expected).unwrap_or_else(|| wrong("nothing is expected")),
            why: why.to_owned(),
            base: bases.get(base).unwrap_or_else(|| wrong("no such scenario")).clone(),
            with: with.filter(|change| !change.is_empty()).collect(),
            line,
        }
    }

    /// Returns whether the row needs a reason because it expects neither a fall nor a rise.
    pub(super) fn needs_a_reason(&self) -> bool {
        let aside = self.quantity == Quantity::Remarks;
        aside || matches!(self.expected, Expected::Same | Expected::Differs)
    }

    /// Returns the names at the variable parts of the row's key if it matches `key`, and `None` otherwise.
    pub(super) fn matches(&self, key: &Key) -> Option<Vec<String>> {
        let (wanted, parts) = (self.key.split('.'), key.path.split('.'));
        if wanted.clone().count() != parts.clone().count() {
            return None;
        }
        let mut places = Vec::new();
        for (wanted, part) in wanted.zip(parts) {
            let several = wanted.strip_prefix('{').and_then(|list| list.strip_suffix('}'));
            match several {
                _ if wanted == "*" => places.push(part.to_owned()),
                Some(list) if list.split(',').any(|one| one == part) => {
                    places.push(part.to_owned())
                }
                None if wanted == part => {}
                _ => return None,
            }
        }
        Some(places)
    }

    /// Returns a case for each key that the row matches.
    pub(super) fn cases<'r>(&'r self, keys: &'r [Key]) -> impl Iterator<Item = Case<'r>> {
        let case =
            |key: &'r Key| Some(Case { row: self, key: &key.path, places: self.matches(key)? });
        keys.iter().filter_map(case)
    }
}

impl Expected {
    fn named(text: &str) -> Option<Expected> {
        Some(match text {
            "<" => Self::Falls,
            ">" => Self::Rises,
            "=" => Self::Same,
            "≠" => Self::Differs,
            _ => match (text.strip_prefix('×'), text.strip_prefix("refused: ")) {
                (Some(ratio), _) => Self::Times(ratio.parse().ok()?),
                (None, Some(words)) => Self::Refused(words.to_owned()),
                (None, None) => return None,
            },
        })
    }

    /// Returns whether the change from `before` to `after` is the expected one; rounding is no change.
    pub(super) fn holds(&self, before: f64, after: f64) -> bool {
        let change = (after - before) / before.abs().max(after.abs()).max(f64::MIN_POSITIVE);
        let same = change.abs() <= 1e-9;
        match self {
            Self::Falls => change <= -LEAST,
            Self::Rises => change >= LEAST,
            Self::Same => same,
            Self::Differs => !same,
            Self::Times(ratio) => (after / (before * ratio) - 1.0).abs() <= TOLERANCE,
            Self::Refused(_) => false,
        }
    }
}

impl Case<'_> {
    /// Returns the text of the scenario that the case changes.
    pub(super) fn base(&self, value: &str) -> String {
        self.filled(&self.row.base, value)
    }

    /// Returns the case's changes with this value of the key.
    pub(super) fn changes(&self, value: &str) -> Vec<String> {
        let row = self.row;
        let elsewhere = row.base.contains("$v") || row.with.iter().any(|of| of.contains("$v"));
        let own = (value != "-" && !elsewhere).then(|| format!("{}={value}", self.key));
        let with = row.with.iter().map(|change| self.filled(change, value));
        with.chain(own).collect()
    }

    fn filled(&self, text: &str, value: &str) -> String {
        let places = self.places.iter().enumerate();
        places.fold(text.replace("$v", value), |text, (index, place)| {
            text.replace(&format!("${}", index + 1), place)
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, `{}`", self.line, self.key)
    }
}
