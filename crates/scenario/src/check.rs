//! What every check of settings needs: the document, to point into, and the log.

use super::assumed::{Assumed, key_in};
use super::distribution::FilesOfValues;
use super::document::{Document, NodeId, ROOT};
use super::field::Field;
use super::names::choose;
use super::problem::Log;
use crate::profile::{Fit, Profile};
use forebay_model::input::unsafe_to_show;
use std::fmt::Display;
use std::path::Path;

/// A check in progress.
#[derive(Clone, Copy)]
pub(super) struct Check<'d> {
    pub(super) document: &'d Document,
    pub(super) log: &'d Log,
    /// Where files that the scenario names are looked up.
    pub(super) directory: &'d Path,
    /// Those files that were read already.
    pub(super) values: &'d FilesOfValues,
    /// What is known of the machine.
    pub(super) profile: Option<&'d Profile>,
    /// What only a simulation needs may be missing.
    pub(super) lenient: bool,
}

impl Check<'_> {
    /// Something is wrong with the value of a node.
    pub(super) fn wrong(self, at: NodeId, what: impl Display, remedy: impl Display) {
        self.log.value(at, what, remedy);
    }

    /// The table of a value's kind, where its missing keys are to be written.
    pub(super) fn inside(self, at: NodeId) -> NodeId {
        self.document.children(at).first().copied().unwrap_or(at)
    }

    /// A key has no effect where it is written.
    pub(super) fn no_effect<T>(self, field: &Field<T>, why: &str) {
        if let Some(at) = field.at {
            self.remark(format!("`{}` has no effect: {why}.", self.document.path(at)));
        }
    }

    /// The key `key` of `table` is not written: `value` stands in its place, by `source`.
    pub(super) fn assume(self, table: NodeId, key: &str, value: &str, source: &str) {
        let key = key_in(self.document, table, key);
        self.log.assume(Assumed { key, value: value.to_owned(), source: source.to_owned() });
    }

    /// The value of a key that `table` must have.
    pub(super) fn required<'f, T>(
        self,
        table: NodeId,
        field: &'f Field<T>,
        key: &str,
        remedy: impl Display,
    ) -> Option<&'f T> {
        if !field.is_written() {
            self.missing(table, key, remedy);
        }
        field.get()
    }

    /// A key of `table` is missing; said only once where it is misspelt.
    fn missing(self, table: NodeId, key: &str, remedy: impl Display) {
        if self.log.suggested(self.document, table, key) {
            return;
        }
        self.log.key(table, format!("the key `{key}` is missing"), remedy);
    }

    /// Neither `table` nor the profile says `key`, of which `part` would have been the profile's:
    /// `None` if that matters.
    pub(super) fn unsaid(self, table: NodeId, key: &str, example: &str, part: &str) -> Option<()> {
        if self.lenient {
            return Some(());
        }
        let what = match self.profile {
            None => format!("the key `{key}` is missing"),
            Some(_) => format!("the key `{key}` is missing, and the profile has no {part}"),
        };
        let remedy = format!("write `{example}`, or name a profile that has {part}");
        if !self.log.suggested(self.document, table, key) {
            self.log.key(table, what, remedy);
        }
        None
    }

    /// A sentence for whoever reads the results.
    pub(super) fn remark(self, sentence: String) {
        self.log.remark(sentence);
    }

    /// A setting that is beyond what a part of the profile was measured at, where the profile says
    /// from where to where that was.
    pub(super) fn in_range(self, part: &str, fit: &Fit, name: &str, setting: &str, value: f64) {
        let Some([low, high]) = fit.range.get(name) else { return };
        // Settings and ranges have been through decimal text.
        if value < low * (1.0 - 1e-6) || value > high * (1.0 + 1e-6) {
            self.remark(format!(
                "`{setting}` is {}, and the profile's {part} was measured from {} to {}: the \
                 prediction extrapolates.",
                number(value),
                number(*low),
                number(*high)
            ));
        }
    }

    /// The one of some alternatives that is written; what was changed by an override wins.
    pub(super) fn one_of(
        self,
        table: NodeId,
        choices: &[(&str, Option<NodeId>)],
        remedy: &str,
    ) -> Option<usize> {
        let written: Vec<_> = choices
            .iter()
            .enumerate()
            .filter_map(|(index, (key, at))| Some((index, *key, (*at)?)))
            .collect();
        let changed = |at: NodeId| self.document.node(at).origin.is_some();
        let overridden: Vec<_> = written.iter().filter(|(.., at)| changed(*at)).collect();
        match (written.as_slice(), overridden.as_slice()) {
            ([(index, ..)], _) | (_, [(index, ..)]) => Some(*index),
            ([], _) => {
                let misspelt = |(key, _): &(&str, _)| self.log.suggested(self.document, table, key);
                if choices.iter().any(misspelt) {
                    return None;
                }
                let keys: Vec<_> = choices.iter().map(|(key, _)| format!("`{key}`")).collect();
                let what = format!("one of the keys {} is missing", keys.join(", "));
                self.log.key(table, what, remedy);
                None
            }
            ([(_, first, _), (_, second, at), ..], _) => {
                let what = format!("`{first}` and `{second}` contradict each other");
                self.log.key(*at, what, "keep one of them");
                None
            }
        }
    }

    /// The first of some nodes that an override changed, or else the first: the one to blame for a
    /// contradiction between them.
    pub(super) fn blame(self, nodes: &[Option<NodeId>], table: NodeId) -> NodeId {
        let written = || nodes.iter().flatten().copied();
        let changed = written().find(|&at| self.document.node(at).origin.is_some());
        changed.or_else(|| written().next()).unwrap_or(table)
    }

    /// A name must be fit to be shown.
    pub(super) fn name(self, at: NodeId, name: &str) {
        const LONGEST: usize = 200;
        if name.trim().is_empty() {
            self.wrong(at, "the name is empty", "write a name");
        } else if name.chars().any(unsafe_to_show) {
            self.wrong(at, "the name holds control characters", "write letters and digits");
        } else if name.chars().nth(LONGEST).is_some() {
            let remedy = format!("write at most {LONGEST} characters");
            self.wrong(at, "the name is too long", remedy);
        }
    }

    /// The node at a path of keys, if it is written.
    pub(super) fn find(self, path: &[&str]) -> Option<NodeId> {
        path.iter().try_fold(ROOT, |table, key| self.document.member(table, key))
    }

    /// The index of what a name refers to.
    pub(super) fn reference(
        self,
        field: &Field<String>,
        what: &str,
        names: &[&str],
    ) -> Option<usize> {
        let (at, name) = field.given()?;
        let index = names.iter().position(|other| other == name);
        if index.is_none() {
            let remedy = if names.is_empty() {
                format!("write `[{what}.{name}…]` first: there is no {what} yet")
            } else {
                choose(name, names)
            };
            self.wrong(at, format!("there is no {what} named {name:?}"), remedy);
        }
        index
    }
}

/// A number to show: as it is, without the noise of the last digits.
fn number(value: f64) -> String {
    let digits = format!("{value:.6e}").parse().unwrap_or(value);
    format!("{digits}")
}
