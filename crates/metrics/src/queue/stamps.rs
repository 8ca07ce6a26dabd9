//! Arrival times of the samples of a bounded queue.

use forebay_engine::{Fingerprint, Time};
use std::collections::VecDeque;

/// Arrival times of samples. Samples leave batch by batch, so a sum for each batch is enough.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Stamps {
    /// For each full batch, the sum of the arrival times of its samples [ps], oldest first.
    sums: VecDeque<u128>,
    /// Sum of the arrival times of the samples in the batch that is not full yet [ps], and number of these samples.
    open: u128,
    samples: u64,
    batch: u64,
}

impl Stamps {
    /// Creates an empty record for samples that leave `batch` at a time.
    pub(super) fn new(batch: u64) -> Stamps {
        Stamps { batch, sums: VecDeque::new(), open: 0, samples: 0 }
    }

    /// Records the arrival of `samples` samples.
    #[inline]
    pub(super) fn put(&mut self, now: Time, mut samples: u64) {
        while samples > 0 {
            let put = samples.min(self.batch - self.samples);
            self.open += now.0 as u128 * put as u128;
            self.samples += put;
            samples -= put;
            if self.samples == self.batch {
                self.sums.push_back(self.open);
                (self.open, self.samples) = (0, 0);
            }
        }
    }

    /// Records the arrival of a whole batch of `samples` samples.
    pub(super) fn put_batch(&mut self, now: Time, samples: u64) {
        self.sums.push_back(now.0 as u128 * samples as u128);
    }

    /// Adds the arrival times of the samples, relative to the present, to a fingerprint; all batches are full.
    pub(super) fn describe(&self, to: &mut Fingerprint) {
        let now = to.now().0 as u128;
        let all = self.sums.iter().map(|sum| now * self.batch as u128 - sum);
        let open = now * self.samples as u128 - self.open;
        to.add_all(all.chain([open]).map(|age| age as u64));
        to.add(self.samples);
    }

    /// Removes the oldest batch, of `batch` samples, and returns the time that these have spent in the queue [sample·ps].
    pub(super) fn take(&mut self, now: Time, batch: u64) -> u128 {
        let sum = self.sums.pop_front().expect("the level counts what is inside");
        now.0 as u128 * batch as u128 - sum
    }
}
