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
