//! Fingerprints of states, which show whether a model is in the same state as before.

use super::Time;

/// Odd factors without a pattern in their bits, one for each half.
const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

/// A digest of numbers that describe a state at an instant. Times count relative to that instant, so that a model that does
/// the same again and again has the same fingerprint each time.
#[derive(Debug, Clone)]
pub struct Fingerprint {
    now: Time,
    halves: [u64; 2],
}

impl Fingerprint {
    /// Returns the fingerprint of a state at `now`, before anything of the state is added.
    pub fn new(now: Time) -> Fingerprint {
        Fingerprint { now, halves: [0; 2] }
    }

    /// Returns the instant of the state.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Adds a number.
    #[inline]
    pub fn add(&mut self, number: u64) {
        for (half, factor) in self.halves.iter_mut().zip(FACTORS) {
            // The upper half of the product depends on all bits of both factors.
            let product = u128::from((*half ^ number).wrapping_add(factor)) * u128::from(factor);
            *half = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
        }
    }

    /// Adds numbers, and how many there are.
    pub fn add_all(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let mut count = 0;
        for number in numbers {
            self.add(number);
            count += 1;
        }
        self.add(count);
    }

    /// Adds a time, as its distance from the instant of the state.
    #[inline]
    pub fn add_time(&mut self, at: Time) {
        self.add(at.0.wrapping_sub(self.now.0));
    }

    /// Returns the digest: equal for equal states, and different for different ones except with a chance of about 2^-128.
    pub fn digest(&self) -> [u64; 2] {
        self.halves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(now: u64, numbers: &[u64], times: &[u64]) -> [u64; 2] {
        let mut fingerprint = Fingerprint::new(Time(now));
        fingerprint.add_all(numbers.iter().copied());
        times.iter().for_each(|at| fingerprint.add_time(Time(*at)));
        fingerprint.digest()
    }

    #[test]
    fn fingerprints_are_equal_for_equal_numbers_at_equal_distances_in_time() {
        let first = of(100, &[3, 0, 7], &[90, 140]);
        assert_eq!(first, of(1100, &[3, 0, 7], &[1090, 1140]));
        for other in [
            of(100, &[0, 3, 7], &[90, 140]),
            of(100, &[3, 0, 7, 0], &[90, 140]),
            of(100, &[3, 0], &[90, 140]),
            of(101, &[3, 0, 7], &[90, 140]),
            of(100, &[3, 0, 7], &[140, 90]),
        ] {
            assert!(first[0] != other[0] && first[1] != other[1]);
        }
    }
}
