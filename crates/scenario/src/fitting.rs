//! Changes with which a job fits into GPU memory. Each is tried: the scenario is checked with it, so that only a change that the
//! scenario accepts is offered.

use super::Swap;
use super::document::{Document, NodeId, ROOT};
use super::file::ScenarioFile;
use super::overrides::Override;
use super::problem::Log;
use super::reading::Reading;
use super::value::{Tree, Value};
use std::fmt;

/// Maximum number of changes that a message offers.
const MOST_OFFERED: usize = 6;

/// A job whose model does not fit into GPU memory, and the changes that may help.
#[derive(Debug)]
pub(super) struct TooLarge {
    /// Document node to blame.
    pub(super) at: NodeId,
    /// Document node of the job's table.
    pub(super) job: NodeId,
    /// The problem, in words.
    pub(super) what: String,
    /// Smaller batches, the largest first.
    pub(super) batches: Vec<Remedy>,
    /// Other kinds of changes. The first change of each kind that helps is offered.
    pub(super) kinds: Vec<Vec<Remedy>>,
    /// The smallest batch.
    pub(super) least_batch: Remedy,
    /// Memory that a GPU needs [B].
    pub(super) needed: f64,
}

/// New values of keys of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remedy(Vec<(&'static str, Value)>);

impl Remedy {
    /// Creates a change of one key.
    pub(super) fn new(key: &'static str, value: Value) -> Self {
        Self(vec![(key, value)])
    }

    /// Returns this change together with another one.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// Returns this change together with an empty table at `key`.
    pub(super) fn and_table(&self, key: &'static str) -> Self {
        self.and(&Self::new(key, Value(Tree::Table(Vec::new()))))
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<String> =
            self.0.iter().map(|(key, value)| format!("`{key} = {value}`")).collect();
        f.write_str(&each.join(" and "))
    }
}

/// Writes a size as reports do: in GB, MB or kB.
pub(super) fn size(bytes: f64) -> String {
    match bytes {
        1e9.. => format!("{:.1} GB", bytes / 1e9),
        1e6.. => format!("{:.0} MB", bytes / 1e6),
        _ => format!("{:.0} kB", bytes / 1e3),
    }
}

impl ScenarioFile {
    /// Returns which changes make a job fit into GPU memory, in words; the scenario has `problems` other problems.
    pub(super) fn remedy(
        &self,
        job: &TooLarge,
        (document, overrides): (&Document, &[Override]),
        reading: Reading<'_>,
        problems: usize,
    ) -> String {
        let fits = |change: &Remedy| {
            let all = [overrides, &overrides_of(document, job.job, change)].concat();
            self.memory_of(job.job, &all, reading, problems)
        };
        let offer =
            |change: &Remedy| fits(change).map(|held| format!("{change} (then {})", size(held)));
        let batch = job.batches.iter().find_map(offer);
        let none = if batch.is_none() { "no smaller batch fits; " } else { "" };
        let kinds = || job.kinds.iter().filter_map(|kind| kind.iter().find_map(offer));
        let alone: Vec<String> = batch.into_iter().chain(kinds()).take(MOST_OFFERED).collect();
        let found = if alone.is_empty() { pair(job, &offer) } else { alone };
        let memory = format!("GPUs with {} (`cluster.node.gpu_memory`)", size(job.needed));
        match found.as_slice() {
            [] => format!(
                "{none}no other change that was tried is enough by itself or with another: take {memory}"
            ),
            found => format!("{none}write {}, or take {memory}", found.join(", or ")),
        }
    }

    /// Returns the GPU memory that the job at document node `job` needs with these overrides [B]; `None` if it does not fit, or
    /// if the scenario has more than `most` problems.
    fn memory_of(
        &self,
        job: NodeId,
        overrides: &[Override],
        reading: Reading<'_>,
        most: usize,
    ) -> Option<f64> {
        let (document, log) = (self.changed(overrides), Log::default());
        let scenario = self.examine((&document, overrides), reading, &log);
        let large = log.take_too_large();
        let fits = log.number() <= most && large.iter().all(|other| other.job != job);
        let jobs = document.member(ROOT, "job")?;
        let index = document.children(jobs).iter().position(|child| *child == job)?;
        let scenario = scenario.filter(|_| fits)?;
        let job = scenario.jobs.get(index)?;
        let swaps = job.parallelism.iter().flat_map(|of| &of.swap);
        let outside = swaps.map(Swap::total).fold(0.0, f64::max);
        job.footprint().map(|held| held.total() - outside)
    }
}

/// Returns the first two pairs of changes of different kinds that help together, in words.
fn pair(job: &TooLarge, offer: &dyn Fn(&Remedy) -> Option<String>) -> Vec<String> {
    let kinds = job.kinds.iter().filter_map(|kind| kind.last());
    let last: Vec<&Remedy> = std::iter::once(&job.least_batch).chain(kinds).collect();
    let both = last.iter().enumerate().flat_map(|(i, a)| last[i + 1..].iter().map(|b| a.and(b)));
    both.filter_map(|both| offer(&both)).take(2).collect()
}

/// Returns the overrides that make a change of the job at document node `job`.
fn overrides_of(document: &Document, job: NodeId, change: &Remedy) -> Vec<Override> {
    let table = document.path(job);
    let each = change.0.iter();
    each.map(|(key, value)| Override::new(format!("{table}.{key}"), value.clone())).collect()
}
