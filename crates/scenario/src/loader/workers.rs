//! The kind of a loader's workers, and its cost: threads share the interpreter's lock, and processes copy batches
//! through memory.

use super::Operation;
use crate::check::Check;
use crate::field::Field;
use crate::number::{Positive, Share};
use forebay_model::units::Bandwidth;

/// The kind of a loader's workers, and the keys that depend on it.
pub(super) struct Workers<'s> {
    /// Whether there are no workers, and the trainer does their work.
    pub(super) none: bool,
    /// Whether workers are threads of the trainer's process.
    pub(super) threads: bool,
    /// Share of the workers' computing in which they hold the interpreter's lock.
    pub(super) gil: &'s Field<Share>,
    /// The same as the profile says; 0 if it does not.
    pub(super) measured_gil: f64,
    /// Rate at which processes hand batches over.
    pub(super) ipc: &'s Field<Positive<Bandwidth>>,
}

impl Workers<'_> {
    /// Returns the share of the workers' computing in which they hold the interpreter's lock; remarks on keys that
    /// have no effect with this kind of workers.
    pub(super) fn lock(&self, check: Check<'_>) -> f64 {
        if self.none {
            check.no_effect(self.ipc.at, "there are no workers");
        } else if self.threads {
            check.no_effect(self.ipc.at, "threads share the trainer's memory");
        }
        if self.threads {
            let measured = if self.none { 0.0 } else { self.measured_gil };
            return self.gil.get().map_or(measured, |share| share.0);
        }
        check.no_effect(self.gil.at, "each process has its own interpreter");
        0.0
    }

    /// Returns the work of a worker to hand a batch over; `None` if it takes no time.
    pub(super) fn hand_over(&self) -> Option<Operation> {
        self.copies().filter(|_| !self.threads).map(Operation::Memcpy)
    }

    /// Returns the work that processes would need to hand over a batch, in place of the threads or the trainer that make it now
    /// [core-s/B]; `None` if processes make it already.
    pub(super) fn process_copies(&self) -> Option<f64> {
        self.copies().filter(|_| self.threads)
    }

    /// Returns the work of a worker process to hand over a batch [core-s/B].
    fn copies(&self) -> Option<f64> {
        Some(1.0 / self.ipc.get()?.0)
    }
}
