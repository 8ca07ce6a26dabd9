//! Which samples a loader's queue holds, by their positions in the loader's reading order.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_metrics::Cycle;
use forebay_scenario::{Job, QueueKind};

/// The samples in a loader's queue, in the order in which trainers take them.
#[derive(Debug)]
pub(super) enum Queued {
    /// A sample leaves the queue when it is taken. The first `unread` samples were never read, because the queue was filled at
    /// the start.
    Bounded { unread: u64, samples: VecDeque<Range<u64>> },
    /// A sample stays until a new one overwrites it, and may be taken several times.
    Circular { capacity: u64, slots: Cycle<Slot> },
}

/// A slot of a circular queue.
#[derive(Debug)]
pub(super) struct Slot {
    /// Position of the sample; `None` if it was never read, because the queue was filled at the start.
    sample: Option<u64>,
    is_taken: bool,
}

impl Queued {
    /// Returns the samples in the queue of a loader of `job` at the start: those that the job prefills.
    pub(super) fn new(job: &Job) -> Queued {
        match job.queue {
            QueueKind::Bounded => Queued::Bounded { unread: job.prefill, samples: VecDeque::new() },
            QueueKind::Circular => {
                let (capacity, mut slots) = (job.queue_capacity(), Cycle::default());
                for _ in 0..job.prefill {
                    slots.put(Slot { sample: None, is_taken: false }, capacity);
                }
                Queued::Circular { capacity, slots }
            }
        }
    }

    /// Puts the samples of `run` into the queue, in this order; calls `lost` with each sample that is overwritten before it was
    /// taken.
    pub(super) fn put(&mut self, run: Range<u64>, mut lost: impl FnMut(u64)) {
        match self {
            Queued::Bounded { samples, .. } => match samples.back_mut() {
                _ if run.is_empty() => {}
                Some(last) if last.end == run.start => last.end = run.end,
                _ => samples.push_back(run),
            },
            Queued::Circular { capacity, slots } => {
                for sample in run {
                    let slot = Slot { sample: Some(sample), is_taken: false };
                    let old = slots.put(slot, *capacity).filter(|old| !old.is_taken);
                    old.and_then(|old| old.sample).into_iter().for_each(&mut lost);
                }
            }
        }
    }

    /// Takes the next `number` samples; calls `taken` with each run of samples that were read.
    pub(super) fn take(&mut self, mut number: u64, mut taken: impl FnMut(Range<u64>)) {
        match self {
            Queued::Bounded { unread, samples } => {
                let first = number.min(*unread);
                *unread -= first;
                number -= first;
                while let Some(run) = samples.front_mut().filter(|_| number > 0) {
                    let part = number.min(run.end - run.start);
                    taken(run.start..run.start + part);
                    (run.start, number) = (run.start + part, number - part);
                    if run.is_empty() {
                        samples.pop_front();
                    }
                }
            }
            Queued::Circular { slots, .. } => {
                for _ in 0..number {
                    let slot = slots.read();
                    slot.is_taken = true;
                    slot.sample.into_iter().for_each(|sample| taken(sample..sample + 1));
                }
            }
        }
    }

    /// Removes all samples.
    pub(super) fn clear(&mut self) {
        match self {
            Queued::Bounded { unread, samples } => {
                *unread = 0;
                samples.clear();
            }
            Queued::Circular { slots, .. } => slots.clear(),
        }
    }
}
