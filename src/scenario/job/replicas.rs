//! On which of a job's nodes the files of its data set lie, where not every node has all of them.

use super::rules::Rules;
use super::settings::{Around, JobSettings};
use super::{Job, Share, Split};
use crate::scenario::Dataset;

/// Which of a job's nodes have a file: of `n` nodes and `r` replicas, file `f` is on nodes `f`, `f + 1`, …,
/// `f + r − 1`, modulo `n`, so that all hold as many: chained declustering (H.-I. Hsiao and D. DeWitt, ICDE
/// 1990).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// Nodes; at least 1.
    pub nodes: u64,
    /// Nodes that have each file, from 1 to all.
    pub each: u64,
}

impl Replicas {
    /// Every node has every file.
    pub const EVERYWHERE: Replicas = Replicas { nodes: 1, each: 1 };

    /// How many nodes `node` is behind the first one that has `file`.
    fn behind(self, node: u64, file: u64) -> u64 {
        (node % self.nodes + self.nodes - file % self.nodes) % self.nodes
    }

    /// Whether `node` has `file`.
    #[must_use]
    pub fn holds(self, node: u64, file: u64) -> bool {
        self.behind(node, file) < self.each
    }

    /// The node that `node` reads `file` from: itself if it has it, otherwise those that have it in turns.
    #[must_use]
    pub fn source(self, node: u64, file: u64) -> u64 {
        if self.holds(node, file) {
            return node;
        }
        let turn = (node + file / self.nodes) % self.each;
        (file % self.nodes + turn) % self.nodes
    }

    /// The first file from `file` on that `node` has.
    #[must_use]
    pub fn next_held(self, node: u64, file: u64) -> u64 {
        let behind = self.behind(node, file);
        if behind < self.each { file } else { file + (behind + 1 - self.each) }
    }

    /// How many of the first `files` files `node` has.
    #[must_use]
    pub fn held(self, node: u64, files: u64) -> u64 {
        let (node, rest) = (node % self.nodes, files % self.nodes);
        let last = (node + 1).min(rest);
        let before = last.saturating_sub((node + 1).saturating_sub(self.each));
        // Those that begin among the last nodes and go on at the first.
        let wrapped = self.each.saturating_sub(node + 1);
        let behind = rest.saturating_sub(self.nodes - wrapped);
        files / self.nodes * self.each + before + behind
    }
}

impl Job {
    /// Who has what of the data set, where not every node has all.
    #[must_use]
    pub fn parts(&self) -> Option<Replicas> {
        let (nodes, each) = (u64::from(self.nodes), u64::from(self.replicas?));
        (each < nodes).then_some(Replicas { nodes, each })
    }

    /// Whether each node has only a part of what its loaders read.
    #[must_use]
    pub fn reads_parts(&self) -> bool {
        self.parts().is_some()
    }

    /// Bytes of the data set that each node has, of those that hold most [B].
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sizes are estimates")]
    pub(in crate::scenario) fn resident(&self, dataset: &Dataset) -> f64 {
        let all = dataset.samples as f64 * dataset.mean_size();
        let files = dataset.files().max(1);
        let of = self.parts().unwrap_or(Replicas::EVERYWHERE);
        // Of the files behind the last whole round the node has most that the first ones all reach.
        let most = files / of.nodes * of.each + (files % of.nodes).min(of.each);
        all * (most as f64 / files as f64)
    }
}

impl JobSettings {
    /// Nodes that have each file, where not all have all: as written, or one where each node copies its part.
    pub(super) fn replicas(&self, around: Around<'_>) -> Option<u32> {
        let stage = self.stage.get();
        let shared = stage.and_then(|stage| stage.to.get()).is_some_and(|to| {
            let of = around.storage_names.iter().position(|name| name == to);
            let storage = of.and_then(|index| around.storage.get(index)?.as_ref());
            storage.is_some_and(|storage| storage.kind.is_remote())
        });
        let part = stage.is_some_and(|stage| stage.share.get() == Some(&Share::Part)) && !shared;
        self.replicas.get().map(|replicas| replicas.small()).or(part.then_some(1))
    }
}

