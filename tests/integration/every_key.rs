//! Every key of a scenario moves the answer, the right way: one row of a table for each key of the schema.
//!
//! The tables are Markdown beside this file, by area: small scenarios, and rows that change one key of one of
//! them. `table` says how they are read, `keys` which keys there are, `quantity` what is looked at.

mod keys;
mod quantity;
mod table;

use std::collections::BTreeSet;

use forebay::scenario::{Override, Problems, Scenario, ScenarioFile};

use super::runs::repository;
use keys::Key;
use quantity::Quantity;
use table::{Case, Expected, Table};

/// Keys without a row, and why.
const UNSEEN: [(&str, &str); 5] = [
    ("background.name", "a label"),
    ("job.loader.stages.name", "a label"),
    ("job.name", "a label"),
    ("name", "a label"),
    ("sweep.NAME", "of `forebay sweep`: `sweep`"),
];

/// The scenario of a case, with the key not as it was written but so.
fn resolve(case: &Case, value: &str) -> Result<Scenario, Problems> {
    // Files that scenarios name are looked up in `files`.
    let place = repository("tests/integration/every_key/files/scenario.toml");
    let name = place.to_str().expect("a path in UTF-8");
    let changes = case.changes(value);
    let changes = changes.iter().map(|change| change.parse::<Override>());
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    ScenarioFile::parse(name, case.base(value))?.resolve(&changes)
}

/// What a case shows of a value.
fn shown(case: &Case, value: &str) -> Result<f64, String> {
    let scenario = resolve(case, value).map_err(|problems| problems.to_string())?;
    case.row.quantity.of(&scenario)
}

/// What is wrong with a case, if anything is.
fn check(case: &Case) -> Result<(), String> {
    let [from, to] = &case.row.values;
    let before = shown(case, from).map_err(|problem| format!("{from}: {problem}"))?;
    if let Expected::Refused(words) = &case.row.expected {
        return match resolve(case, to) {
            Ok(_) => Err(format!("{to} is not refused")),
            Err(problems) if problems.to_string().contains(words) => Ok(()),
            Err(problems) => Err(format!("{to} is refused otherwise: {problems}")),
        };
    }
    let after = shown(case, to).map_err(|problem| format!("{to}: {problem}"))?;
    match case.row.expected.holds(before, after) {
        true => Ok(()),
        false => Err(format!("{before} with {from}, {after} with {to}")),
    }
}

/// Keys, as overrides take them, with a value that an answer was seen to respond to; several of some.
pub(crate) fn examples() -> Vec<(String, String)> {
    let keys = keys::of_schema();
    let mut found = Vec::new();
    for area in AREAS {
        for row in &Table::read(area).rows {
            // What is refused is the second value.
            let tried = match row.expected {
                Expected::Refused(_) => &row.values[..1],
                Expected::Falls
                | Expected::Rises
                | Expected::Same
                | Expected::Differs
                | Expected::Times(_) => &row.values[..],
            };
            let value = tried.iter().rev().find(|value| *value != "-" && !value.contains('$'));
            let fits = value.is_some();
            for key in keys.iter().filter(|key| fits && row.matches(key).is_some()) {
                found.push((key.path.clone(), value.cloned().unwrap_or_default()));
            }
        }
    }
    found
}

/// Every row of an area holds.
fn every_row_of(area: &str) {
    let keys = keys::of_schema();
    let mut wrong = Vec::new();
    for row in &Table::read(area).rows {
        for case in row.cases(&keys) {
            if let Err(what) = check(&case) {
                wrong.push(format!("{area}: {row}\n    {}: {what}", case.key));
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// A test of each table.
macro_rules! areas {
    ($($area:ident)*) => {
        const AREAS: &[&str] = &[$(stringify!($area)),*];

        $(#[test]
        fn $area() {
            every_row_of(stringify!($area));
        })*
    };
}

areas! { cluster dataset loader model parallel recovery run storage sync }

#[test]
#[should_panic(expected = "line 3: no row: | job.batch")]
fn a_line_of_a_table_that_is_no_row_is_refused() {
    // System: a row without the marks of code around its key. Expectation: it is not left out in silence.
    Table::parse("| key | scenario |\n|---|---|\n| job.batch | ranks |\n");
}

#[test]
fn what_moves_does_so_by_a_thousandth() {
    // System: an answer of 1 and what a key makes of it. Expectation: a millionth is no fall, no rise, and not the same;
    // a hundredth is a fall or a rise, the right way only.
    let holds =
        |after| [Expected::Falls, Expected::Same, Expected::Rises].map(|of| of.holds(1.0, after));
    assert_eq!([1.0 - 1e-6, 1.0 + 1e-6].map(holds), [[false; 3]; 2]);
    assert_eq!(
        [0.99, 1.0, 1.01].map(holds),
        [[true, false, false], [false, true, false], [false, false, true]]
    );
    assert!(Expected::Rises.holds(0.0, 1.0) && Expected::Same.holds(0.0, 0.0));
}

#[test]
fn there_is_a_row_for_each_key_and_a_key_for_each_row() {
    // System: the keys of the schema, and the tables. Expectation: each key moves something in some row, unless it is
    // said why not; each row is of some key; rows are in the order of the alphabet, so that they merge.
    let keys = keys::of_schema();
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for area in AREAS {
        let rows = Table::read(area).rows;
        for pair in rows.windows(2).filter(|pair| pair[0].key > pair[1].key) {
            wrong.push(format!("{area}: `{}` comes after `{}`", pair[1].key, pair[0].key));
        }
        for row in &rows {
            let there: Vec<&Key> = keys.iter().filter(|key| row.matches(key).is_some()).collect();
            if there.is_empty() {
                wrong.push(format!("{area}: no key of the schema is `{}`", row.key));
            }
            if row.expected != Expected::Same {
                seen.extend(there.into_iter().map(|key| key.class.as_str()));
            }
            if row.needs_a_reason() && row.why.is_empty() {
                wrong.push(format!("{area}: it is not said why `{}` has no direction", row.key));
            }
        }
    }
    for (key, _) in UNSEEN {
        if !keys.iter().any(|of| of.path == key) || !seen.insert(key) {
            wrong.push(format!("`{key}` is no key without a row"));
        }
    }
    for key in keys.iter().filter(|key| !seen.contains(key.class.as_str())) {
        wrong.push(format!("no row of every_key/*.md moves anything by `{}`", key.path));
    }
    assert!(wrong.is_empty(), "{} problems:\n{}", wrong.len(), wrong.join("\n"));
}
