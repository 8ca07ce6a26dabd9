//! The batches of the epochs that a loader has begun and not ended, so that a restart can continue these epochs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Intervals;

/// The requested batches of unfinished epochs, and which of them were trained on. Cloning is cheap: each checkpoint keeps a clone.
#[derive(Debug, Clone, Default)]
pub struct BegunEpochs {
    /// Each batch that was trained on, with the position of its first sample.
    trained: SharedList<(u64, Requested)>,
    /// Each batch that was requested and not trained on, by the position of its first sample; these are few.
    open: BTreeMap<u64, Requested>,
    /// For each epoch with batches that were trained on, the number of their samples.
    done: BTreeMap<u64, u64>,
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
}

impl BegunEpochs {
    /// Records that the batch whose first sample is at position `first` was requested, unless this is known.
    pub(super) fn add(&mut self, first: u64, requested: Requested) {
        self.open.entry(first).or_insert(requested);
    }

    /// Returns the batches of `epoch` by the position of their first sample, each with whether it was trained on.
    pub(super) fn of(&self, epoch: u64) -> BTreeMap<u64, (Requested, bool)> {
        let mut all = self.all();
        all.retain(|_, (of, _)| of.epoch == epoch);
        all
    }

    fn all(&self) -> BTreeMap<u64, (Requested, bool)> {
        let trained = self.trained.iter().map(|(first, of)| (*first, (*of, true)));
        let open = self.open.iter().map(|(first, of)| (*first, (*of, false)));
        trained.chain(open).collect()
    }

    /// Returns the number of epochs at the beginning of the run that are over.
    pub(super) fn over(&self) -> u64 {
        self.over
    }

    /// Records that the samples at the positions `trained` were trained on, among them those of earlier calls, and removes epochs
    /// that are over; an epoch has `samples` samples.
    pub(super) fn settle(&mut self, trained: &Intervals, samples: u64) {
        let is_trained = |first: &u64, _: &mut Requested| trained.next_gap(*first) > *first;
        let new: Vec<_> = self.open.extract_if(.., is_trained).collect();
        for (_, of) in &new {
            *self.done.entry(of.epoch).or_default() += of.samples;
        }
        self.trained.append(new);
        let mut over = self.over;
        while samples > 0 && self.done.get(&over) == Some(&samples) {
            over += 1;
        }
        if over > self.over {
            self.over = over;
            self.keep(|epoch| epoch >= over);
        }
    }

    /// Removes the batches of all epochs but those for which `kept` returns true.
    fn keep(&mut self, kept: impl Fn(u64) -> bool) {
        self.trained.retain(|(_, of)| kept(of.epoch));
        self.open.retain(|_, of| kept(of.epoch));
        self.done.retain(|epoch, _| kept(*epoch));
    }

    /// Returns the number of batches of `epoch` and later ones that were trained on.
    pub fn trained_from(&self, epoch: u64) -> u64 {
        self.trained.iter().filter(|(_, of)| of.epoch >= epoch).count() as u64
    }

    /// Returns the positions of the samples of the batches that were trained on.
    pub fn trained(&self) -> Intervals {
        let mut all = Intervals::default();
        self.trained.iter().for_each(|(first, of)| all.insert(*first..first + of.samples));
        all
    }

    /// Returns these epochs with only those batches that were trained on, numbered as if they had been requested first. Where
    /// the number of a batch does not say which samples it has, the epochs can go on behind these batches.
    #[must_use]
    pub fn renumbered(&self) -> BegunEpochs {
        let (mut batches, mut next) = (Vec::new(), None);
        for (first, (of, is_trained)) in self.all() {
            let free = match next {
                Some((epoch, free)) if epoch == of.epoch => free,
                _ => first,
            };
            if is_trained {
                batches.push((free, of));
            }
            next = Some((of.epoch, if is_trained { free + of.samples } else { free }));
        }
        let mut trained = SharedList::default();
        trained.append(batches);
        BegunEpochs { trained, open: BTreeMap::new(), done: self.done.clone(), over: self.over }
    }

    /// Returns these epochs as if none had been begun from `epoch` on.
    pub fn before(&self, epoch: u64) -> BegunEpochs {
        let mut earlier = self.clone();
        earlier.keep(|of| of < epoch);
        earlier
    }
}

/// A list that grows at its end, of which a copy shares the entries.
///
/// Each part is more than twice as long as the next one. So a list of n entries has at most log2 n parts, and an entry is moved to
/// a longer part at most that often.
#[derive(Debug, Clone)]
struct SharedList<T> {
    parts: Vec<Arc<Vec<T>>>,
}

impl<T> Default for SharedList<T> {
    fn default() -> SharedList<T> {
        SharedList { parts: Vec::new() }
    }
}

impl<T: Copy> SharedList<T> {
    fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    fn append(&mut self, mut new: Vec<T>) {
        if new.is_empty() {
            return;
        }
        while let Some(last) = self.parts.pop_if(|last| last.len() <= 2 * new.len()) {
            let mut joined = Vec::with_capacity(last.len() + new.len());
            joined.extend_from_slice(&last);
            joined.append(&mut new);
            new = joined;
        }
        self.parts.push(Arc::new(new));
    }

    fn retain(&mut self, kept: impl Fn(&T) -> bool) {
        let left = self.iter().filter(|entry| kept(entry)).copied().collect();
        self.parts.clear();
        self.append(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the batches of an epoch of `number` batches of 10 samples, all requested.
    fn requested(number: u64) -> BegunEpochs {
        let mut begun = BegunEpochs::default();
        for batch in 0..number {
            begun.add(10 * batch, Requested { epoch: 0, share: 0, samples: 10 });
        }
        begun
    }

    #[test]
    fn copies_of_the_begun_epochs_share_the_batches_and_keep_their_own_state() {
        // System: a long epoch; after each batch a checkpoint keeps a copy of the batches that were trained on. Expectation: each
        // copy still has exactly those batches, in at most as many parts as the binary digits of their number.
        const BATCHES: u64 = 2000;
        let mut begun = requested(BATCHES);
        let settled = (1..BATCHES).map(|batches| {
            let mut trained = Intervals::default();
            trained.insert(0..10 * batches);
            begun.settle(&trained, 10 * BATCHES);
            begun.clone()
        });
        for (copy, batches) in settled.collect::<Vec<_>>().iter().zip(1..) {
            assert_eq!(copy.trained_from(0), batches);
            assert_eq!(copy.trained().end(), 10 * batches);
            assert_eq!(copy.open.len() as u64, BATCHES - batches);
            assert!(copy.trained.parts.len() <= batches.ilog2() as usize + 1, "{batches}");
        }
    }

    #[test]
    fn an_epoch_is_over_when_all_its_samples_were_trained_on() {
        let mut begun = requested(3);
        begun.add(30, Requested { epoch: 1, share: 0, samples: 10 });
        let mut trained = Intervals::default();
        trained.insert(0..20);
        trained.insert(30..40);
        begun.settle(&trained, 30);
        assert_eq!((begun.over(), begun.trained_from(1), begun.of(0).len()), (0, 1, 3));
        trained.insert(20..30);
        begun.settle(&trained, 30);
        assert_eq!((begun.over(), begun.trained_from(0), begun.of(0).len()), (1, 1, 0));
    }
}
