//! Recognises what an input is.

use super::{comparison, decision, run};
use crate::commands::Failure;
use crate::commands::compare::Compared;
use crate::commands::planned::Planned;
use crate::input::{FileKind, printable_line};
use crate::metric;
use crate::plot::Table;
use crate::profile::Profile;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// A result.
pub(super) enum Kind {
    Run(Value),
    Plan(Box<Planned>, Value),
    Comparison(Compared, Value),
    Validation(Value),
    Rows(Table),
    Profile(Box<Profile>),
}

/// What `report` reads, for the end of a refusal.
const REMEDY: &str = "give what `run`, `plan`, `compare` or `validate` wrote with `--format json`, rows of `sweep` as CSV or JSON, or a \
                      profile";

/// Recognises what kind of result a text is, and reads it.
pub(super) fn of(name: &str, text: &str) -> Result<Kind, Failure> {
    let text = text.trim_start_matches('\u{feff}');
    let begin = text.trim_start();
    match FileKind::of(text) {
        Some(FileKind::Profile) => {
            let profile = Profile::parse(name, text);
            let profile = profile.map_err(|error| Failure::Input(error.to_string()))?;
            Ok(Kind::Profile(Box::new(profile)))
        }
        Some(FileKind::Scenario) => {
            let what = "it is a scenario, not a result";
            let remedy = "run it: `forebay run SCENARIO --format json --output FILE`";
            Err(Failure::Input(format!("cannot use {name}: {what}; {remedy}")))
        }
        _ if begin.is_empty() => Err(refused(name, "the file is empty", text)),
        _ if begin.starts_with(['{', '[']) => json(name, text),
        _ => rows(name, text),
    }
}

fn refused(name: &str, what: &str, text: &str) -> Failure {
    let hint = match FileKind::of(text) {
        None | Some(FileKind::Json) => String::new(),
        Some(other) => format!("; {}", other.hint()),
    };
    Failure::Input(format!("cannot use {name}: {what}; {REMEDY}{hint}"))
}

fn json(name: &str, text: &str) -> Result<Kind, Failure> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| refused(name, &format!("not whole JSON: {error}"), text))?;
    let has = |key: &str, is: fn(&Value) -> bool| value.get(key).is_some_and(is);
    let named = |key: &str| {
        let all = value.get(key).and_then(Value::as_array);
        all.is_some_and(|all| all.iter().all(|of| of.get("name").is_some_and(Value::is_string)))
    };
    let damaged = |what: &str, why: String| {
        refused(name, &format!("it is no whole {what}: {}", printable_line(&why)), text)
    };
    if named("jobs") && has("scenario", Value::is_string) {
        run::check(&value).map_err(|why| damaged("report", why))?;
        return Ok(Kind::Run(value));
    }
    if has("goals", Value::is_array) && has("rows", Value::is_array) {
        let plan = decision::read(&value).map_err(|why| damaged("plan", why))?;
        return Ok(Kind::Plan(Box::new(plan), value));
    }
    if named("compared") {
        let found = comparison::read(&value).map_err(|why| damaged("comparison", why))?;
        return Ok(Kind::Comparison(found, value));
    }
    if named("points") && has("verdict", |of| of.is_object() || of.is_null()) {
        return Ok(Kind::Validation(value));
    }
    match value.as_array() {
        Some(all) if all.is_empty() => Err(refused(name, "there are no rows in it", text)),
        Some(all) if all.iter().all(|of| of.get("job").is_some_and(Value::is_string)) => {
            checked(name, of_objects(name, text)?, text)
        }
        _ => Err(refused(name, "it is no result of forebay", text)),
    }
}

/// An object whose keys keep the order in which they are written: that of swept keys is that of the grid.
struct Object(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a row")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object, M::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object(entries))
            }
        }
        from.deserialize_map(Entries)
    }
}

/// Returns rows as a table, whose columns are the keys of the first row.
fn of_objects(name: &str, text: &str) -> Result<Table, Failure> {
    let rows: Vec<Object> =
        serde_json::from_str(text).map_err(|error| unreadable(name, &error.to_string()))?;
    let first = rows.first().map_or(&[][..], |row| &row.0);
    let columns: Vec<String> = first.iter().map(|(key, _)| key.clone()).collect();
    let cell = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let row = |Object(row): &Object| {
        let found =
            |column: &String| row.iter().find(|(key, _)| key == column).map(|(_, value)| value);
        columns.iter().map(|column| cell(found(column))).collect()
    };
    let cells: Vec<Vec<String>> = rows.iter().map(row).collect();
    Table::new(columns, cells).map_err(|error| unreadable(name, &error.to_string()))
}

fn unreadable(name: &str, why: &str) -> Failure {
    Failure::Input(format!("cannot read {name}: {why}"))
}

fn rows(name: &str, text: &str) -> Result<Kind, Failure> {
    // A foreign file of any kind is CSV for a lenient parser, so the header decides before the rows are read.
    let header = text.lines().next().unwrap_or_default();
    let is_rows = header.split(',').any(|column| column.trim_matches('"') == "job");
    if !is_rows {
        return Err(refused(name, "it is no result of forebay", text));
    }
    let table =
        Table::read(text.as_bytes()).map_err(|error| unreadable(name, &error.to_string()))?;
    checked(name, table, text)
}

/// Returns rows if they are those of a sweep.
fn checked(name: &str, table: Table, text: &str) -> Result<Kind, Failure> {
    let figures = table.columns().iter().filter_map(|column| metric::of_column(column));
    if figures.filter(|metric| metric.is_swept()).count() == 0 {
        let what = "its rows have no figure of a sweep, such as `samples_per_second`";
        return Err(refused(name, what, text));
    }
    match table.is_empty() {
        true => Err(refused(name, "there are no rows in it", text)),
        false => Ok(Kind::Rows(table)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_json_and_tables_are_refused_with_what_is_read_instead() {
        for text in [
            "{}",
            "[]",
            "[1]",
            "{\"jobs\": 3}",
            "a,b\n1,2\n",
            "hello",
            "",
            "job,x\na,1\n",
            "{\"jobs\": [",
        ] {
            let Err(Failure::Input(message)) = of("x", text) else { panic!("{text}") };
            assert!(
                message.starts_with("cannot use x: ") && message.contains("`run`"),
                "{message}"
            );
        }
        assert!(matches!(of("x", "job,step_time\na,1\n"), Ok(Kind::Rows(_))));
    }
}
