//! Memory that jobs take on their nodes, and the memory that is left for the page cache.

use super::Job;
use super::rules::Rules;
use crate::check::Check;
use crate::document::ROOT;
use crate::fitting::size;
use crate::settings::ScenarioSettings;
use crate::tiers::Parts;
use crate::{Dataset, Node, Scenario, Storage, Unit};
use std::collections::{BTreeMap, BTreeSet};

impl Job {
    /// Returns the memory that the job takes on each node [B]: the workers and full buffers of its loaders, its cache
    /// of decoded samples, and what its GPUs keep in the node's memory. A buffer that grows counts with its size at the
    /// start.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sizes are estimates")]
    pub fn memory(&self, dataset: &Dataset) -> f64 {
        let decoded = dataset.decoded_size.unwrap_or_else(|| dataset.mean_size());
        let stages = &self.loader.stages;
        // Batches on request count once, in the last stage: whatever stage they are in, there are never more of them
        // than were asked for.
        let counted = if self.loader.requests.is_some() { stages.len() - 1 } else { 0 };
        let buffered: f64 = stages[counted..].iter().fold(0.0, |sum, stage| match stage.unit {
            // How far the buffer grows is not known.
            _ if stage.grows => sum + self.batch as f64,
            Unit::Sample => sum + stage.buffer as f64,
            Unit::Batch => sum + stage.buffer as f64 * self.batch as f64,
        });
        let workers: u64 = stages.iter().map(|stage| u64::from(stage.workers)).sum();
        let each = buffered * decoded + workers as f64 * self.worker_memory;
        let kept = self.decoded_cache.map_or(0.0, |cache| cache.capacity);
        each * f64::from(self.loaders_per_node()) + kept + self.swapped()
    }
}

impl Scenario {
    /// Returns the capacity of the page cache of a `node` that runs `job`, beside the files that it holds from the start [B]: the
    /// capacity that the scenario file sets, but at most the memory that is left beside workers, buffers, and data that is kept in
    /// memory as storage. `None` if the node has no page cache.
    #[must_use]
    pub fn page_cache(&self, job: &Job, node: &Node) -> Option<f64> {
        let capacity = node.page_cache.as_ref()?.capacity;
        let warm = match self.cluster.share_nodes {
            true => self.warm(self.jobs.iter()),
            false => self.warm([job]),
        };
        Some((capacity.min(node.memory - self.memory_taken(job)) - warm).max(0.0))
    }

    /// Returns the memory that is taken on each node that runs `job`, page cache apart: by its workers, buffers and data in memory,
    /// and by those of all jobs that share the node [B].
    #[must_use]
    pub fn memory_taken(&self, job: &Job) -> f64 {
        self.taken_on_node(job) + self.caches_in_memory()
    }

    fn taken_on_node(&self, job: &Job) -> f64 {
        if !self.cluster.share_nodes {
            return self.taken(job);
        }
        self.jobs.iter().map(|job| self.taken(job) * f64::from(job.copies)).sum()
    }

    /// Returns the memory that a copy of `job` takes on each node, page cache apart [B].
    fn taken(&self, job: &Job) -> f64 {
        let dataset = &self.datasets[job.dataset];
        let kept = job.reads_data() && self.is_memory(job.reads_from());
        job.memory(dataset) + if kept { job.resident(dataset) } else { 0.0 }
    }

    /// Returns the part of a node's page cache that holds files from the start, for `jobs` on the node [B].
    fn warm<'j>(&self, jobs: impl IntoIterator<Item = &'j Job>) -> f64 {
        let storage = |index: usize| self.storage.get(index);
        warm_files(jobs, storage, |index| self.datasets.get(index))
    }

    /// Returns the capacity of all caches on tiers in memory [B].
    fn caches_in_memory(&self) -> f64 {
        let caches = self.storage.iter().filter_map(|storage| storage.cache);
        let there = caches.filter(|cache| self.is_memory(cache.on));
        there.fold(0.0, |sum, cache| sum + cache.capacity)
    }

    fn is_memory(&self, storage: usize) -> bool {
        self.storage[storage].path.is_memory()
    }
}

/// Returns the size of the files that `jobs` on a node read and that its page cache holds from the start [B]. Jobs that read the
/// same files share them.
fn warm_files<'s, 'd, 'j>(
    jobs: impl IntoIterator<Item = &'j Job>,
    storage: impl Fn(usize) -> Option<&'s Storage>,
    dataset: impl Fn(usize) -> Option<&'d Dataset>,
) -> f64 {
    let mut files = BTreeMap::<_, f64>::new();
    for job in jobs.into_iter().filter(|job| job.reads_data()) {
        let read = storage(job.reads_from()).filter(|storage| storage.warm.is_some());
        if let (Some(_), Some(dataset)) = (read, dataset(job.dataset)) {
            let kept = files.entry((job.reads_from(), job.dataset)).or_default();
            *kept = kept.max(job.resident(dataset));
        }
    }
    files.values().fold(0.0, |sum, bytes| sum + bytes)
}

