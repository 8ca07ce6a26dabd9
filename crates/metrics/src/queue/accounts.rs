//! A queue's running totals.

use forebay_engine::{Integral, PS_PER_SECOND, Time};
use forebay_report::QueueTotals;

/// Integer integrals over time: exact, so that Little's law can be checked to the picosecond.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Accounts {
    pub(super) enqueued: u64,
    pub(super) dequeued: u64,
    pub(super) level: Integral,
    pub(super) blocked: Integral,
    /// Of whether anybody waits for a batch.
    pub(super) empty: Integral,
    pub(super) residence_ps: u128,
}

impl Accounts {
    /// In the units of reports, up to `now`, with the queue as it has been since the last change.
    #[inline]
    pub(super) fn totals(&self, now: Time, level: u64, blocked: u32, waiting: u32) -> QueueTotals {
        QueueTotals {
            level_seconds: seconds(self.level.up_to(now, level)),
            empty_seconds: seconds(self.empty.up_to(now, (waiting > 0).into())),
            // Only the loader knows more.
            started: self.enqueued,
            enqueued: self.enqueued,
            dequeued: self.dequeued,
            blocked_seconds: seconds(self.blocked.up_to(now, blocked.into())),
            residence_seconds: seconds(self.residence_ps),
        }
    }
}

/// The same in seconds.
#[inline]
fn seconds(ps: u128) -> f64 {
    u64::try_from(ps).map_or_else(|_| widely(ps), |ps| ps as f64) / PS_PER_SECOND
}

/// What does not fit in 64 bits, which is rare, takes ten times as long as what does: kept apart, because
/// the compiler converts both ways otherwise.
#[cold]
#[inline(never)]
fn widely(ps: u128) -> f64 {
    ps as f64
}
