//! The last buffer of a loader: totals, exhaustions, and its course over time.

use serde::{Deserialize, Serialize};

/// Running totals of a queue since the job's start, all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueueTotals {
    /// Integral over time of the number of samples in the queue [sample·s].
    pub level_seconds: f64,
    /// Time in which a trainer waited for the queue [s], mean over nodes.
    pub empty_seconds: f64,
    /// Samples that the loaders have begun to read (prefilled ones not counted).
    pub started: u64,
    /// Samples put in (prefilled ones not counted).
    pub enqueued: u64,
    /// Samples taken out (circular queues: read for the first time).
    pub dequeued: u64,
    /// Time that workers waited before a full queue or had nothing more to read, summed over workers [worker·s].
    pub blocked_seconds: f64,
    /// Time that samples had spent in the queue, summed over the samples taken out [sample·s].
    pub residence_seconds: f64,
}

impl std::ops::AddAssign for QueueTotals {
    fn add_assign(&mut self, other: QueueTotals) {
        self.level_seconds += other.level_seconds;
        self.empty_seconds += other.empty_seconds;
        self.started += other.started;
        self.enqueued += other.enqueued;
        self.dequeued += other.dequeued;
        self.blocked_seconds += other.blocked_seconds;
        self.residence_seconds += other.residence_seconds;
    }
}

impl QueueTotals {
    /// Returns what was added to the totals since they were `before`.
    #[must_use]
    pub fn since(self, before: QueueTotals) -> QueueTotals {
        QueueTotals {
            level_seconds: self.level_seconds - before.level_seconds,
            empty_seconds: self.empty_seconds - before.empty_seconds,
            started: self.started - before.started,
            enqueued: self.enqueued - before.enqueued,
            dequeued: self.dequeued - before.dequeued,
            blocked_seconds: self.blocked_seconds - before.blocked_seconds,
            residence_seconds: self.residence_seconds - before.residence_seconds,
        }
    }

    /// Returns the totals after `times` periods with these totals each.
    #[must_use]
    pub fn times(self, times: u64) -> QueueTotals {
        QueueTotals {
            level_seconds: self.level_seconds * times as f64,
            empty_seconds: self.empty_seconds * times as f64,
            started: self.started * times,
            enqueued: self.enqueued * times,
            dequeued: self.dequeued * times,
            blocked_seconds: self.blocked_seconds * times as f64,
            residence_seconds: self.residence_seconds * times as f64,
        }
    }
}

/// The last buffer of a loader, all nodes of a job copy together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct QueueOutcome {
    /// Capacity [samples].
    pub capacity: u64,
    /// Samples in the buffer at the start.
    pub initial: u64,
    /// Samples in the buffer at the end.
    pub level: u64,
    /// Workers that fill the buffer.
    pub workers: u64,
    /// Exhaustions: periods in which a trainer had to wait because the queue had run empty after it had held a batch.
    pub exhaustions: Vec<Exhaustion>,
    /// Circular queues: samples overwritten, by how often they had been read (the last entry counts
    /// all that were read at least that often).
    pub reuse: Vec<u64>,
    /// Circular queues: ages of samples when read [s], as (age, count) in ascending order of age;
    /// ages are rounded to 2 %.
    pub ages: Vec<(f64, u64)>,
}

/// A period in which a trainer waited for an empty queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Exhaustion {
    /// Time at which the queue ran empty [s].
    pub start: f64,
    /// Time until the queue held a batch again [s], or until the end of the run if it never did.
    pub duration: f64,
}

/// Queue and steps over time, in bins of equal width from the start of the job copy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Width of a bin [s].
    pub width: f64,
    /// The bins.
    pub bins: Vec<Bin>,
}

/// What happened within one bin of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Bin {
    /// Integral over time of the number of samples in the queue [sample·s].
    pub level_seconds: f64,
    /// Samples put into the queue.
    pub enqueued: u64,
    /// Samples taken out of the queue.
    pub dequeued: u64,
    /// Time that workers waited before a full queue, summed over workers [worker·s].
    pub blocked_seconds: f64,
    /// Number of steps that ended within the bin.
    pub steps: u64,
    /// Sum of the durations of these steps [s].
    pub step_seconds: f64,
}
