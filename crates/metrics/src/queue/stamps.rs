//! When the samples of a bounded queue came in.

use forebay_engine::Time;
use std::collections::VecDeque;

/// When samples came in. They leave batch by batch, so that a sum for each batch is enough.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Stamps {
    /// Of each full batch the sum over its samples [ps], oldest first.
    sums: VecDeque<u128>,
    /// The sum of the batch that is not full, and its number of samples.
    open: u128,
    samples: u64,
    batch: u64,
}

impl Stamps {
    /// None, of samples that leave `batch` at a time.
    pub(super) fn new(batch: u64) -> Stamps {
        Stamps { batch, sums: VecDeque::new(), open: 0, samples: 0 }
    }

    /// So many samples come in.
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

    /// A whole batch of so many samples comes in.
    pub(super) fn put_batch(&mut self, now: Time, samples: u64) {
        self.sums.push_back(now.0 as u128 * samples as u128);
    }

    /// Time that the samples of the oldest batch, so many, have spent inside [sample·ps]; removes them.
    pub(super) fn take(&mut self, now: Time, batch: u64) -> u128 {
        let sum = self.sums.pop_front().expect("the level counts what is inside");
        now.0 as u128 * batch as u128 - sum
    }
}
