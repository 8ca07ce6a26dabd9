//! Hand-over between the stages of a loader: the order of items, and room for them.
//!
//! A worker takes its input, works on it, and puts an item into the buffer behind its stage: in its turn if order is kept, and
//! when there is room. Until then the worker keeps the item. The caller puts the item in once its turn has come and there is
//! room; simulated and live runs do this in different ways.

use forebay_engine::Fingerprint;
use forebay_scenario::{Job, Order};
use std::collections::{BTreeMap, VecDeque};

/// State shared by the workers of a stage, and the buffer of items `I` that they fill (the last stage's buffer is the queue).
///
/// The fields that every item needs come first.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct StageBuffer<I> {
    /// Sequence number of the next input.
    inputs: u64,
    /// Sequence number of the next item to enter the buffer, if order is kept.
    outputs: u64,
    samples: u32,
    ordered: bool,
    takes: usize,
    /// Number of items that must stay in the buffer until all items have entered it: `shuffled`, or none once no more are coming. `coming`
    /// items are still to enter.
    kept: usize,
    coming: u64,
    capacity: usize,
    buffer: VecDeque<I>,
    /// Workers that wait for input, in order of arrival.
    pub idle: VecDeque<u32>,
    /// Workers that wait for room, in order of arrival.
    pub blocked: VecDeque<u32>,
    /// Workers that keep finished items until earlier items have entered the buffer, by the item's sequence number.
    held: BTreeMap<u64, u32>,
    /// Whether the last item may have fewer samples than the others.
    rounds_up: bool,
    shuffled: usize,
}

impl<I> StageBuffer<I> {
    /// Returns the buffer of stage number `index` in the loader of `job`, in its initial state; the loader reads `quota` samples
    /// in total.
    pub fn new(job: &Job, index: usize, quota: u64) -> StageBuffer<I> {
        let stage = &job.loader.stages[index];
        // Requested items always have room.
        let requested = job.loader.requests.is_some();
        StageBuffer {
            samples: job.samples_of(stage) as u32,
            ordered: stage.order == Order::InOrder,
            takes: job.items_taken(index) as usize,
            capacity: if requested { usize::MAX } else { stage.buffer as usize },
            kept: stage.kept as usize,
            shuffled: stage.kept as usize,
            rounds_up: !job.gathers(index),
            ..StageBuffer::of_samples()
        }
        .coming(quota)
    }

    /// Sets the number of items still to come from the number of samples still to come.
    pub fn coming(mut self, samples: u64) -> StageBuffer<I> {
        self.coming = self.items(samples);
        self
    }

    fn items(&self, samples: u64) -> u64 {
        let of_item = u64::from(self.samples).max(1);
        if self.rounds_up { samples.div_ceil(of_item) } else { samples / of_item }
    }

    /// Begins an epoch of `samples` samples, after all items of the epoch before have left the buffer.
    pub fn begin_epoch(&mut self, samples: u64) {
        (self.kept, self.coming) = (self.shuffled, self.items(samples));
    }

    /// Returns the buffer of a loader's only stage, which makes samples one by one, in any order.
    pub fn of_samples() -> StageBuffer<I> {
        StageBuffer {
            inputs: 0,
            outputs: 0,
            samples: 1,
            ordered: false,
            takes: 1,
            kept: 0,
            shuffled: 0,
            coming: u64::MAX,
            rounds_up: true,
            capacity: 0,
            buffer: VecDeque::new(),
            idle: VecDeque::new(),
            blocked: VecDeque::new(),
            held: BTreeMap::new(),
        }
    }

    /// Adds everything to a fingerprint that decides what the buffer does next: its items, which `item` adds, and its waiting workers.
    /// Returns false for a shuffled buffer, whose order also depends on how many items are still to come.
    #[must_use]
    pub fn describe(
        &self,
        to: &mut Fingerprint,
        mut item: impl FnMut(&I, &mut Fingerprint),
    ) -> bool {
        if self.ordered {
            to.add(self.inputs - self.outputs);
        }
        self.buffer.iter().for_each(|of| item(of, to));
        to.add(self.buffer.len() as u64);
        to.add_all(self.idle.iter().copied().map(u64::from));
        to.add_all(self.blocked.iter().copied().map(u64::from));
        to.add_all(
            self.held.iter().flat_map(|(at, w)| [at.wrapping_sub(self.outputs), (*w).into()]),
        );
        self.shuffled == 0
    }

    /// Returns the sequence number of the next input.
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// Returns the number of samples in an item.
    #[inline]
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the number of items of the previous stage that make one item of this stage.
    #[inline]
    pub fn takes(&self) -> usize {
        self.takes
    }

    /// Whether items enter the buffer in the order of their inputs.
    #[inline]
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Returns the capacity of the buffer in items.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of items in the buffer that may be taken.
    #[inline]
    pub fn ready(&self) -> usize {
        self.buffer.len().saturating_sub(self.kept)
    }

    /// Whether one more item fits into the buffer.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.buffer.len() < self.capacity
    }

    /// Takes an input and returns its sequence number.
    #[inline]
    pub fn take_input(&mut self) -> u64 {
        let sequence = self.inputs;
        self.inputs += 1;
        sequence
    }

    /// Whether the item made from input `sequence` may enter the buffer, if there is room.
    #[inline]
    pub fn is_turn(&self, sequence: u64) -> bool {
        !self.ordered || sequence == self.outputs
    }

    /// Records that worker `w` keeps the item made from input `sequence` until its turn has come.
    #[inline]
    pub fn hold(&mut self, sequence: u64, w: u32) {
        self.held.insert(sequence, w);
    }

    /// Returns the worker, if any, that keeps the item whose turn has come, and removes it from the record.
    #[inline]
    pub fn release(&mut self) -> Option<u32> {
        self.held.remove(&self.outputs)
    }

    /// Records that an item enters the buffer, or the queue, so that it is the next item's turn.
    #[inline]
    pub fn pass(&mut self) {
        self.outputs += u64::from(self.ordered);
    }

    /// Puts `item` into the buffer, which has room. Returns true if it is the last item, so that the items that had to stay may
    /// be taken too.
    #[inline]
    pub fn put(&mut self, item: I) -> bool {
        self.buffer.push_back(item);
        self.kept > 0 && self.is_last()
    }

    #[cold]
    fn is_last(&mut self) -> bool {
        self.coming = self.coming.saturating_sub(1);
        if self.coming == 0 {
            self.kept = 0;
        }
        self.coming == 0
    }

    /// Returns the first `number` items of the buffer; none if fewer may be taken.
    pub fn first(&self, number: usize) -> impl Iterator<Item = &I> {
        let number = if self.ready() < number { 0 } else { number };
        self.buffer.iter().take(number)
    }

    /// Takes the first `number` items out of the buffer and combines them into one item with `join`; `None` if fewer may be
    /// taken.
    #[inline]
    pub fn gather(&mut self, number: usize, mut join: impl FnMut(&mut I, I)) -> Option<I> {
        if self.ready() < number {
            return None;
        }
        let mut parts = self.buffer.drain(..number);
        let mut item = parts.next()?;
        parts.for_each(|part| join(&mut item, part));
        Some(item)
    }
}
