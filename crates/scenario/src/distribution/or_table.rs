//! Settings whose value is either a single time or a table.

use super::settings::Varying;
use crate::reader::{FORM, Form};
use forebay_model::units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A table of settings that may be replaced by a single time.
pub(crate) trait Table: JsonSchema {
    /// Keys of the table.
    const KEYS: &'static [&'static str];
    /// Description of the setting in the JSON schema.
    const WHAT: &'static str;
}

/// A single time, or a table that has this time as one of its keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TimeOr<T> {
    Time(Varying<Time>),
    Table(T),
}

impl<'de, T: Table + Deserialize<'de>> Deserialize<'de> for TimeOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm<T>(PhantomData<T>);

        impl<'de, T: Table + Deserialize<'de>> Visitor<'de> for EitherForm<T> {
            type Value = TimeOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a time or a table with the keys {}", T::KEYS.join(", "))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TimeOr<T>, A::Error> {
                let form = seq.next_element::<u64>()?;
                let missing = || A::Error::invalid_length(1, &self);
                if form == Some(Form::Keys as u64) {
                    return seq.next_element()?.map(TimeOr::Table).ok_or_else(missing);
                }
                seq.next_element()?.map(TimeOr::Time).ok_or_else(missing)
            }
        }

        deserializer.deserialize_struct(FORM, T::KEYS, EitherForm(PhantomData))
    }
}

impl<T: Table> JsonSchema for TimeOr<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("TimeOr{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Varying<Time>>();
        let table = generator.subschema_for::<T>();
        json_schema!({ "description": T::WHAT, "anyOf": [time, table] })
    }
}
