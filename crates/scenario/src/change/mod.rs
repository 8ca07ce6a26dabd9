//! Changes to amounts of a scenario, as the options `--set` and `--unset` that make them.
//!
//! A lever is a row: where its key stands ([`Part`]s), the amount that the scenario has there (a function that returns an
//! [`Amount`]), and what may be done with it (a list of [`Change`]s). This module does the rest: it finds the places in the file
//! ([`Editor::keys`]), writes the override of each ([`Editor::changes`]), and finds the largest step that the scenario accepts
//! ([`ScenarioFile::largest`]). The file is then resolved again with these overrides, so that presets, defaults and checks
//! apply as to any file, and what is printed ([`Override::pasted`]) is what was tried.
//!
//! Where a key stands is found in the file with the overrides so far. A key that the file writes is changed as it is written, in its
//! own unit and form: a distribution stays one. A key that the file leaves out is written with the amount that the caller gives, in
//! the key's usual unit: so a value that a profile, a preset or a data sheet gives is overridden like any other default, since what
//! stands in the file goes before them all. It cannot be removed, because it is not in the file.
//!
//! # Example
//!
//! ```
//! use forebay_scenario::ScenarioFile;
//! use forebay_scenario::change::{At, Change, Part, storage_name};
//!
//! # let text = r#"
//! # name = "x"
//! # cluster = { nodes = 1, node = { gpus = 1, cores = 16 } }
//! # storage.nfs.file-server = { bandwidth = "25 GB/s" }
//! # dataset.images = { samples = 100, sample_size = "10 kB" }
//! # [[job]]
//! # name = "a"
//! # dataset = "images"
//! # storage = "nfs"
//! # batch = 4
//! # loader.pytorch.workers = 8
//! # model.step = "10 ms"
//! # "#;
//! let file = ScenarioFile::parse("mine.toml", text.to_owned())?;
//! let (scenario, editor) = (file.resolve(&[])?, file.editor(&[]));
//! let bandwidth =
//!     [Part::Key("storage"), Part::Name(storage_name), Part::Kind(None), Part::Key("bandwidth")];
//! let keys = editor.keys(&bandwidth, (&scenario, At::default()));
//! let twice = editor.changes(&keys, &Change::Times(2.0), None).expect("an amount");
//! assert_eq!(twice[0].pasted(), "--set 'storage.nfs.file-server.bandwidth=50 GB/s'");
//! # Ok::<(), forebay_scenario::Problems>(())
//! ```

mod amount;
mod largest;
mod movable;
mod places;
mod scale;
#[cfg(test)]
mod tests;

pub use amount::{Amount, AmountUnit};
pub use movable::Movable;
pub use places::{At, Part, job_name, storage_kind, storage_name};

use crate::document::{Document, Kind, NodeId};
use crate::dotted::split_key;
use crate::file::ScenarioFile;
use crate::overrides::Override;
use crate::value::Value;
use std::borrow::Cow;

/// What is done with the value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The value becomes this many times as large, a distribution in all its quantiles.
    Times(f64),
    /// The key gets this value, in the text that `--set` takes: `each`, `true`, `[1, 2]`.
    Set(Cow<'static, str>),
    /// The key is removed.
    Unset,
}

/// Keys that stand for a table which has only them: `launch = "2 ms"` is `launch.work = "2 ms"`.
const STAND_FOR_TABLE: [&str; 4] = ["constant", "every", "fixed", "work"];

/// A scenario file with overrides, in which keys are looked up and changed.
#[derive(Debug, Clone)]
pub struct Editor {
    document: Document,
}

impl ScenarioFile {
    /// Returns the file with these overrides, to look up keys and to write changes.
    #[must_use]
    pub fn editor(&self, overrides: &[Override]) -> Editor {
        Editor { document: self.changed(overrides) }
    }
}

impl Editor {
    /// Returns the value at a dotted key in TOML; `None` if the file leaves the key out, or if the key is in several places.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<Value> {
        self.written(key).map(|(_, id)| Value(self.document.tree(id)))
    }

    /// Returns the overrides that make a change at each of these keys; `amount` is what the scenario has at a key that the file leaves
    /// out. `None` if one of the keys cannot be changed so: its value is no amount, it has this value already, or there is nothing to
    /// remove.
    #[must_use]
    pub fn changes(
        &self,
        keys: &[String],
        change: &Change,
        amount: Option<Amount>,
    ) -> Option<Vec<Override>> {
        let mut all: Vec<Override> =
            keys.iter().map(|key| self.change(key, change, amount)).collect::<Option<_>>()?;
        if *change == Change::Unset {
            // Elements without names are counted: those behind a removed one move up.
            all.reverse();
        }
        (!all.is_empty()).then_some(all)
    }

    /// Returns the override that makes a change at one key; see [`Editor::changes`].
    #[must_use]
    pub fn change(&self, key: &str, change: &Change, amount: Option<Amount>) -> Option<Override> {
        let written = self.written(key);
        match change {
            Change::Unset => written.map(|(key, _)| Override::unset(key)),
            Change::Set(text) => {
                let change: Override = format!("{key}={text}").parse().ok()?;
                let value = change.value().map(|value| &value.0);
                let same = written.is_some_and(|(_, id)| Some(&self.document.tree(id)) == value);
                (!same).then_some(change)
            }
            Change::Times(factor) => match written {
                Some((key, id)) => {
                    let scaled = scale::scaled(&self.document.tree(id), *factor)?;
                    Some(Override::new(key, Value(scaled)))
                }
                None if self.document.find(&split_key(key)?).is_empty() => {
                    Some(Override::new(key, amount?.times(*factor)?))
                }
                None => None,
            },
        }
    }

    /// Returns the key and the node at a dotted key. Where a single value stands for the table around the key, these are the key and the
    /// node of the table. `None` if nothing or several values are there.
    fn written(&self, key: &str) -> Option<(String, NodeId)> {
        let (path, document) = (split_key(key)?, &self.document);
        if let [id] = document.find(&path)[..] {
            return Some((key.to_owned(), id));
        }
        let (last, table) = path.split_last()?;
        let [id] = document.find(table)[..] else { return None };
        let stands_for =
            !matches!(document.node(id).kind, Kind::Table(_) | Kind::List(_) | Kind::Boolean(_));
        let is_table = STAND_FOR_TABLE.contains(&last.as_str()) && stands_for;
        is_table.then(|| (document.path(id), id))
    }
}
