//! The whole key that was probably meant by an incomplete key of an override: `storage.nfs.bandwidth` for
//! `storage.nfs.file-server.bandwidth`.

use super::document::{Document, Kind, NodeId, ROOT, quoted};
use super::dotted::split_key;
use super::file::ScenarioFile;
use super::overrides::{Edit, Override};
use super::problem::{Log, Problem, Problems, Source};
use super::reading::Reading;

/// Maximum number of tables of the file in which the last part of an incomplete key is tried.
const MOST_TRIED: usize = 50;
/// Maximum number of complete keys that the help of an error suggests.
const MOST_NAMED: usize = 3;

impl ScenarioFile {
    /// Returns `problems` with one problem for each override whose key is incomplete, which names the whole keys that were probably
    /// meant: keys in the file's tables that contain the parts of the incomplete key in their order, and that the scenario accepts
    /// with the override's value.
    pub(super) fn with_whole_keys(
        &self,
        problems: Problems,
        overrides: &[Override],
        reading: Reading<'_>,
    ) -> Problems {
        let mut all: Vec<Problem> = problems.iter().cloned().collect();
        let document = self.changed(overrides);
        for (index, change) in overrides.iter().enumerate() {
            // A key that was removed was whole.
            if *change.edit() == Edit::Unset && !document.removed_nothing().contains(&index) {
                continue;
            }
            let source = shown(change);
            let Some(first) = all.iter().position(|problem| problem.file == source) else {
                continue;
            };
            let keys = self.whole_keys(overrides, index, reading);
            if keys.is_empty() {
                continue;
            }
            let mut told = all[first].clone();
            told.remedy = format!("write the whole key: {}", keys.join(" or "));
            all.retain(|problem| problem.file != source);
            all.insert(first, told);
        }
        Problems::new(all).unwrap_or(problems)
    }

    /// Returns the whole keys for which override number `index` probably stands.
    fn whole_keys(
        &self,
        overrides: &[Override],
        index: usize,
        reading: Reading<'_>,
    ) -> Vec<String> {
        let change = &overrides[index];
        let [above @ .., last] = change.path() else { return Vec::new() };
        let candidates = tables(&self.document).into_iter().filter_map(|table| {
            let table = self.document.path(table);
            let path = split_key(&table)?;
            let longer = path.len() > above.len() && is_part(above, &path);
            longer.then(|| change.at(format!("{table}.{}", quoted(last))))
        });
        let whole = candidates.take(MOST_TRIED);
        let accepted = whole.filter(|whole| {
            let mut all = overrides.to_vec();
            all[index] = whole.clone();
            self.reads(&all, index, reading)
        });
        accepted.take(MOST_NAMED).map(|whole| format!("`{}`", whole.key())).collect()
    }

    /// Returns whether the scenario with these overrides has no problem with override number `index`.
    fn reads(&self, overrides: &[Override], index: usize, reading: Reading<'_>) -> bool {
        let of_override = shown(&overrides[index]);
        self.problems(overrides, reading).iter().all(|problem| problem.file != of_override)
    }

    /// Returns the problems of the scenario with these overrides.
    pub(super) fn problems(&self, overrides: &[Override], reading: Reading<'_>) -> Vec<Problem> {
        let document = self.changed(overrides);
        let log = Log::default();
        self.examine((&document, overrides), reading, &log);
        // Models that do not fit into GPU memory are recorded apart from other problems, until it is known what helps.
        for job in log.take_too_large() {
            log.value(job.at, &job.what, "");
        }
        let source = Source { file: &self.name, text: &self.text, document: &document, overrides };
        log.into_problems(&source).iter().flatten().cloned().collect()
    }

    /// Returns `problems` with each problem of the file that goes with an `--unset` under the name of this option: what is wrong
    /// then stands in the file, or no longer in it, and the option is what the user has to change.
    pub(super) fn by_removals(
        &self,
        problems: Problems,
        overrides: &[Override],
        reading: Reading<'_>,
    ) -> Problems {
        let mut all: Vec<Problem> = problems.iter().cloned().collect();
        let removals = overrides.iter().enumerate().filter(|(_, of)| *of.edit() == Edit::Unset);
        for (index, change) in removals.take(MOST_TRIED) {
            let of_file = |problem: &Problem| problem.file == self.name;
            if !all.iter().any(of_file) {
                break;
            }
            let others = [&overrides[..index], &overrides[index + 1..]].concat();
            let there = self.problems(&others, reading);
            let stays = |problem: &Problem| {
                there.iter().any(|other| (&other.key, &other.what) == (&problem.key, &problem.what))
            };
            for problem in all.iter_mut().filter(|problem| of_file(problem)) {
                if !stays(problem) {
                    let mut told = Problem::new(change.to_string(), &problem.what, &problem.remedy);
                    told.key.clone_from(&problem.key);
                    *problem = told;
                }
            }
        }
        Problems::new(all).unwrap_or(problems)
    }
}

/// Returns how problems name an override.
fn shown(change: &Override) -> String {
    Problem::new(change.to_string(), "", "").file
}

/// Returns whether `parts` are among the parts of `path`, in the same order.
fn is_part(parts: &[String], path: &[String]) -> bool {
    let mut rest = path.iter();
    parts.iter().all(|part| rest.any(|other| other == part))
}

/// Returns the nodes of all tables below the root. `[sweep]` is left out: its keys are whole keys themselves.
fn tables(document: &Document) -> Vec<NodeId> {
    let mut found = Vec::new();
    let mut open: Vec<NodeId> = document.children(ROOT).to_vec();
    open.retain(|&id| !["plan", "sweep"].contains(&&*document.node(id).key));
    while let Some(id) = open.pop() {
        if matches!(document.node(id).kind, Kind::Table(_)) {
            found.push(id);
        }
        open.extend(document.children(id));
    }
    found.sort_unstable();
    found
}
