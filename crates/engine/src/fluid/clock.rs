//! Virtual clocks: all groups that the same link or cap limits have the same level, so they share one clock.
//!
//! A clock integrates this level (rate ÷ weight) over time. Each group that rides the clock has an entry in the clock's
//! heap, under the value of the clock at which the group's first flow is done.

use super::indexed_heap::IndexedHeap;
use crate::Time;

/// Relative error that the value of a clock may have collected since it was rebased.
const NOISE: f64 = 2e-15;
/// Distance from a whole picosecond up to which an instant counts as whole [ps].
const WHOLE: f64 = 1e-6;
/// Number from which on every `f64` is a whole number.
const FRACTIONAL: f64 = (1u64 << 53) as f64;

/// A virtual clock: the integral over time of a level (rate ÷ weight), and the groups that rise with it. Laid out so
/// that the clock's own numbers and its first entry are in one cache line; the number of entries and the other
/// entries lie beyond.
#[derive(Debug, Clone, Default)]
#[repr(C, align(64))]
pub(super) struct Clock {
    value: f64,
    rate: f64,
    since: Time,
    /// Largest value that the clock had when a rebase moved its origin; rounding errors of keys are relative to this
    /// value.
    reach: f64,
    /// The rate from the next `refresh` on [1/ps].
    pub(super) target: f64,
    /// Whether the instant at which the first entry is due must be found anew.
    pub(super) touched: bool,
    pub(super) entries: IndexedHeap<f64>,
}

impl Clock {
    /// Creates a clock that runs at `rate` [1/ps].
    pub(super) fn new(rate: f64) -> Clock {
        Clock { rate, target: rate, ..Clock::default() }
    }

    /// Returns the value at `now`. At an infinite rate the clock stands still, because all work that is left is then
    /// done at once.
    #[inline]
    pub(super) fn at(&self, now: Time) -> f64 {
        if now == self.since || self.rate == f64::INFINITY {
            return self.value;
        }
        self.value + self.rate * now.since(self.since).picoseconds()
    }

    /// Moves the clock on to `now`; returns its value there.
    #[inline]
    pub(super) fn advance(&mut self, now: Time) -> f64 {
        if now != self.since {
            self.value = self.at(now);
            self.since = now;
        }
        self.value
    }

    /// Records that the instant at which the first entry is due must be found anew; returns whether this was not
    /// recorded before.
    #[inline]
    pub(super) fn touch(&mut self) -> bool {
        !std::mem::replace(&mut self.touched, true)
    }

    /// Sets the rate of the clock to `target` from `now` on; returns the instant at which the first entry is due.
    #[inline]
    pub(super) fn refresh(&mut self, now: Time) -> Time {
        self.touched = false;
        self.advance(now);
        self.rate = self.target;
        self.due(now)
    }

    /// Restarts the clock at 0 if it has no entries, because no group depends on its value then.
    pub(super) fn restart_if_free(&mut self, now: Time) {
        if self.entries.is_empty() {
            (self.value, self.reach, self.since, self.rate) = (0.0, 0.0, now, self.target);
        }
    }

    /// Returns the present rate [1/ps].
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Moves the origin of the clock to its value at `now`; the origins of its groups have been moved there before.
    /// `head` returns the key of each entry relative to the new origin.
    pub(super) fn rebase(&mut self, now: Time, places: &mut [u32], head: impl Fn(u32) -> f64) {
        self.reach = self.reach.max(self.at(now));
        self.value = 0.0;
        self.since = now;
        self.entries.rekey(places, head);
    }

    /// Returns the first instant, not before `now`, at which the first entry is due; the clock must have been moved
    /// on to `now`.
    #[inline]
    fn due(&self, now: Time) -> Time {
        let key = self.entries.first();
        due(now, key, self.value, self.rate, key + self.reach)
    }

    /// Returns the clock's value up to which entries are due at `now`, with an allowance for rounding errors; the
    /// first entry must be due.
    #[inline]
    pub(super) fn ripe(&mut self, now: Time) -> f64 {
        let value = self.advance(now);
        let noise = 2.0 * (WHOLE * self.rate + NOISE * (value + self.reach));
        (value + noise).max(self.entries.first()).min(f64::MAX)
    }
}

/// Returns the first whole picosecond at which a clock that has `value` at `now` reaches `key`.
///
/// Rounds up, unless the instant is whole up to rounding errors of numbers as large as `scale`: an exact completion
/// stays where it is.
#[inline]
pub(super) fn due(now: Time, key: f64, value: f64, rate: f64, scale: f64) -> Time {
    let left = key - value;
    if left <= 0.0 {
        return now;
    }
    let per_rate = 1.0 / rate;
    let exact = left * per_rate - (WHOLE + NOISE * scale * per_rate);
    if exact <= 0.0 {
        return now;
    }
    if exact < FRACTIONAL {
        // Conversion to a signed integer takes fewer instructions than to an unsigned one.
        let below = exact as i64;
        let whole = below + i64::from(exact > below as f64);
        return Time(now.0.saturating_add(whole as u64));
    }
    far(now, left, rate, exact)
}

/// Returns the result of `due` in the special cases: the instant is so far away that every `f64` is whole, the rate
/// is infinite, or a number is NaN.
#[cold]
fn far(now: Time, left: f64, rate: f64, exact: f64) -> Time {
    if rate.is_infinite() && left.is_finite() {
        return now;
    }
    // An endless flow, or one that stalls.
    if exact >= u64::MAX as f64 || exact.is_nan() {
        return Time::NEVER;
    }
    Time(now.0.saturating_add(exact as u64))
}
