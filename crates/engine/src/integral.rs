//! Integrals over time of numbers that go up and down in steps.

use super::Time;

/// The integral over time of a whole number, exact to the picosecond.
///
/// Each unit counts the instant at which it ends less the one at which it began, so that only
/// changes cost anything, and time that passes costs nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Integral(u128);

impl Integral {
    /// The number grows at `now` by so much.
    #[inline]
    pub fn up(&mut self, now: Time, by: u64) {
        self.0 = self.0.wrapping_sub(u128::from(now.0) * u128::from(by));
    }

    /// The number falls at `now` by so much.
    #[inline]
    pub fn down(&mut self, now: Time, by: u64) {
        self.0 = self.0.wrapping_add(u128::from(now.0) * u128::from(by));
    }

    /// The integral up to `now`, not before the last change, where the number is `value` [ps].
    #[inline]
    pub fn up_to(&self, now: Time, value: u64) -> u128 {
        let integral = self.0.wrapping_add(u128::from(now.0) * u128::from(value));
        debug_assert!(integral >> 127 == 0, "time went backwards");
        integral
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_count() {
        // System: 3 from 10 ps on, 5 more from 20, 6 less from 50. Expectation: 3·10 + 8·30 + 2·50 up to 100 ps, and
        // the same shorter by what lies between.
        let mut integral = Integral::default();
        integral.up(Time(10), 3);
        integral.up(Time(20), 5);
        assert_eq!(integral.up_to(Time(30), 8), 30 + 80);
        integral.down(Time(50), 6);
        assert_eq!(integral.up_to(Time(50), 2), 30 + 240);
        assert_eq!(integral.up_to(Time(100), 2), 30 + 240 + 100);
        // Large numbers at the end of time.
        let mut large = Integral::default();
        large.up(Time(1), u64::MAX / 2);
        let span = u128::from(u64::MAX - 1);
        assert_eq!(large.up_to(Time(u64::MAX), u64::MAX / 2), span * u128::from(u64::MAX / 2));
    }
}
