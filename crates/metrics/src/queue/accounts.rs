//! A queue's running totals.

use forebay_engine::{Integral, PS_PER_SECOND, Time};
use forebay_report::QueueTotals;

/// Running totals with integrals over time as integers: exact, so that Little's law can be checked to the picosecond.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Accounts {
    pub(super) enqueued: u64,
    pub(super) dequeued: u64,
    pub(super) level: Integral,
    pub(super) blocked: Integral,
    /// Time during which at least one model copy waits for a batch.
    pub(super) empty: Integral,
    pub(super) residence_ps: u128,
}

impl Accounts {
    /// Returns the totals up to `now`, in the units of reports. `level`, `blocked` and `waiting` are the samples in the
    /// queue, the blocked workers and the waiting model copies since the last change.
    #[inline]
    pub(super) fn totals(&self, now: Time, level: u64, blocked: u32, waiting: u32) -> QueueTotals {
        QueueTotals {
            level_seconds: seconds(self.level.up_to(now, level)),
            empty_seconds: seconds(self.empty.up_to(now, (waiting > 0).into())),
            // Samples that were started and not yet put in are known to the loader only.
            started: self.enqueued,
            enqueued: self.enqueued,
            dequeued: self.dequeued,
            blocked_seconds: seconds(self.blocked.up_to(now, blocked.into())),
            residence_seconds: seconds(self.residence_ps),
        }
    }
}

/// Converts picoseconds to seconds.
#[inline]
fn seconds(ps: u128) -> f64 {
    u64::try_from(ps).map_or_else(|_| widely(ps), |ps| ps as f64) / PS_PER_SECOND
}

/// Converts a number that does not fit in 64 bits. Such numbers are rare and take ten times as long. The function is separate
/// because the compiler would otherwise convert every number both ways.
#[cold]
#[inline(never)]
fn widely(ps: u128) -> f64 {
    ps as f64
}
