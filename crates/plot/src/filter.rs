//! Filters: which rows a recipe draws.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// Columns, with the values that a row may have in each.
pub(super) type Filter = BTreeMap<Spanned<String>, AcceptedValues>;

/// The values that a filter accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptedValues(Vec<String>);

impl AcceptedValues {
    /// Returns whether a cell's text is an accepted value. Numbers are compared by value, however they are written.
    pub(super) fn holds(&self, cell: &str) -> bool {
        let same = |wanted: &String| {
            let numbers = (wanted.parse::<f64>(), cell.parse::<f64>());
            wanted == cell || matches!(numbers, (Ok(a), Ok(b)) if a == b)
        };
        self.0.iter().any(same)
    }
}

impl JsonSchema for AcceptedValues {
    fn schema_name() -> Cow<'static, str> {
        "AcceptedValues".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json_schema!({ "type": ["string", "number", "boolean"] });
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

impl fmt::Display for AcceptedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" or "))
    }
}

impl<'de> Deserialize<'de> for AcceptedValues {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<AcceptedValues, D::Error> {
        let values = match toml::Value::deserialize(from)? {
            toml::Value::Array(values) => values,
            value => vec![value],
        };
        let text = |value| match value {
            toml::Value::String(text) => text,
            value => value.to_string(),
        };
        Ok(AcceptedValues(values.into_iter().map(text).collect()))
    }
}
