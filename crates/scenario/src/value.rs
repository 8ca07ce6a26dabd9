//! Values that replace the file's values and have no position in the file: `--set` and `[sweep]` provide them.

use super::file;
use super::problem::{Problem, Problems};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

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

    pub(super) fn tree(&self) -> &Tree {
        &self.0
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
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
                let texts: Vec<_> =
                    members.iter().map(|(key, value)| format!("{key:?} = {value}")).collect();
                write!(f, "{{ {} }}", texts.join(", "))
            }
        }
    }
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

/// Command-line option that replaces the value of a key.
const SET: &str = "--set";
/// Command-line option that gives a key several values in turn.
const VARY: &str = "--vary";

/// One value in place of the file's: `--set key=value`; or a list of values to sweep: `--vary key=[1, 2]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// Command-line option that the override comes from.
    option: &'static str,
    /// Dotted key, as written.
    key: String,
    /// Parts of the key.
    path: Vec<String>,
    value: Value,
}

impl Override {
    /// Creates an override that puts `value` at `key`: `job.batch` (in every `[[job]]`), `job.lenet.batch` (in the job of that
    /// name), `job.0.batch` (in the first). A key that is not a dotted key is reported as unknown when it is used.
    #[must_use]
    pub fn new(key: impl Into<String>, value: Value) -> Self {
        let key = key.into();
        let path = split_key(&key).unwrap_or_else(|| vec![key.clone()]);
        Self { option: SET, key, path, value }
    }

    /// Reads the values of an axis of a sweep, from `key=[1, 2]`.
    ///
    /// # Errors
    /// If the text is not a dotted key, `=` and a value in TOML syntax.
    pub fn varied(text: &str) -> Result<Self, Problems> {
        Self::parse(VARY, text)
    }

    /// Returns the dotted key, as written.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the value to put at the key.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    pub(super) fn path(&self) -> &[String] {
        &self.path
    }

    /// Returns an override of the dotted key `key` with the value of this one.
    pub(super) fn at(&self, key: String) -> Self {
        Self { option: self.option, ..Self::new(key, self.value.clone()) }
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}={}", self.option, self.key, self.value)
    }
}

impl FromStr for Override {
    type Err = Problems;

    /// Reads `key=value`, with the value in TOML syntax; a bare word or quantity is taken as text.
    fn from_str(text: &str) -> Result<Self, Problems> {
        Self::parse(SET, text)
    }
}

impl Override {
    fn parse(option: &'static str, text: &str) -> Result<Self, Problems> {
        let place = format!("{option} {text}");
        let Some((key, value)) = text.split_once('=') else {
            let what = format!("`{text}` has no `=`");
            return Err(Problem::new(place, what, format!("write `{option} key=value`")).into());
        };
        let value = value.trim();
        let value = match file::parse_value(value) {
            Ok(tree) => tree,
            Err(what) if value.is_empty() || value.starts_with(['[', '{', '"', '\'']) => {
                let remedy = "write the value as in a scenario file: 8, 1.5, \"3 ms\", [1, 2]";
                return Err(Problem::new(place, what, remedy).into());
            }
            Err(_) => Tree::Text(value.to_owned()),
        };
        split_key(key)
            .map(|path| Self { option, key: key.trim().to_owned(), path, value: Value(value) })
            .ok_or_else(|| bad_key(place))
    }
}

fn bad_key(place: String) -> Problems {
    let what = "there is no dotted key before `=`";
    let remedy = "write names with dots between: `job.loader.tf-queue.threads`; quote a name that \
                  holds a dot";
    Problem::new(place, what, remedy).into()
}

/// Returns the parts of a dotted key, quoted or bare; `None` if `key` is not a dotted key.
pub(super) fn split_key(key: &str) -> Option<Vec<String>> {
    const MOST_PARTS: usize = 80;
    let mut parts = Vec::new();
    let mut rest = key.trim();
    loop {
        let (part, after) = match rest.chars().next()? {
            quote @ ('"' | '\'') => {
                let inside = &rest[1..];
                let end = inside.find(quote)?;
                (inside[..end].to_owned(), inside[end + 1..].trim_start())
            }
            _ => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim_end().to_owned(), &rest[end..])
            }
        };
        let plain = !part.is_empty() && !part.contains(['=', '"', '\'', '[', ']']);
        if !plain || parts.len() == MOST_PARTS {
            return None;
        }
        parts.push(part);
        match after.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None => return after.is_empty().then_some(parts),
        }
    }
}

/// A line of `[sweep]`: the values that a key takes in turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Dotted key, as [`Override`] takes it.
    pub key: String,
    /// Values of the key, in the order of the file; not empty.
    pub values: Vec<Value>,
}
