//! Checks that overrides set only keys that are read.

use super::document::{Document, Kind, NodeId, ROOT};
use super::file::ScenarioFile;
use super::names::choose;
use super::overrides::{Edit, Override};
use super::problem::{Log, Problem};
use super::settings::read;
use super::value::Value;

/// Top-level keys of a scenario.
const TOP: [&str; 8] =
    ["name", "profile", "run", "cluster", "storage", "dataset", "job", "background"];

impl ScenarioFile {
    /// Refuses overrides that nothing reads: overrides of `sweep`, which is read from the file only, and overrides of a
    /// storage or data set that is not in the file and that nothing in the scenario names.
    pub(super) fn check_overrides(&self, document: &Document, overrides: &[Override], log: &Log) {
        for (index, change) in overrides.iter().enumerate() {
            match change.path() {
                [table, ..] if table == "sweep" && *change.edit() == Edit::Unset => {
                    let what = "no command reads `sweep` from `--unset`";
                    let remedy = "give the key one value, `forebay sweep --vary \"KEY=[VALUE]\"`, or remove it from the file";
                    log.elsewhere(ROOT, Problem::new(change.to_string(), what, remedy));
                }
                _ if document.removed_nothing().contains(&index) => {
                    self.refuse_removal(change, (document, index), log);
                }
                _ if *change.edit() == Edit::Unset => {}
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

    /// Refuses override number `index`, which removes a key that neither the file nor an override before it sets: the scenario
    /// would be the one without the option, which is not what a user who misspelt a name asked for.
    fn refuse_removal(&self, change: &Override, (document, index): (&Document, usize), log: &Log) {
        let key = change.key();
        let unknown = self.unknown(change, document, index);
        let (what, remedy) = match unknown {
            Some((what, remedy)) => (what, remedy),
            None => {
                let profile = match document.member(ROOT, "profile") {
                    Some(_) => {
                        ", or the profile's value: `--set` gives it another, `--unset profile` leaves the profile out"
                    }
                    None => "",
                };
                (
                    format!("there is nothing to remove: nothing sets `{key}`"),
                    format!("leave the option out: the key has its default already{profile}"),
                )
            }
        };
        log.elsewhere(ROOT, Problem::new(change.to_string(), what, remedy));
    }

    /// Returns what is wrong with a key that no scenario has, and a remedy; `None` if the key is known.
    fn unknown(
        &self,
        change: &Override,
        document: &Document,
        index: usize,
    ) -> Option<(String, String)> {
        if let [table, name, ..] = change.path()
            && (table == "storage" || table == "dataset")
        {
            let known = document.member(ROOT, table).map_or(&[][..], |at| document.children(at));
            let known: Vec<&str> = known.iter().map(|&id| document.node(id).key.as_str()).collect();
            if !known.contains(&name.as_str()) {
                return Some((format!("there is no {table} named {name:?}"), choose(name, &known)));
            }
        }
        // A value at the key shows whether the key is known; that it is wrong for the key does not matter.
        let (mut with_key, tried) = (document.clone(), Log::default());
        with_key.set(change.path(), &Value::from(true), index);
        read(&with_key, &tried);
        let found = tried.into_found().into_iter();
        let mut unknown =
            found.filter(|of| of.on_key && with_key.node(of.at).origin == Some(index));
        unknown.next().map(|of| (of.what, of.remedy))
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