impl Rules<'_> {
    /// What lies on some nodes only is on their own storage, on as many as there are; and what is read where
    /// it lies is shared out evenly.
    pub(super) fn check_replicas(&self, job: &Job) {
        if let Some((at, replicas)) = self.settings.replicas.given() {
            let storage = self.around.storage.get(job.reads_from()).and_then(Option::as_ref);
            let all = job.staging.as_ref().is_some_and(|of| of.share == Share::All && !of.shared);
            if let Some(storage) = storage.filter(|storage| storage.kind.is_remote()) {
                let what =
                    format!("{:?} is not in the nodes, and all of them share it", storage.name);
                self.check.wrong(at, what, "name a `local-disk`, or remove `replicas`");
            } else if all {
                let what = "each node copies all of the data set";
                self.check.wrong(
                    at,
                    what,
                    "write `share = \"part\"` in `stage`, or remove `replicas`",
                );
            } else if replicas.small() > job.nodes {
                let what =
                    format!("a file cannot be on {} of {} nodes", replicas.small(), job.nodes);
                self.check.wrong(at, what, format!("write a number from 1 to {}", job.nodes));
            } else if replicas.small() == job.nodes && !self.check.lenient {
                let path = self.check.document.path(at);
                self.check.remark(format!("`{path}` has no effect: every node has every file."));
            }
        }
        self.check_local(job);
    }

    fn check_local(&self, job: &Job) {
        let Some(at) = self.settings.sampler.at.filter(|_| job.split == Split::Local) else {
            return;
        };
        if !job.reads_parts() {
            let what = "every node has every file, so that all reads are alike";
            let remedy = "write on how many nodes each lies, `replicas = 1`, or another `sampler`";
            self.check.wrong(at, what, remedy);
        } else if !job.copies_each.is_empty() {
            let what = "nodes with more model copies read more than lies on them";
            let remedy = "write as many `copies_per_node` on all nodes, or `sampler = \"strided\"`";
            self.check.wrong(at, what, remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Replicas> {
        (1..9).flat_map(|nodes| (1..=nodes).map(move |each| Replicas { nodes, each }))
    }

    #[test]
    fn each_file_is_on_as_many_nodes_and_each_node_reads_it_from_one_that_has_it() {
        for of in all() {
            for file in 0..50 {
                let holders = (0..of.nodes).filter(|node| of.holds(*node, file)).count();
                assert_eq!(holders as u64, of.each, "{of:?}");
                for node in 0..of.nodes {
                    let source = of.source(node, file);
                    assert!(of.holds(source, file), "{of:?}");
                    assert!(source == node || !of.holds(node, file), "{of:?}");
                }
            }
        }
    }

    #[test]
    fn what_a_node_has_is_what_is_counted() {
        for of in all() {
            for (node, files) in (0..of.nodes).flat_map(|node| (0..30).map(move |f| (node, f))) {
                let held: Vec<u64> = (0..files).filter(|file| of.holds(node, *file)).collect();
                assert_eq!(of.held(node, files), held.len() as u64, "{of:?} {node} {files}");
                let (mut found, mut next) = (Vec::new(), of.next_held(node, 0));
                while next < files {
                    found.push(next);
                    next = of.next_held(node, next + 1);
                }
                assert_eq!(found, held, "{of:?} {node}");
            }
        }
    }

    #[test]
    fn those_that_have_a_file_give_it_to_others_in_turns() {
        // Expectation: of files on the same nodes each node reads as many from each of these, so that none
        // is asked more than others.
        for of in all() {
            for (node, file) in (0..of.nodes).flat_map(|node| (0..of.nodes).map(move |f| (node, f)))
            {
                let from = (0..3 * of.each).map(|i| of.source(node, file + of.nodes * i));
                let mut asked = vec![0; of.nodes as usize];
                from.for_each(|source| asked[source as usize] += 1);
                let expected = if of.holds(node, file) { 3 * of.each } else { 3 };
                assert!(asked.iter().all(|n| *n == 0 || *n == expected), "{of:?}: {asked:?}");
            }
        }
    }
}
