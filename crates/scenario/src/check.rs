//! Context that every check of settings needs: the parsed document, the log of problems, and the profile.

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

/// Context of the checks of one scenario.
#[derive(Clone, Copy)]
pub(super) struct Check<'d> {
    pub(super) document: &'d Document,
    pub(super) log: &'d Log,
    /// Directory in which files that the scenario names are looked up.
    pub(super) directory: &'d Path,
    /// Cache of the values in files that scenarios name for empirical distributions.
    pub(super) values: &'d FilesOfValues,
    /// Profile of the machine, if any.
    pub(super) profile: Option<&'d Profile>,
    /// Whether keys that only a simulation needs may be missing, as in live runs.
    pub(super) lenient: bool,
}

impl Check<'_> {
    /// Records a problem with the value of a document node: what is wrong, and a remedy.
    pub(super) fn wrong(self, at: NodeId, what: impl Display, remedy: impl Display) {
        self.log.value(at, what, remedy);
    }

    /// Returns the document node of the inner table of a value such as `{ lognormal = { … } }`. If keys of the inner table are
    /// missing, they are reported at this node.
    pub(super) fn inside(self, at: NodeId) -> NodeId {
        self.document.children(at).first().copied().unwrap_or(at)
    }

    /// Remarks that the key at document node `at` has no effect; `None` if the file does not set the key.
    pub(super) fn no_effect(self, at: Option<NodeId>, why: &str) {
        if let Some(at) = at {
            self.remark(format!("`{}` has no effect: {why}.", self.document.path(at)));
        }
    }

    /// Records that the key `key` of `table` is not set, and that the default `value` from `source` is used.
    pub(super) fn assume(self, table: NodeId, key: &str, value: &str, source: &str) {
        let key = key_in(self.document, table, key);
        self.log.assume(Assumed { key, value: value.to_owned(), source: source.to_owned() });
    }

    /// Returns the value of a key that `table` must have; records a problem if the key is missing.
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

    /// Records that a key of `table` is missing, unless it was already reported as misspelt.
    fn missing(self, table: NodeId, key: &str, remedy: impl Display) {
        if self.log.suggested(self.document, table, key) {
            return;
        }
        self.log.key(table, format!("the key `{key}` is missing"), remedy);
    }

    /// Reports that neither `table` nor the profile gives `key`, and returns `None`; `part` is the part of the profile that could
    /// have given the value. If keys may be missing, reports nothing and returns `Some`.
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

    /// Records a note for readers of the results: a default that may differ from what they expect.
    pub(super) fn note(self, text: String) {
        self.log.note(text);
    }

    /// Records a remark for readers of the results: one sentence.
    pub(super) fn remark(self, sentence: String) {
        self.log.remark(sentence);
    }

    /// Remarks that a setting lies beyond the range in which a part of the profile was measured, if the profile gives that range.
    pub(super) fn in_range(self, part: &str, fit: &Fit, name: &str, setting: &str, value: f64) {
        let Some([low, high]) = fit.range.get(name) else { return };
        // Settings and ranges were written as decimal text, which rounds them.
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

    /// Returns the index of the only alternative that is set or, if several are set, of the only one that an override sets.
    /// Otherwise reports a problem and returns `None`.
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

    /// Returns the document node at which to report that several settings contradict each other: the first that an override
    /// changed, otherwise the first that is set, otherwise `table`.
    pub(super) fn blame(self, nodes: &[Option<NodeId>], table: NodeId) -> NodeId {
        let written = || nodes.iter().flatten().copied();
        let changed = written().find(|&at| self.document.node(at).origin.is_some());
        changed.or_else(|| written().next()).unwrap_or(table)
    }

    /// Checks that a name can be shown: it is not empty, not too long, and without control characters.
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

    /// Returns the document node at a path of keys; `None` if the file does not set this key.
    pub(super) fn find(self, path: &[&str]) -> Option<NodeId> {
        path.iter().try_fold(ROOT, |table, key| self.document.member(table, key))
    }

    /// Returns the index of the entry that a name refers to; records a problem if there is none.
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

/// Writes a number without the rounding noise of its last digits.
fn number(value: f64) -> String {
    let digits = format!("{value:.6e}").parse().unwrap_or(value);
    format!("{digits}")
}
