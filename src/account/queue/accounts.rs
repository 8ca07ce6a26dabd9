//! A queue's running totals.

use crate::engine::{PS_PER_SECOND, Time};
use crate::report::QueueTotals;

/// Integer integrals over time: exact, so that Little's law can be checked to the picosecond.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Accounts {
    level_ps: u128,
    blocked_ps: u128,
    /// Up to when they are.
    pub(super) last: Time,
    empty_ps: u64,
    pub(super) enqueued: u64,
    pub(super) dequeued: u64,
    pub(super) residence_ps: u128,
}

impl Accounts {
    /// All 0 at `start`.
    pub(super) fn new(start: Time) -> Accounts {
        Accounts { last: start, ..Accounts::default() }
    }

    /// Brings the integrals up to `to`, with the queue as it has been since.
    #[inline]
    pub(super) fn run(&mut self, to: Time, level: u64, blocked: u32, waiting: u32) {
        let dt = to.since(self.last).0;
        self.last = to;
        self.level_ps += level as u128 * dt as u128;
        self.blocked_ps += blocked as u128 * dt as u128;
        if waiting > 0 {
            self.empty_ps += dt;
        }
    }

    /// In the units of reports.
    #[inline]
    pub(super) fn totals(&self) -> QueueTotals {
        QueueTotals {
            level_seconds: seconds(self.level_ps),
            empty_seconds: self.empty_ps as f64 / PS_PER_SECOND,
            enqueued: self.enqueued,
            dequeued: self.dequeued,
            blocked_seconds: seconds(self.blocked_ps),
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
