//! Numbers that follow from the stages of a job's loader and its batch: loaders, batches, items and samples.

use super::Job;
use crate::{Dataset, Kernel, Layout, Operation, Stage, Unit};
use std::collections::BTreeSet;

impl Job {
    /// Returns the number of loaders on each node; where nodes differ, the largest number on any node.
    #[must_use]
    pub fn loaders_per_node(&self) -> u32 {
        if self.loader_per_copy { self.copies_per_node } else { 1 }
    }

    /// Returns the number of loaders of a copy of the job.
    #[must_use]
    pub fn loaders(&self) -> u32 {
        if self.loader_per_copy { self.ranks() } else { self.nodes }
    }

    /// Returns the index of loader number `rank` of a job copy among the loaders of its node, which is number `node`.
    #[must_use]
    pub fn loader_on_node(&self, rank: u32, node: u32) -> u32 {
        if self.copies_each.is_empty() {
            return rank % self.loaders_per_node();
        }
        rank - (0..node).map(|node| self.loaders_on(node)).sum::<u32>()
    }

    /// Returns the number of loaders on node number `node` of a copy of the job.
    #[must_use]
    pub fn loaders_on(&self, node: u32) -> u32 {
        if self.loader_per_copy { self.copies_on(node) } else { 1 }
    }

    /// Returns the number of model copies that a loader feeds.
    #[must_use]
    pub fn copies_per_loader(&self) -> u32 {
        self.copies_per_node / self.loaders_per_node()
    }

    /// Returns the number of samples in the batches of an epoch of `dataset`, for a loader that makes batches on request:
    /// one entry for each worker if each worker has files of its own, otherwise one entry for all workers together.
    #[must_use]
    pub fn samples_of_epoch(&self, dataset: &Dataset) -> Vec<u64> {
        let loaders = u64::from(self.loaders());
        let drop_last = self.loader.requests.is_none_or(|requests| requests.drop_last);
        let used = |samples| if drop_last { samples - samples % self.batch } else { samples };
        let iterable = self.loader.requests.is_some_and(|requests| requests.iterable);
        let Some(first) = self.loader.stages.first().filter(|_| iterable) else {
            // PyTorch's `DistributedSampler` pads: all ranks have the same number of samples.
            return vec![used(dataset.samples.div_ceil(loaders))];
        };
        let (files, workers) = (dataset.places() / loaders, u64::from(first.workers));
        let of_file = match dataset.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => 1,
            Layout::Shards { samples_per_shard, .. } => samples_per_shard.min(dataset.samples),
            Layout::RowGroups(groups) => groups.samples_per_file().min(dataset.samples),
        };
        let own = |worker| files / workers + u64::from(worker < files % workers);
        // The last file may be smaller.
        let lacking = (files * of_file).saturating_sub(dataset.samples / loaders);
        let last = files.saturating_sub(1) % workers;
        let samples = |worker| {
            let lacking = if worker == last { lacking } else { 0 };
            (own(worker) * of_file).saturating_sub(lacking)
        };
        (0..workers).map(|worker| used(samples(worker))).collect()
    }

    /// Returns the number of batches of an epoch, for a loader that makes batches on request.
    #[must_use]
    pub fn batches_of_epoch(&self, dataset: &Dataset) -> u64 {
        self.samples_of_epoch(dataset).iter().map(|samples| samples.div_ceil(self.batch)).sum()
    }

    /// Returns the sizes below `batch` that batches can have, for a loader that makes batches on request [samples].
    #[must_use]
    pub fn smaller_batches(&self, dataset: &Dataset) -> Vec<u64> {
        let shares = self.samples_of_epoch(dataset);
        let rests = shares.iter().map(|samples| samples % self.batch).filter(|rest| *rest > 0);
        rests.collect::<BTreeSet<u64>>().into_iter().collect()
    }

    /// Returns the number of samples in an item of `stage`.
    #[must_use]
    pub fn samples_of(&self, stage: &Stage) -> u64 {
        match stage.unit {
            Unit::Sample => 1,
            Unit::Batch => self.batch,
        }
    }

    /// Returns how many items of the previous stage go into one item of stage number `index`.
    #[must_use]
    pub fn items_taken(&self, index: usize) -> u64 {
        let stages = &self.loader.stages;
        let before = index.checked_sub(1).map(|before| stages[before].unit);
        let gathers = before == Some(Unit::Sample) && stages[index].unit == Unit::Batch;
        if gathers { self.batch } else { 1 }
    }

    /// Returns whether stage number `index`, or a stage before it, gathers samples into batches; all its items are then
    /// full.
    #[must_use]
    pub fn gathers(&self, index: usize) -> bool {
        (1..=index).any(|index| self.items_taken(index) > 1)
    }

    /// Returns how many items stage number `index` makes of `samples` samples. The last item may be smaller, unless
    /// this stage or a stage before it gathers samples into batches.
    #[must_use]
    pub fn items_of(&self, index: usize, samples: u64) -> u64 {
        let of_item = self.samples_of(&self.loader.stages[index]);
        if self.gathers(index) { samples / of_item } else { samples.div_ceil(of_item) }
    }

    /// Returns the number of samples that fit into the last buffer.
    #[must_use]
    pub fn queue_capacity(&self) -> u64 {
        self.loader.stages.last().map_or(0, |last| last.buffer * self.samples_of(last))
    }

    /// Returns the number of samples that the last buffer keeps as long as more samples may be added to it, as a shuffle
    /// buffer does.
    #[must_use]
    pub fn kept_in_queue(&self) -> u64 {
        let last = self.loader.stages.last();
        last.map_or(0, |last| last.kept.saturating_mul(self.samples_of(last)))
    }

    /// Returns whether the loader copies anything to the devices.
    #[must_use]
    pub fn copies_to_devices(&self) -> bool {
        let stages = self.loader.stages.iter();
        let requests = self.loader.requests.as_ref();
        requests.is_some_and(|requests| requests.to_device)
            || stages.flat_map(|s| s.per_sample.iter().chain(&s.per_item)).any(Operation::copies)
    }

    /// Returns the kernel that the loader runs on the GPUs, if there is one.
    #[must_use]
    pub fn kernel(&self) -> Option<Kernel> {
        let mut work = self.loader.stages.iter().flat_map(|stage| &stage.per_item);
        work.find_map(|operation| match operation {
            Operation::Kernel(kernel) => Some(*kernel),
            _ => None,
        })
    }
}
