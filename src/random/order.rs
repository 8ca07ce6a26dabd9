//! The order in which a job copy visits the files of a data set, epoch after epoch: one for both
//! worlds, so that they read the same samples in the same order.

use super::{Permutation, Purpose, Streams};
use crate::scenario::{Dataset, SampleOrder};

/// The order of a job copy's files, and the epoch that was asked for last.
#[derive(Debug, Clone)]
pub struct FileOrder {
    shuffled: bool,
    /// Files of an epoch: samples or shards.
    files: u64,
    /// The current epoch, and the place in the reading where it began.
    epoch: u64,
    epoch_start: u64,
    /// Order of the epoch's files, once it was asked for.
    permutation: Option<Box<Permutation>>,
}

impl FileOrder {
    /// The order that the data set's settings say.
    #[must_use]
    pub fn new(dataset: &Dataset) -> FileOrder {
        FileOrder {
            shuffled: dataset.order == SampleOrder::Shuffled,
            files: dataset.files(),
            epoch: 0,
            epoch_start: 0,
            permutation: None,
        }
    }

    /// The file at `place` of the reading of job copy number `owner`.
    #[inline]
    pub fn at(&mut self, place: u64, owner: u64, streams: &Streams) -> u64 {
        // Earlier places wrap round to far beyond the epoch.
        if place.wrapping_sub(self.epoch_start) >= self.files {
            self.enter(place / self.files);
        }
        let index = place - self.epoch_start;
        if !self.shuffled {
            return index;
        }
        let (epoch, files) = (self.epoch, self.files);
        let permutation = self.permutation.get_or_insert_with(|| {
            Box::new(Permutation::new(streams.at(Purpose::Order, owner, epoch, 0), files))
        });
        permutation.at(index)
    }

    /// The epoch of the place that was asked for last.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    #[cold]
    fn enter(&mut self, epoch: u64) {
        (self.epoch, self.epoch_start) = (epoch, epoch * self.files);
        self.permutation = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::fixture::dataset;
    use std::collections::BTreeSet;

    #[test]
    fn each_epoch_visits_every_file_once_in_another_order() {
        let (mut order, streams) = (FileOrder::new(&dataset()), Streams::new(1, 0));
        let epoch = |order: &mut FileOrder, from| {
            (from..from + 100).map(|i| order.at(i, 0, &streams)).collect::<Vec<u64>>()
        };
        let (first, second) = (epoch(&mut order, 0), epoch(&mut order, 100));
        assert_ne!(first, second);
        assert_eq!((order.epoch(), epoch(&mut order, 0)), (1, first.clone()), "back again");
        for visited in [first, second] {
            assert_eq!(visited.into_iter().collect::<BTreeSet<_>>().len(), 100);
        }
    }
}
