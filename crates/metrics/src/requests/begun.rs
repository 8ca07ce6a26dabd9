//! The batches of the epochs that a loader has begun and not ended, so that a restart can continue these epochs.

use std::collections::BTreeMap;

use crate::Intervals;

/// The batches that were requested in epochs that are not over yet, and which of them were trained on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BegunEpochs {
    /// Each batch, by the position of its first sample.
    batches: BTreeMap<u64, Requested>,
    /// Number of epochs at the beginning of the run that are over.
    over: u64,
}

/// A batch that was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Requested {
    pub(super) epoch: u64,
    /// Index of the share of the epoch's samples that the batch belongs to: that of its worker if each worker has its own
    /// files.
    pub(super) share: usize,
    pub(super) samples: u64,
    pub(super) is_trained: bool,
}

impl BegunEpochs {
    /// Records that the batch whose first sample is at position `first` was requested, unless this is known.
    pub(super) fn add(&mut self, first: u64, requested: Requested) {
        self.batches.entry(first).or_insert(requested);
    }

    /// Returns the batches of `epoch`, each with the position of its first sample.
    pub(super) fn of(&self, epoch: u64) -> impl Iterator<Item = (u64, Requested)> {
        let all = self.batches.iter().map(|(first, of)| (*first, *of));
        all.filter(move |(_, of)| of.epoch == epoch)
    }

    /// Returns the number of epochs at the beginning of the run that are over.
    pub(super) fn over(&self) -> u64 {
        self.over
    }

    /// Records that exactly the samples at the positions `trained` were trained on, and removes epochs that are over; an epoch
    /// has `samples` samples.
    pub(super) fn settle(&mut self, trained: &Intervals, samples: u64) {
        for (first, of) in &mut self.batches {
            of.is_trained = trained.next_gap(*first) > *first;
        }
        let done = |of: &BegunEpochs| {
            let trained = of.of(of.over).filter(|(_, batch)| batch.is_trained);
            trained.map(|(_, batch)| batch.samples).sum::<u64>()
        };
        while samples > 0 && done(self) == samples {
            self.batches.retain(|_, of| of.epoch > self.over);
            self.over += 1;
        }
    }

    /// Returns the number of batches of `epoch` and later ones that were trained on.
    pub fn trained_from(&self, epoch: u64) -> u64 {
        self.batches.values().filter(|of| of.is_trained && of.epoch >= epoch).count() as u64
    }

    /// Returns the positions of the samples of the batches that were trained on.
    pub fn trained(&self) -> Intervals {
        let mut all = Intervals::default();
        let trained = self.batches.iter().filter(|(_, of)| of.is_trained);
        trained.for_each(|(first, of)| all.insert(*first..first + of.samples));
        all
    }

    /// Returns these epochs with only those batches that were trained on, numbered as if they had been requested first. Where
    /// the number of a batch does not say which samples it has, the epochs can go on behind these batches.
    #[must_use]
    pub fn renumbered(&self) -> BegunEpochs {
        let (mut batches, mut next) = (BTreeMap::new(), None);
        for (first, of) in &self.batches {
            let free = match next {
                Some((epoch, free)) if epoch == of.epoch => free,
                _ => *first,
            };
            let samples = if of.is_trained { of.samples } else { 0 };
            if of.is_trained {
                batches.insert(free, *of);
            }
            next = Some((of.epoch, free + samples));
        }
        BegunEpochs { batches, over: self.over }
    }

    /// Returns these epochs as if none had been begun from `epoch` on.
    pub fn before(&self, epoch: u64) -> BegunEpochs {
        let mut earlier = self.clone();
        earlier.batches.retain(|_, of| of.epoch < epoch);
        earlier
    }
}
