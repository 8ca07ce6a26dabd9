//! Virtual clocks: what limits groups rises for all of them alike, so they share one clock.
//!
//! A clock integrates a level (rate ÷ weight). Each group that rides it is filed under the
//! value at which its first flow is done.

use super::indexed_heap::IndexedHeap;
use crate::Time;

/// Relative error that the value of a clock may have collected since it was rebased.
const NOISE: f64 = 2e-15;
/// What is closer to a whole picosecond than this counts as whole [ps].
const WHOLE: f64 = 1e-6;
/// Numbers from here on are whole.
const FRACTIONAL: f64 = (1u64 << 53) as f64;

/// The integral of a level, and the groups that rise with it. Laid out so that what it is and its first entry are
/// one cache line: how many there are and the others lie beyond.
#[derive(Debug, Clone, Default)]
#[repr(C, align(64))]
pub(super) struct Clock {
    value: f64,
    rate: f64,
    since: Time,
    /// The largest value at which the origin was moved: keys have rounding errors of its size.
    reach: f64,
    /// The rate from now on [1/ps].
    pub(super) target: f64,
    /// Its next instant is to be found anew.
    pub(super) touched: bool,
    pub(super) entries: IndexedHeap<f64>,
}

impl Clock {
    /// A clock that is to run at `rate` [1/ps].
    pub(super) fn new(rate: f64) -> Clock {
        Clock { rate, target: rate, ..Clock::default() }
    }

    /// The value at `now`. At an infinite rate it stands still, because what is left is then
    /// done at once.
    #[inline]
    pub(super) fn at(&self, now: Time) -> f64 {
        if now == self.since || self.rate == f64::INFINITY {
            return self.value;
        }
        self.value + self.rate * now.since(self.since).picoseconds()
    }

    /// The value at `now`, from where the clock goes on.
    #[inline]
    pub(super) fn advance(&mut self, now: Time) -> f64 {
        if now != self.since {
            self.value = self.at(now);
            self.since = now;
        }
        self.value
    }

    /// Notes that the next instant is to be found anew; whether that is news.
    #[inline]
    pub(super) fn touch(&mut self) -> bool {
        !std::mem::replace(&mut self.touched, true)
    }

    /// From `now` on the clock runs at its target; gives when its first entry is due.
    #[inline]
    pub(super) fn refresh(&mut self, now: Time) -> Time {
        self.touched = false;
        self.advance(now);
        self.rate = self.target;
        self.due(now)
    }

    /// Nobody knows the value of a clock without entries, so that it may start anew.
    pub(super) fn restart_if_free(&mut self, now: Time) {
        if self.entries.is_empty() {
            (self.value, self.reach, self.since, self.rate) = (0.0, 0.0, now, self.target);
        }
    }

    /// The present rate [1/ps].
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Moves the origin to the value at `now`, where that of every entry is too; `head` gives
    /// the entries' keys from there.
    pub(super) fn rebase(&mut self, now: Time, places: &mut [u32], head: impl Fn(u32) -> f64) {
        self.reach = self.reach.max(self.at(now));
        self.value = 0.0;
        self.since = now;
        self.entries.rekey(places, head);
    }

    /// The first instant, not before `now`, up to where the value is, at which the first entry is
    /// due.
    #[inline]
    fn due(&self, now: Time) -> Time {
        let key = self.entries.first();
        due(now, key, self.value, self.rate, key + self.reach)
    }

    /// IndexedHeap up to this value are due at `now`, given that the first one is.
    #[inline]
    pub(super) fn ripe(&mut self, now: Time) -> f64 {
        let value = self.advance(now);
        let noise = 2.0 * (WHOLE * self.rate + NOISE * (value + self.reach));
        (value + noise).max(self.entries.first()).min(f64::MAX)
    }
}

/// The first whole picosecond at which a clock that has `value` at `now` reaches `key`.
///
/// Rounds up, but not what is whole up to rounding errors of numbers as large as `scale`: an
/// exact completion stays where it is.
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
        // Conversion of signed numbers is the short one.
        let below = exact as i64;
        let whole = below + i64::from(exact > below as f64);
        return Time(now.0.saturating_add(whole as u64));
    }
    far(now, left, rate, exact)
}

/// The same for what is so far away that it is whole, or not a number.
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
