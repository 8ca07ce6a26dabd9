//! Every key of a scenario changes a result in the right direction: one row of a table for each key of the
//! schema.
//!
//! The tables are Markdown files beside this file, one for each area: small scenarios, and rows that change one
//! key of a scenario. `table` describes the format, `keys` lists the keys, `quantity` the quantities.

mod keys;
mod quantity;
mod table;

use std::collections::BTreeSet;

use forebay::scenario::{Override, Problems, Scenario, ScenarioFile};

use super::runs::repository;
use keys::Key;
use quantity::Quantity;
use table::{Case, Expected, Table};

/// Keys without a row, with the reason.
const UNSEEN: [(&str, &str); 12] = [
    ("background.name", "a label"),
    ("job.loader.stages.name", "a label"),
    ("job.name", "a label"),
    ("name", "a label"),
    ("plan.among", "of `forebay plan`: `plan`"),
    ("plan.best", "of `forebay plan`: `plan`"),
    ("plan.for.NAME", "of `forebay plan`: `plan`"),
    ("plan.goal", "of `forebay plan`: `plan`"),
    ("plan.max", "of `forebay plan`: `plan`"),
    ("plan.min", "of `forebay plan`: `plan`"),
    ("plan.option.NAME", "of `forebay plan`: `plan`"),
    ("sweep.NAME", "of `forebay sweep`: `sweep`"),
];

/// Resolves the scenario of a case with this value of its key.
fn resolve(case: &Case, value: &str) -> Result<Scenario, Problems> {
    // Relative paths in scenarios refer to the folder `files`.
    let place = repository("tests/integration/every_key/files/scenario.toml");
    let name = place.to_str().expect("a path in UTF-8");
    let changes = case.changes(value);
    let changes = changes.iter().map(|change| change.parse::<Override>());
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    ScenarioFile::parse(name, case.base(value))?.resolve(&changes)
}

/// Returns the case's quantity with this value of its key.
fn shown(case: &Case, value: &str) -> Result<f64, String> {
    let scenario = resolve(case, value).map_err(|problems| problems.to_string())?;
    case.row.quantity.of(&scenario)
}

/// Returns an error if the case's expectation does not hold.
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

/// Returns keys as overrides take them, each with a value to which a result responds; some keys occur with
/// several values.
pub(crate) fn examples() -> Vec<(String, String)> {
    let keys = keys::of_schema();
    let mut found = Vec::new();
    for area in AREAS {
        for row in &Table::read(area).rows {
            // In a row that expects a refusal, the second value is the refused one.
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

/// Checks that every row of an area holds.
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

/// Defines a test for each table.
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
fn a_malformed_row_in_the_table_of_scenario_keys_is_refused() {
    // System: a row without code marks around its key. Expectation: it is refused, not skipped.
    Table::parse("| key | scenario |\n|---|---|\n| job.batch | ranks |\n");
}

#[test]
fn metric_comparison_counts_a_tiny_change_as_neither_rise_nor_fall() {
    // System: a quantity of 1 before a change, and other values after it. Expectation: a change by a millionth
    // is neither a fall nor a rise nor equality; a change by a hundredth is a fall or a rise, in one direction
    // only.
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
fn every_schema_key_has_a_table_row_and_every_table_row_names_a_schema_key() {
    // System: the keys of the schema, and the tables. Expectation: each key changes a quantity in some row,
    // unless `UNSEEN` gives a reason; each row has a key; rows are in alphabetical order, so that changes
    // merge.
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
