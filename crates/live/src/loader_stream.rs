//! Identifies the loader that a reader belongs to: each loader has its own order of samples and its own random numbers.

use forebay_model::random::{FileOrder, Streams};

/// A loader of a job copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoaderStream {
    /// Number of the job copy among all job copies of the scenario.
    pub(super) owner: u64,
    /// Number of the loader in the job copy, and number of loaders.
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) streams: Streams,
}

impl LoaderStream {
    /// Returns the number of the loader's sample at `position` among the samples of all loaders. As in a simulation, this number
    /// is the `entity` in the addresses of the sample's random numbers.
    pub(super) fn entity(&self, position: u64) -> u64 {
        position * u64::from(self.ranks) + u64::from(self.rank)
    }

    /// Returns the file at `place` in the loader's order.
    pub(super) fn file(&self, order: &mut FileOrder, place: u64) -> u64 {
        order.at(place, self.owner, &self.streams)
    }
}
