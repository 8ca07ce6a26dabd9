//! LoaderStream reading it is: that has its own order of samples, and its own draws.

use forebay_model::random::{FileOrder, Streams};

/// A loader of a job copy, by its number there.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoaderStream {
    /// Number of the job copy among all of the scenario.
    pub(super) owner: u64,
    /// Which loader of the job copy, of how many.
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) streams: Streams,
}

impl LoaderStream {
    /// What is at `position` of the loader's reading, among the readings of all loaders: draws for it are
    /// at this address, as in the simulated world.
    pub(super) fn entity(&self, position: u64) -> u64 {
        position * u64::from(self.ranks) + u64::from(self.rank)
    }

    /// The file at `place` of the reading.
    pub(super) fn file(&self, order: &mut FileOrder, place: u64) -> u64 {
        order.at(place, self.owner, &self.streams)
    }
}
