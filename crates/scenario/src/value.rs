//! Values that replace the file's values and have no position in the file: `--set` and `[sweep]` provide them.

use super::document::quoted;
use serde::{Serialize, Serializer};
use std::fmt;

/// A TOML value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Text(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Date(String),
    List(Vec<Tree>),
    Table(Vec<(String, Tree)>),
}

/// A TOML value; displayed in TOML syntax.
#[derive(Debug, Clone, PartialEq)]
pub struct Value(pub(super) Tree);

impl Value {
    /// Returns the value as a number: numbers as they are, quantities in SI units.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match &self.0 {
            #[expect(clippy::cast_precision_loss, reason = "the nearest double is what is asked")]
            Tree::Integer(value) => Some(*value as f64),
            Tree::Float(value) => Some(*value),
            Tree::Text(text) => forebay_model::units::si(text),
            _ => None,
        }
    }

    /// Returns the text without quotes, if the value is a text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value as people read it: a text without quotes, everything else in TOML.
    #[must_use]
    pub fn plain(&self) -> String {
        self.as_str().map_or_else(|| self.to_string(), str::to_owned)
    }

    /// Returns the elements, if the value is a list.
    #[must_use]
    pub fn elements(&self) -> Option<Vec<Value>> {
        match &self.0 {
            Tree::List(elements) => Some(elements.iter().cloned().map(Value).collect()),
            _ => None,
        }
    }

    /// Returns whether the value is a string, or an array or table that has a string in it.
    #[must_use]
    pub fn holds_text(&self) -> bool {
        self.0.holds_text()
    }

    /// Returns the value in TOML as users write it: keys of tables have quotes only where TOML needs them.
    #[must_use]
    pub fn as_written(&self) -> String {
        self.0.as_written()
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.0
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self(Tree::Integer(value.into()))
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self(Tree::Integer(value.into()))
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self(Tree::Integer(value.into()))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self(Tree::Float(value))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self(Tree::Boolean(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self(Tree::Text(value.to_owned()))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Tree {
    fn holds_text(&self) -> bool {
        match self {
            Self::Text(_) => true,
            Self::List(elements) => elements.iter().any(Self::holds_text),
            Self::Table(members) => members.iter().any(|(_, value)| value.holds_text()),
            Self::Integer(_) | Self::Float(_) | Self::Boolean(_) | Self::Date(_) => false,
        }
    }

    fn as_written(&self) -> String {
        match self {
            Self::List(elements) => {
                let texts: Vec<_> = elements.iter().map(Self::as_written).collect();
                format!("[{}]", texts.join(", "))
            }
            Self::Table(members) if members.is_empty() => "{}".to_owned(),
            Self::Table(members) => {
                let member = |(key, value): &(String, Tree)| {
                    format!("{} = {}", quoted(key), value.as_written())
                };
                format!("{{ {} }}", members.iter().map(member).collect::<Vec<_>>().join(", "))
            }
            Self::Text(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Boolean(_)
            | Self::Date(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write_text(f, text),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) if value.is_nan() => f.write_str("nan"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Date(text) => f.write_str(text),
            Self::List(elements) => {
                let texts: Vec<_> = elements.iter().map(Self::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            Self::Table(members) => {
                let texts: Vec<_> = members
                    .iter()
                    .map(|(key, value)| format!("{} = {value}", in_quotes(key)))
                    .collect();
                write!(f, "{{ {} }}", texts.join(", "))
            }
        }
    }
}

/// Returns `text` as a TOML basic string: quoted and escaped.
fn in_quotes(text: &str) -> String {
    Tree::Text(text.to_owned()).to_string()
}

/// Writes `text` as a TOML basic string: quoted and escaped.
fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) | Self::Date(text) => serializer.serialize_str(text),
            Self::Integer(value) => match i64::try_from(*value) {
                Ok(value) => serializer.serialize_i64(value),
                Err(_) => serializer.serialize_str(&value.to_string()),
            },
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::List(elements) => serializer.collect_seq(elements),
            Self::Table(members) => serializer.collect_map(members.iter().map(|(k, v)| (k, v))),
        }
    }
}

/// A line of `[sweep]`: the values that a key takes in turn, or that several keys take together.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Dotted keys, as [`super::Override`] takes them; not empty.
    pub keys: Vec<String>,
    /// Values of the keys, one for each, in the order of the file; not empty.
    pub values: Vec<Vec<Value>>,
    /// All must hold for the keys to be swept; empty: always.
    pub when: Vec<Condition>,
}

/// A condition of an axis: a key of an axis before it has one of these values.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Index of the other axis.
    pub axis: usize,
    /// Position of the key in that axis.
    pub place: usize,
    /// The values with which the condition holds.
    pub values: Vec<Value>,
}
