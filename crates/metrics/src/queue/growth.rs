//! Queues whose capacity grows.

use super::Queue;

/// Growth of a prefetch buffer that tunes its own size (tf.data's `PrefetchAutotuner`). Each time the buffer has been full and is
/// later found empty, its capacity doubles or grows by [`Growth::STEP`] batches, whichever is less.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    /// Capacity at the start, and maximum capacity [samples].
    pub(super) least: u64,
    pub(super) most: u64,
    /// Whether the buffer has been full since it last grew.
    pub(super) filled: bool,
}

impl Growth {
    /// Largest number of batches by which the capacity grows at once.
    const STEP: u64 = 2048;
}

impl Queue {
    /// Grows the capacity if the queue has no batch for a model copy that wants one, and has been full since it last grew.
    pub(super) fn grow(&mut self) {
        if let Some(growth) = &mut self.growth
            && self.level < self.batch
            && growth.filled
        {
            let more = self.capacity.min(Growth::STEP * self.batch);
            self.capacity = self.capacity.saturating_add(more).min(growth.most);
            growth.filled = false;
        }
    }
}
