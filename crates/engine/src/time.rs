//! Simulated time in whole picoseconds.
//!
//! Equal instants are equal integers, so ties are decided by rule and never by rounding. The
//! range is 213 days.

use std::ops::{Add, AddAssign, Sub};

/// Picoseconds in one second.
pub const PS_PER_SECOND: f64 = 1e12;

/// An instant of simulated time [ps since the start of the run].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

/// A length of simulated time [ps].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub u64);

impl Time {
    /// The start of every run.
    pub const ZERO: Time = Time(0);
    /// An instant later than every instant that can happen.
    pub const NEVER: Time = Time(u64::MAX);

    /// Returns the instant `seconds` after the start, rounded to the nearest picosecond.
    pub fn from_seconds(seconds: f64) -> Time {
        Time(Span::from_seconds(seconds).0)
    }

    /// Seconds since the start of the run.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / PS_PER_SECOND
    }

    /// The span from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// Returns a span of `seconds`, rounded to the nearest picosecond. Negative values and NaN give
    /// zero; values beyond the range give the longest span.
    pub fn from_seconds(seconds: f64) -> Span {
        let ps = seconds * PS_PER_SECOND;
        // `as` saturates and maps NaN to zero. The result is that of `f64::round`, which would be a
        // function call.
        let whole = ps as u64;
        Span(whole.saturating_add(u64::from(ps - whole as f64 >= 0.5)))
    }

    /// The span in picoseconds.
    #[inline]
    pub fn picoseconds(self) -> f64 {
        // Conversion from a signed integer takes fewer instructions than from an unsigned one.
        i64::try_from(self.0).map_or_else(|_| long(self.0), |ps| ps as f64)
    }

    /// The span in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / PS_PER_SECOND
    }
}

/// Converts a span of more than 106 days [ps], which is too long for an `i64`.
#[cold]
#[inline(never)]
fn long(ps: u64) -> f64 {
    ps as f64
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        self.since(earlier)
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn seconds_are_rounded_half_away_from_zero(bits: u64, whole in 0u64..1 << 54, half: bool) {
            let awkward = f64::from_bits(bits);
            let near_half = (whole as f64 + if half { 0.5 } else { 0.499_999_999 }) / PS_PER_SECOND;
            for seconds in [awkward, near_half, near_half.next_up(), near_half.next_down()] {
                let expected = (seconds * PS_PER_SECOND).round() as u64;
                prop_assert_eq!(Span::from_seconds(seconds).0, expected);
            }
        }
    }

    #[test]
    fn time_spans_of_any_length_convert_to_the_nearest_float() {
        for ps in [0, 1, (1 << 53) + 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
            assert_eq!(Span(ps).picoseconds(), ps as f64, "{ps}");
        }
    }
}
