//! Overrides: the changes to keys that `--set`, `--unset` and `--vary` make.

use super::dotted::{dotted_key, dotted_keys, split_key};
use super::file;
use super::problem::{Problem, Problems};
use super::value::{Tree, Value};
use forebay_model::input::shell_word;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error};
use std::fmt;
use std::str::FromStr;

/// Command-line option that replaces the value of a key.
const SET: &str = "--set";
/// Command-line option that removes a key.
const UNSET: &str = "--unset";
/// Command-line option that gives a key several values in turn.
const VARY: &str = "--vary";
/// Command-line option of `forebay plan` that gives a key several values, for each of which there is an answer.
const FOR: &str = "--for";

/// One change to the file: another value of a key (`--set key=value`), a key removed (`--unset key`), or a list of values to sweep
/// (`--vary key=[1, 2]`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "OverrideText")]
pub struct Override {
    /// Command-line option that the override comes from.
    option: &'static str,
    /// Dotted key, as written.
    key: String,
    /// Parts of the key.
    path: Vec<String>,
    edit: Edit,
}

/// What an override does with its key.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Edit {
    /// Puts the value at the key.
    Set(Value),
    /// Removes the key.
    Unset,
}

/// An override as its option takes it, before it is parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverrideText {
    /// `key=value` of `--set`.
    Set(String),
    /// `key` of `--unset`.
    Unset(String),
}

impl OverrideText {
    /// Parses the text.
    ///
    /// # Errors
    /// If the key is not a dotted key, or if `=` and a value in TOML syntax are missing.
    pub fn parse(&self) -> Result<Override, Problems> {
        match self {
            Self::Set(text) => text.parse(),
            Self::Unset(text) => Override::parse_unset(text),
        }
    }
}

impl Override {
    /// Creates an override that puts `value` at `key`: `job.batch` (in every `[[job]]`), `job.lenet.batch` (in the job of that
    /// name), `job.0.batch` (in the first). A key that is not a dotted key is reported as unknown when it is used.
    #[must_use]
    pub fn new(key: impl Into<String>, value: Value) -> Self {
        Self::made(SET, key.into(), Edit::Set(value))
    }

    /// Creates an override that removes `key`, which names keys and elements of lists as that of [`Override::new`] does.
    #[must_use]
    pub fn unset(key: impl Into<String>) -> Self {
        Self::made(UNSET, key.into(), Edit::Unset)
    }

    fn made(option: &'static str, key: String, edit: Edit) -> Self {
        let path = split_key(&key).unwrap_or_else(|| vec![key.clone()]);
        Self { option, key, path, edit }
    }

    /// Reads a line of a sweep, from `key=[1, 2]`, or from `key, other=[[1, 2], [3, 4]]` for keys that change together.
    ///
    /// # Errors
    /// If the text is not a dotted key, `=` and a value in TOML syntax.
    pub fn varied(text: &str) -> Result<Self, Problems> {
        Self::parse(VARY, text)
    }

    /// Reads the same text as [`Override::varied`] from the option `--for` of `forebay plan`.
    ///
    /// # Errors
    /// As [`Override::varied`].
    pub fn row(text: &str) -> Result<Self, Problems> {
        Self::parse(FOR, text)
    }

    /// Reads the key that `--unset` removes.
    ///
    /// # Errors
    /// If the text is not a dotted key.
    pub fn parse_unset(text: &str) -> Result<Self, Problems> {
        let place = format!("{UNSET} {text}");
        if let Some(path) = split_key(text) {
            return Ok(Self {
                option: UNSET,
                key: text.trim().to_owned(),
                path,
                edit: Edit::Unset,
            });
        }
        match dotted_key(text) {
            Some((_, rest)) if rest.starts_with('=') => {
                let what = "`--unset` takes a key without a value";
                let remedy = format!("write `{UNSET} KEY`, or `{SET} KEY=VALUE` for another value");
                Err(Problem::new(place, what, remedy).into())
            }
            _ => Err(bad_key(place, "this is no dotted key")),
        }
    }

