//! Checks that overrides set only keys that are read.

use super::document::{Document, Kind, NodeId, ROOT};
use super::file::ScenarioFile;
use super::names::choose;
use super::problem::Log;
use super::value::Override;

/// Top-level keys of a scenario.
const TOP: [&str; 8] =
    ["name", "profile", "run", "cluster", "storage", "dataset", "job", "background"];

impl ScenarioFile {
    /// Refuses overrides that nothing reads: overrides of `sweep`, which is read from the file only, and overrides of a
    /// storage or data set that is not in the file and that nothing in the scenario names.
    pub(super) fn check_overrides(&self, document: &Document, overrides: &[Override], log: &Log) {
        for change in overrides {
            match change.path() {
                [table, rest @ ..] if table == "sweep" => {
                    let at = deepest(document, change.path());
                    let remedy = match rest {
                        [] => "write the values in the file's `[sweep]`, or `forebay sweep --vary \"KEY=[VALUES]\"`".to_owned(),
                        [key, ..] => {
                            let first = key.split('.').next().unwrap_or_default();
                            format!(
                                "write the values in the file's `[sweep]` or `forebay sweep --vary \"KEY=[VALUES]\"`, or one value with `--set KEY=VALUE`: {}",
                                choose(first, &TOP)
                            )
                        }
                    };
                    log.key(at, "no command reads `sweep` from `--set`", remedy);
                }
                [table, name, _, ..] if table == "storage" || table == "dataset" => {
                    self.check_new(document, (table, name), change, log);
                }
                _ => {}
            }
        }
    }

    /// Refuses an override that would create the entry `name` of `table` if nothing in the scenario names it.
    fn check_new(
        &self,
        document: &Document,
        (table, name): (&str, &str),
        change: &Override,
        log: &Log,
    ) {
        let known = self.document.member(ROOT, table);
        let known = known.map_or(&[][..], |known| self.document.children(known));
        let known: Vec<&str> =
            known.iter().map(|&id| self.document.node(id).key.as_str()).collect();
        if known.is_empty() || known.contains(&name) || names(document, ROOT, name) {
            return;
        }
        let what = format!("nothing reads a {table} named {name:?}");
        log.key(deepest(document, change.path()), what, choose(name, &known));
    }
}

/// Returns the deepest document node on `path` that exists.
fn deepest(document: &Document, path: &[String]) -> NodeId {
    let mut at = ROOT;
    for key in path {
        match document.member(at, key) {
            Some(member) => at = member,
            None => break,
        }
    }
    at
}

/// Returns whether `name` is a text at document node `at` or below it.
fn names(document: &Document, at: NodeId, name: &str) -> bool {
    match &document.node(at).kind {
        Kind::Text(text) => text == name,
        _ => document.children(at).iter().any(|&child| names(document, child, name)),
    }
}
