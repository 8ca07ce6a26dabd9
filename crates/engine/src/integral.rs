//! Integrals over time of numbers that go up and down in steps.

use super::Time;

/// The integral over time of a whole number, exact to the picosecond.
///
/// Each unit of the number adds the instant at which it ends minus the instant at which it began. So only changes of
/// the number cost anything; time that passes costs nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Integral(u128);

impl Integral {
    /// Records that the number grows by `by` at `now`.
    #[inline]
    pub fn up(&mut self, now: Time, by: u64) {
        self.0 = self.0.wrapping_sub(u128::from(now.0) * u128::from(by));
    }

    /// Records that the number falls by `by` at `now`.
    #[inline]
    pub fn down(&mut self, now: Time, by: u64) {
        self.0 = self.0.wrapping_add(u128::from(now.0) * u128::from(by));
    }

    /// Returns the integral up to `now`, given the number `value` at `now` [ps]; `now` must not lie before the last
    /// change.
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
    fn the_integral_is_the_sum_of_each_value_times_its_duration() {
        // System: the number is 3 from 10 ps on, 8 from 20 ps on and 2 from 50 ps on. Expectation: up to 100 ps the
        // integral is 3·10 + 8·30 + 2·50; up to 30 ps and 50 ps it is the part of this sum up to there.
        let mut integral = Integral::default();
        integral.up(Time(10), 3);
        integral.up(Time(20), 5);
        assert_eq!(integral.up_to(Time(30), 8), 30 + 80);
        integral.down(Time(50), 6);
        assert_eq!(integral.up_to(Time(50), 2), 30 + 240);
        assert_eq!(integral.up_to(Time(100), 2), 30 + 240 + 100);
        // Large numbers up to the last instant do not overflow.
        let mut large = Integral::default();
        large.up(Time(1), u64::MAX / 2);
        let span = u128::from(u64::MAX - 1);
        assert_eq!(large.up_to(Time(u64::MAX), u64::MAX / 2), span * u128::from(u64::MAX / 2));
    }
}
