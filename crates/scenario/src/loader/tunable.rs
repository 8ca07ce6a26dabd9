//! A number, or `"auto"`: tuned while the job runs.

use crate::number::Count;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A number from 1 to `MOST`, or `"auto"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Tunable<const MOST: u64> {
    Number(u64),
    Auto,
}

impl<'de, const MOST: u64> Deserialize<'de> for Tunable<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrAuto<const MOST: u64>;

        impl<const MOST: u64> Visitor<'_> for NumberOrAuto<MOST> {
            type Value = Tunable<MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or \"auto\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    "auto" => Ok(Tunable::Auto),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                Count::<1, MOST>::check(value).map(|count| Tunable::Number(count.0))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
                Count::<1, MOST>::check(value).map(|count| Tunable::Number(count.0))
            }
        }

        deserializer.deserialize_any(NumberOrAuto)
    }
}

impl<const MOST: u64> JsonSchema for Tunable<MOST> {
    fn schema_name() -> Cow<'static, str> {
        format!("NumberOrAutoTo{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a number, or \"auto\": tuned while the job runs",
            "anyOf": [{ "type": "integer", "minimum": 1, "maximum": MOST }, { "const": "auto" }],
        })
    }
}
