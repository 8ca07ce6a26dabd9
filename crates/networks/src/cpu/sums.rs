//! Sums that vector instructions can compute: several running sums side by side. In a single running sum, each
//! addition would wait for the previous one.

use super::real::Real;

/// Number of running sums: two vectors of 512 bits. It is the same on every processor, so that no result
/// depends on the length of the processor's vectors.
const LANES: usize = 32;

/// A sum that is being computed, as several running sums.
pub(super) struct Sums<F>([F; LANES]);

impl<F: Real> Sums<F> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Sums([F::default(); LANES])
    }

    /// Adds `of(x)` for each value x.
    #[inline(always)]
    pub(super) fn add(&mut self, values: &[F], of: impl Fn(F) -> F) {
        let (whole, rest) = values.as_chunks::<LANES>();
        for chunk in whole {
            self.0.iter_mut().zip(chunk).for_each(|(sum, &x)| *sum += of(x));
        }
        self.0.iter_mut().zip(rest).for_each(|(sum, &x)| *sum += of(x));
    }

    /// Adds `of(x, y)` for each pair of values x of `a` and y of `b`.
    #[inline(always)]
    pub(super) fn add_pairs(&mut self, a: &[F], b: &[F], of: impl Fn(F, F) -> F) {
        let ((left, a), (right, b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        for (left, right) in left.iter().zip(right) {
            let pairs = left.iter().zip(right);
            self.0.iter_mut().zip(pairs).for_each(|(sum, (&a, &b))| *sum += of(a, b));
        }
        self.0.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (&a, &b))| *sum += of(a, b));
    }

    /// Returns the total of all running sums.
    #[inline(always)]
    pub(super) fn total(mut self) -> F {
        let mut half = LANES / 2;
        while half > 0 {
            let (low, high) = self.0.split_at_mut(half);
            low.iter_mut().zip(high).for_each(|(low, high)| *low += *high);
            half /= 2;
        }
        self.0[0]
    }
}

/// Returns the sum of these values.
#[inline(always)]
pub(super) fn sum<F: Real>(values: &[F]) -> F {
    let mut sums = Sums::new();
    sums.add(values, |x| x);
    sums.total()
}

/// Returns the largest of `values`, which must not be empty.
#[inline(always)]
pub(super) fn largest<F: Real>(values: &[F]) -> F {
    let mut tops = [values[0]; LANES];
    for chunk in values.chunks(LANES) {
        for (top, &x) in tops.iter_mut().zip(chunk) {
            *top = if x > *top { x } else { *top };
        }
    }
    tops.into_iter().fold(tops[0], |a, b| if b > a { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses whole numbers, so that sums are exact in any order.
    #[test]
    fn fast_sums_and_maxima_equal_results_of_simple_loops() {
        for n in [1, 2, 31, 32, 33, 64, 100] {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i * 37 % 23) - 9.0).collect();
            let others: Vec<f64> = values.iter().rev().copied().collect();
            assert_eq!(sum(&values), values.iter().sum::<f64>(), "{n}");
            assert_eq!(largest(&values), values.iter().copied().fold(-9.0, f64::max), "{n}");
            let mut squares = Sums::new();
            squares.add(&values, |x| x * x);
            squares.add_pairs(&values, &others, |x, y| x - 2.0 * y);
            let expected: f64 = values.iter().zip(&others).map(|(x, y)| x * x + x - 2.0 * y).sum();
            assert_eq!(squares.total(), expected, "{n}");
        }
    }
}
