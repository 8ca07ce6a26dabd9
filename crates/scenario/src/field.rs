//! Fields of settings: each remembers its position in the file, and lets the reader go on after a mistake.

use super::document::NodeId;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Newtype name by which the deserialisation of a field asks the reader for the document node in addition to the
/// value.
pub(super) const FIELD: &str = "$forebay::Field";

/// A key that may be missing or have a wrong value. The reader records a wrong value and reads the rest of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field<T> {
    /// Document node of the key; `None` if the key is missing.
    pub(super) at: Option<NodeId>,
    /// Value of the key; `None` if the key is missing or its value is invalid.
    pub(super) value: Option<T>,
}

impl<T> Default for Field<T> {
    fn default() -> Self {
        Self { at: None, value: None }
    }
}

impl<T> Field<T> {
    /// Returns the value; `None` if the key is missing or its value is invalid.
    pub(super) fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Returns the key's document node and its value; `None` if the key is missing or its value is invalid.
    pub(super) fn given(&self) -> Option<(NodeId, &T)> {
        Some((self.at?, self.value.as_ref()?))
    }

    /// Returns this field if its key is set, otherwise `other`.
    pub(super) fn or(&self, other: &Self) -> Self
    where
        T: Clone,
    {
        if self.is_written() { self.clone() } else { other.clone() }
    }

    /// Returns whether the key is set, even to an invalid value.
    pub(super) fn is_written(&self) -> bool {
        self.at.is_some()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Maybe<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Maybe<T> {
            type Value = Field<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_none<E: Error>(self) -> Result<Field<T>, E> {
                Ok(Field::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Field<T>, D::Error> {
                d.deserialize_newtype_struct(FIELD, self)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Field<T>, A::Error> {
                let at = seq.next_element::<u64>()?.and_then(|at| usize::try_from(at).ok());
                // The reader has recorded what is wrong.
                let value = seq.next_element::<T>().unwrap_or(None);
                Ok(Field { at, value })
            }
        }

        deserializer.deserialize_option(Maybe(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Field<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }

    fn _schemars_private_non_optional_json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }

    fn _schemars_private_is_option() -> bool {
        true
    }
}

/// An array in which single elements may be invalid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct List<T>(pub(super) Vec<Field<T>>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element()? {
                    elements.push(element);
                }
                Ok(List(elements))
            }
        }

        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

/// Tables under names that the user chooses, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named<T>(pub(super) Vec<(String, Field<T>)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Named(members))
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::collections::BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        std::collections::BTreeMap::<String, T>::json_schema(generator)
    }
}
