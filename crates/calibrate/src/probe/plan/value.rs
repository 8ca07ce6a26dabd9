//! Types of the values of a plan. Values are checked when they are parsed, so that every value of these types
//! is valid.

use forebay_model::units::{self, Quantity, Size, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A time, from 1 µs to a day [s].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Seconds(pub f64);

/// A size, from 1 B to 1 PB [B].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Bytes(pub u64);

/// A whole number from 1 to 65536.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "i64")]
pub struct Count(pub usize);

/// A share, from 0 to 1 000 000; a limit far above 1 has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(pub f64);

/// One or more different values.
#[derive(Debug, Clone, PartialEq)]
pub struct List<T>(pub Vec<T>);

/// One table, or an array of several different tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables<T>(pub Vec<T>);

impl Seconds {
    /// Returns the time as a [`Duration`].
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Seconds, String> {
        let time: Quantity<Time> = text.parse().map_err(|e| format!("`{text}`: {e}"))?;
        let range = 1e-6..=86400.0;
        let inside = range.contains(&time.si()).then_some(Seconds(time.si()));
        inside.ok_or_else(|| format!("`{text}`: write a time from 1 us to 1 d"))
    }
}

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Bytes, String> {
        let size: Quantity<Size> = text.parse().map_err(|e| format!("`{text}`: {e}"))?;
        let inside = (1.0..=1e15).contains(&size.si()).then_some(Bytes(size.si() as u64));
        inside.ok_or_else(|| format!("`{text}`: write a size from 1 B to 1 PB"))
    }
}

impl TryFrom<i64> for Count {
    type Error = String;

    fn try_from(value: i64) -> Result<Count, String> {
        let count = usize::try_from(value).ok().filter(|count| (1..=65536).contains(count));
        count.map(Count).ok_or_else(|| format!("{value}: write a whole number from 1 to 65536"))
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(value: f64) -> Result<Share, String> {
        let fine = (0.0..=1e6).contains(&value).then_some(Share(value));
        fine.ok_or_else(|| format!("{value}: write a share, such as 0.05"))
    }
}

/// Largest number of values in a list.
const MOST: usize = 256;

impl<'de, T: Deserialize<'de> + PartialEq> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<T>, D::Error> {
        let values = Vec::<T>::deserialize(deserializer)?;
        let double = (1..values.len()).any(|i| values[..i].contains(&values[i]));
        if values.is_empty() || values.len() > MOST || double {
            let message = format!("write a list of 1 to {MOST} different values");
            return Err(de::Error::custom(message));
        }
        Ok(List(values))
    }
}

impl<'de, T: Deserialize<'de> + PartialEq> Deserialize<'de> for Tables<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tables<T>, D::Error> {
        // An untagged enum would hide which key of the table is wrong.
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + PartialEq> de::Visitor<'de> for Either<T> {
            type Value = Tables<T>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a table or an array of tables")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Tables<T>, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(|one| Tables(vec![one]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, array: A) -> Result<Tables<T>, A::Error> {
                let List(tables) = List::deserialize(de::value::SeqAccessDeserializer::new(array))?;
                Ok(Tables(tables))
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<T> List<T> {
    /// Iterates over the values, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Implements [`JsonSchema`] for a type of plan values: the schema says which values are valid.
macro_rules! schema {
    ($kind:ident, $schema:expr) => {
        impl JsonSchema for $kind {
            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

schema!(Seconds, units::schema::<Time>());
schema!(Bytes, units::schema::<Size>());
schema!(Count, json_schema!({ "type": "integer", "minimum": 1, "maximum": 65536 }));
schema!(Share, json_schema!({ "type": "number", "minimum": 0, "maximum": 1e6 }));

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ListOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        json_schema!({ "type": "array", "minItems": 1, "maxItems": MOST, "uniqueItems": true, "items": items })
    }
}

impl<T: JsonSchema> JsonSchema for Tables<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("TablesOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, List::<T>::json_schema(generator)] })
    }
}
