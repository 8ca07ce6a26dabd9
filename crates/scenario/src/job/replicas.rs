//! Settings of `replicas`: on which of a job's nodes the files of its data set lie, where not every node has all of
//! them.

use super::rules::Rules;
use super::settings::{Around, JobSettings};
use super::{Job, Share, Split};
use crate::Dataset;
use forebay_model::random::Replicas;

impl Job {
    /// Returns which nodes hold which files of the data set; `None` if every node holds all files.
    #[must_use]
    pub fn parts(&self) -> Option<Replicas> {
        let (nodes, each) = (u64::from(self.nodes), u64::from(self.replicas?));
        (each < nodes).then_some(Replicas { nodes, each })
    }

    /// Returns whether each node has only a part of the files that its loaders read.
    #[must_use]
    pub fn reads_parts(&self) -> bool {
        self.parts().is_some()
    }

    /// Returns the bytes of the data set on the node that holds the largest part of it [B].
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sizes are estimates")]
    pub(crate) fn resident(&self, dataset: &Dataset) -> f64 {
        let all = dataset.samples as f64 * dataset.mean_size();
        let files = dataset.files().max(1);
        let of = self.parts().unwrap_or(Replicas::EVERYWHERE);
        // Files are dealt to nodes in rounds. Of the last, incomplete round, the fullest node holds up to `each` files.
        let most = files / of.nodes * of.each + (files % of.nodes).min(of.each);
        all * (most as f64 / files as f64)
    }
}

impl JobSettings {
    /// Returns the number of nodes that hold each file: the number that `replicas` sets, or 1 if each node copies only
    /// its part; `None` otherwise.
    pub(super) fn replicas(&self, around: Around<'_>) -> Option<u32> {
        let copy = self.copy.get();
        let shared = copy.and_then(|copy| copy.to.get()).is_some_and(|to| {
            let of = around.storage_names.iter().position(|name| name == to);
            let storage = of.and_then(|index| around.storage.get(index)?.as_ref());
            storage.is_some_and(|storage| storage.path.is_remote())
        });
        let part = copy.is_some_and(|copy| copy.share.get() == Some(&Share::Part)) && !shared;
        self.replicas.get().map(|replicas| replicas.small()).or(part.then_some(1))
    }
}

impl Rules<'_> {
    /// Checks that `replicas` is set only for storage inside the nodes and is at most the number of nodes, and that
    /// `sampler = "local"` can share the files out evenly.
    pub(super) fn check_replicas(&self, job: &Job) {
        if let Some((at, replicas)) = self.settings.replicas.given() {
            let storage = self.around.storage.get(job.reads_from()).and_then(Option::as_ref);
            let all = job.staging.as_ref().is_some_and(|of| of.share == Share::All && !of.shared);
            if let Some(storage) = storage.filter(|storage| storage.path.is_remote()) {
                let what = format!(
                    "{:?} is shared by all nodes, so its files have no replicas",
                    storage.name
                );
                self.check.wrong(
                    at,
                    what,
                    "name a `local-disk` as the storage, or remove `replicas`",
                );
            } else if all {
                let what = "each node copies the whole data set, so every node has every file";
                self.check.wrong(
                    at,
                    what,
                    "write `share = \"part\"` in `copy`, or remove `replicas`",
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
            let what = "every node has every file, so all reads are local";
            let remedy = "write `replicas = 1` (nodes that hold each file), or another `sampler`";
            self.check.wrong(at, what, remedy);
        } else if !job.copies_each.is_empty() {
            let what = "nodes with more model copies would read more than their own files";
            let remedy =
                "write the same `copies_per_node` for all nodes, or `sampler = \"strided\"`";
            self.check.wrong(at, what, remedy);
        }
    }
}
