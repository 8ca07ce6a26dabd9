//! What the stages of a job's loader come to, with its batch.

use super::Job;
use crate::scenario::{Operation, Stage, Unit};

impl Job {
    /// Loaders on each node.
    #[must_use]
    pub fn loaders_per_node(&self) -> u32 {
        if self.loader_per_copy { self.copies_per_node } else { 1 }
    }

    /// Loaders of a copy of the job.
    #[must_use]
    pub fn loaders(&self) -> u32 {
        self.nodes.saturating_mul(self.loaders_per_node())
    }

    /// Model copies that a loader feeds.
    #[must_use]
    pub fn copies_per_loader(&self) -> u32 {
        self.copies_per_node / self.loaders_per_node()
    }

    /// Samples of an item of `stage`.
    #[must_use]
    pub fn samples_of(&self, stage: &Stage) -> u64 {
        match stage.unit {
            Unit::Sample => 1,
            Unit::Batch => self.batch,
        }
    }

    /// Items of the stage before that stage number `index` takes for one of its own.
    #[must_use]
    pub fn items_taken(&self, index: usize) -> u64 {
        let stages = &self.loader.stages;
        let before = index.checked_sub(1).map(|before| stages[before].unit);
        let gathers = before == Some(Unit::Sample) && stages[index].unit == Unit::Batch;
        if gathers { self.batch } else { 1 }
    }

    /// Samples that fit into the last buffer.
    #[must_use]
    pub fn queue_capacity(&self) -> u64 {
        self.loader.stages.last().map_or(0, |last| last.buffer * self.samples_of(last))
    }

    /// Whether anything is copied to the devices.
    #[must_use]
    pub fn copies_to_devices(&self) -> bool {
        let stages = self.loader.stages.iter();
        stages.flat_map(|s| s.per_sample.iter().chain(&s.per_item)).any(|o| *o == Operation::Copy)
    }
}