impl ScenarioSettings {
    /// Checks that the page caches of nodes that jobs share can hold all files that they hold from the start. The files of each job
    /// alone have been checked before.
    pub(crate) fn check_warm(&self, check: Check<'_>, parts: Parts<'_>) {
        let Some(cluster) = parts.cluster.filter(|cluster| cluster.share_nodes) else { return };
        let storage = |index: usize| parts.storage.get(index)?.as_ref();
        let dataset = |index: usize| parts.datasets.get(index)?.as_ref();
        let jobs: Vec<&Job> = parts.jobs.iter().flatten().collect();
        let ends: BTreeSet<u32> = jobs.iter().map(|job| job.nodes.min(cluster.nodes)).collect();
        let mut first = 0;
        for end in ends {
            let node = cluster.weakest(first..end).node;
            let here = || jobs.iter().copied().filter(|job| job.nodes > first);
            let each = here().map(|job| warm_files([job], storage, dataset));
            let (all, most) = (warm_files(here(), storage, dataset), each.fold(0.0, f64::max));
            first = end;
            let cache = node.page_cache.filter(|cache| !cache.assumed);
            let capacity = cache.map_or(f64::INFINITY, |cache| cache.capacity).min(node.memory);
            if all > capacity && all > most {
                let written = check.find(&["cluster", "node", "page_cache"]);
                let at = check.blame(&[written, check.find(&["cluster", "node", "memory"])], ROOT);
                let what = format!(
                    "the page cache holds {} of {} that jobs together read with `access = \"warm\"`",
                    size(capacity),
                    size(all)
                );
                check.wrong(at, what, "write `access = \"cold\"`, or a page cache for all files");
                return;
            }
        }
    }
}

impl Rules<'_> {
    /// Checks that the page cache of a node can hold all files that `job` reads, whose size is `bytes`, if it holds them from the
    /// start.
    fn check_warm(&self, job: &Job, bytes: f64, read: Option<&Storage>, node: &Node) {
        let Some(storage) = read.filter(|storage| storage.warm.is_some()) else { return };
        let written = self.check.find(&["cluster", "node", "page_cache"]);
        let what = match &node.page_cache {
            None if written.is_some() => "the node has no page cache".to_owned(),
            Some(cache) if cache.capacity < bytes && !cache.assumed => {
                format!("the page cache holds {} of {}", size(cache.capacity), size(bytes))
            }
            None | Some(_) => return,
        };
        let table = self.check.find(&["storage", &storage.name]).map(|at| self.check.inside(at));
        let access = table.and_then(|table| self.check.document.member(table, "access"));
        let at = self.check.blame(&[written, access], self.at);
        let what = format!(
            "{what}, and `access = \"warm\"` of {:?} says that it holds all that `{}` reads",
            storage.name, job.name
        );
        self.check.wrong(at, what, "write `access = \"cold\"`, or a page cache for all files");
    }

    /// Checks that the buffers, workers and data that this job keeps in the memory of a node fit into it.
    pub(super) fn check_memory(&self, job: &Job, dataset: &Dataset, node: &Node) {
        let of = |index: usize| self.around.storage.get(index).and_then(Option::as_ref);
        let is_memory = |index: usize| of(index).is_some_and(|storage| storage.path.is_memory());
        let read = of(job.reads_from()).filter(|_| job.reads_data());
        let cache = read.and_then(|storage| storage.cache);
        let cached = cache.filter(|cache| is_memory(cache.on)).map_or(0.0, |cache| cache.capacity);
        let kept = read.is_some_and(Storage::is_in_memory);
        let resident = if kept { job.resident(dataset) } else { cached };
        self.check_warm(job, resident, read, node);
        let needed = job.memory(dataset) + resident;
        if needed > node.memory {
            let memory = self.check.find(&["cluster", "node", "memory"]);
            let samples = self.check.find(&["dataset", &dataset.name, "samples"]);
            let too_large = if resident > node.memory { samples } else { self.buffer_at() };
            let at = [self.settings.worker_memory.at, too_large, memory, samples];
            let at = self.check.blame(&at, self.at);
            let what = format!(
                "the data set in memory and the buffers need {}, and a node has {}",
                size(needed),
                size(node.memory)
            );
            self.check.wrong(at, what, "write a smaller buffer or data set, or more memory");
        }
        if self.settings.worker_memory.is_written() && node.memory.is_infinite() {
            self.check.remark(format!(
                "`worker_memory` of `{}` has no effect: `cluster.node.memory` is not set.",
                job.name
            ));
        }
    }
}
