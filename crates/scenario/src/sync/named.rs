//! Names of algorithms and of libraries that choose them.

use crate::names::choose;
use forebay_collective::{Algorithm, Library};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A choice that a scenario file makes by a name, such as an algorithm.
pub(crate) trait Called: Copy {
    /// Word for the kind of choice, such as `algorithm`.
    const WHAT: &'static str;

    /// Returns the names of all choices.
    fn all() -> Vec<&'static str>;

    /// Returns the choice with this name; `None` if no choice has it.
    fn parse(name: &str) -> Option<Self>;
}

/// A value that a scenario file chooses by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name<T>(pub(super) T);

/// An algorithm that a scenario file chooses; `None` for "auto", where a library chooses.
pub(crate) type AlgorithmName = Name<Option<Algorithm>>;

/// A library that a scenario file chooses.
pub(super) type LibraryName = Name<Library>;

impl Called for Option<Algorithm> {
    const WHAT: &'static str = "algorithm";

    fn all() -> Vec<&'static str> {
        ["auto"].into_iter().chain(Algorithm::ALL.map(Algorithm::name)).collect()
    }

    fn parse(name: &str) -> Option<Self> {
        if name == "auto" { Some(None) } else { Algorithm::parse(name).map(Some) }
    }
}

impl Called for Library {
    const WHAT: &'static str = "library";

    fn all() -> Vec<&'static str> {
        Library::ALL.map(Library::name).to_vec()
    }

    fn parse(name: &str) -> Option<Self> {
        Library::parse(name)
    }
}

impl<'de, T: Called> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOf<T>(PhantomData<T>);

        impl<T: Called> Visitor<'_> for OneOf<T> {
            type Value = Name<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let names: Vec<String> = T::all().iter().map(|name| format!("{name:?}")).collect();
                write!(f, "one of {}", names.join(", "))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Name<T>, E> {
                T::parse(text).map(Name).ok_or_else(|| {
                    let remedy = choose(text, &T::all());
                    E::custom(format!("unknown {} {text:?}\n{remedy}", T::WHAT))
                })
            }
        }

        deserializer.deserialize_str(OneOf(PhantomData))
    }
}

impl<T: Called> JsonSchema for Name<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::WHAT.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": T::all() })
    }
}