    /// Returns the dotted key, as written.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the value to put at the key; `None` if the key is removed.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match &self.edit {
            Edit::Set(value) => Some(value),
            Edit::Unset => None,
        }
    }

    /// Returns the option and its argument as a shell takes them, with the value as short as `--set` accepts it:
    /// `--set 'storage.nfs.file-server.bandwidth=50 GB/s'`.
    #[must_use]
    pub fn pasted(&self) -> String {
        match &self.edit {
            Edit::Set(value) => {
                let value = bare(value).map_or_else(|| value.as_written(), str::to_owned);
                format!("{} {}", self.option, shell_word(&format!("{}={value}", self.key)))
            }
            Edit::Unset => format!("{} {}", self.option, shell_word(&self.key)),
        }
    }

    pub(super) fn path(&self) -> &[String] {
        &self.path
    }

    pub(super) fn edit(&self) -> &Edit {
        &self.edit
    }

    /// Returns an override of the dotted key `key` that does what this one does.
    pub(super) fn at(&self, key: String) -> Self {
        Self::made(self.option, key, self.edit.clone())
    }

    fn parse(option: &'static str, text: &str) -> Result<Self, Problems> {
        let (place, text) = (format!("{option} {text}"), text.trim());
        // Only a sweep changes several keys together.
        let found = match option {
            VARY | FOR => dotted_keys(text).map(|(keys, rest)| (keys.concat(), rest)),
            _ => dotted_key(text),
        };
        let (path, rest) = match found {
            Some((path, rest)) if !rest.is_empty() => (path, rest),
            None if text.contains('=') => {
                return Err(bad_key(place, "there is no dotted key before `=`"));
            }
            Some(_) | None => {
                let what = format!("`{text}` has no `=`");
                let remedy = format!("write `{option} key=value`");
                return Err(Problem::new(place, what, remedy).into());
            }
        };
        let (key, value) = (text[..text.len() - rest.len()].trim().to_owned(), &rest[1..]);
        let value = value.trim();
        let value = match file::parse_value(value) {
            Ok(tree) => tree,
            Err(what) if value.is_empty() || begins_as_toml(value) => {
                let remedy = "write the value as in a scenario file: 8, 1.5, \"3 ms\", [1, 2]";
                return Err(Problem::new(place, what, remedy).into());
            }
            Err(_) => Tree::Text(value.to_owned()),
        };
        Ok(Self { option, key, path, edit: Edit::Set(Value(value)) })
    }
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.edit {
            Edit::Set(value) => write!(f, "{} {}={value}", self.option, self.key),
            Edit::Unset => write!(f, "{} {}", self.option, self.key),
        }
    }
}

impl FromStr for Override {
    type Err = Problems;

    /// Reads `key=value`, with the value in TOML syntax; a bare word or quantity is taken as text.
    fn from_str(text: &str) -> Result<Self, Problems> {
        Self::parse(SET, text)
    }
}

impl From<Override> for OverrideText {
    fn from(of: Override) -> Self {
        match of.edit {
            Edit::Set(value) => Self::Set(format!("{}={value}", of.key)),
            Edit::Unset => Self::Unset(of.key),
        }
    }
}

impl<'de> Deserialize<'de> for Override {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        OverrideText::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

fn bad_key(place: String, what: &str) -> Problems {
    let remedy = "write names with dots between: `job.loader.tf-queue.threads`; quote a name that \
                  holds a dot";
    Problem::new(place, what, remedy).into()
}

/// Returns whether a value begins as a text, list or table of TOML, so that it is no bare word.
fn begins_as_toml(value: &str) -> bool {
    value.starts_with(['[', '{', '"', '\''])
}

/// Returns a text value without quotes, if `--set` reads it as the same text without them.
fn bare(value: &Value) -> Option<&str> {
    let text = value.as_str()?;
    let plain = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
    (plain && !begins_as_toml(text) && file::parse_value(text).is_err()).then_some(text)
}
