//! What jobs use a storage for.

use super::tiers::Parts;
use super::{Job, Node, Scenario, Storage};

/// What jobs use a storage for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageUses {
    /// Loaders read samples from it.
    pub reads: bool,
    /// Data sets are copied from it before training.
    pub copies_from: bool,
    /// Data sets are copied to it before training.
    pub copies_to: bool,
    /// Nodes keep a cache of another storage's files on it.
    pub caches: bool,
    /// Checkpoints are written to it, and read back after failures.
    pub checkpoints: bool,
}

impl StorageUses {
    /// Returns whether it is used at all.
    #[must_use]
    pub fn any(self) -> bool {
        self.reads || self.copies_from || self.writes()
    }

    /// Returns whether anything is written to it.
    #[must_use]
    pub fn writes(self) -> bool {
        self.copies_to || self.caches || self.checkpoints
    }

    fn and(self, other: StorageUses) -> StorageUses {
        StorageUses {
            reads: self.reads || other.reads,
            copies_from: self.copies_from || other.copies_from,
            copies_to: self.copies_to || other.copies_to,
            caches: self.caches || other.caches,
            checkpoints: self.checkpoints || other.checkpoints,
        }
    }
}

impl Job {
    /// Returns what this job uses storage number `index` for; `read` is the storage that it reads from.
    fn uses(&self, index: usize, read: Option<&Storage>) -> StorageUses {
        let reads = self.reads_data();
        let cache = read.and_then(|read| read.cache).filter(|_| reads);
        StorageUses {
            reads: reads && self.reads_from() == index,
            copies_from: self.staging.is_some() && self.storage == index,
            copies_to: self.staging.as_ref().is_some_and(|staging| staging.to == index),
            caches: cache.is_some_and(|cache| cache.on == index),
            checkpoints: self.checkpoint.as_ref().is_some_and(|of| of.storage == index),
        }
    }

    /// Returns whether the job's reads go through caches, page caches or those on tiers, whose contents nodes track; `read` is the
    /// storage that it reads from.
    pub(super) fn reads_through_caches(&self, read: Option<&Storage>) -> bool {
        self.reads_data() && read.is_some_and(Storage::passes_page_cache)
    }
}

impl Scenario {
    /// Returns whether the page cache of a `node` keeps what `job` reads.
    #[must_use]
    pub fn keeps_pages(&self, job: &Job, node: &Node) -> bool {
        node.page_cache.is_some() && job.reads_through_caches(self.storage.get(job.reads_from()))
    }

    /// Returns, for each data set, whether a job reads it through caches.
    #[must_use]
    pub fn cached_datasets(&self) -> Vec<bool> {
        let mut cached = vec![false; self.datasets.len()];
        for job in &self.jobs {
            cached[job.dataset] |= job.reads_through_caches(self.storage.get(job.reads_from()));
        }
        cached
    }

    /// Returns what `job` uses storage number `index` for.
    #[must_use]
    pub fn uses(&self, job: &Job, index: usize) -> StorageUses {
        job.uses(index, self.storage.get(job.reads_from()))
    }
}

impl Parts<'_> {
    /// Returns what all jobs together use storage number `index` for.
    pub(super) fn uses(self, index: usize) -> StorageUses {
        let read = |job: &Job| self.storage.get(job.reads_from()).and_then(Option::as_ref);
        let each = self.jobs.iter().flatten().map(|job| job.uses(index, read(job)));
        each.fold(StorageUses::default(), StorageUses::and)
    }
}
