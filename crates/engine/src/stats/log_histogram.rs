//! A histogram of positive values over many decades.

use super::weighted_quantile;
use std::collections::BTreeMap;

/// Upper border of a bin ÷ its lower border.
const RATIO: f64 = 1.02;

/// Counts of values ≥ 0 in geometric bins 2 % wide, so that a value read back is within 1 % of the
/// value put in. Zero and values below 1e-300 share a bin of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogHistogram {
    /// Number of values in each bin, by the number of the bin; bin `b` holds values from `RATIO^b`
    /// to `RATIO^(b + 1)`.
    counts: BTreeMap<i32, u64>,
}

impl LogHistogram {
    /// Creates an empty histogram.
    pub fn new() -> LogHistogram {
        LogHistogram::default()
    }

    /// Counts `value` `count` times; negative values and NaN count as 0.
    pub fn add(&mut self, value: f64, count: u64) {
        if count > 0 {
            let total = self.counts.entry(bin(value)).or_default();
            *total = total.saturating_add(count);
        }
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &LogHistogram) {
        for (&bin, &count) in &other.counts {
            *self.counts.entry(bin).or_default() += count;
        }
    }

    /// Returns the number of values that were counted.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Iterates over (value, count) in ascending order; each value is the geometric middle of its
    /// bin.
    pub fn iter(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.counts.iter().map(|(&bin, &count)| (middle(bin), count))
    }

    /// Returns the mean of the values, exact to 1 %; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count() as f64;
        (count > 0.0).then(|| self.iter().map(|(value, n)| value * (n as f64 / count)).sum())
    }

    /// Returns the smallest value at or below which a share `q` in 0–1 of the values lies, exact to
    /// 1 %; `None` if there are no values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let values: Vec<_> = self.iter().map(|(value, count)| (value, count as f64)).collect();
        weighted_quantile(&values, q)
    }
}

/// Returns the number of the bin of a value.
fn bin(value: f64) -> i32 {
    if value < 1e-300 || value.is_nan() {
        return i32::MIN;
    }
    (value.min(f64::MAX).ln() / RATIO.ln()).floor() as i32
}

/// Returns the geometric middle of a bin.
fn middle(bin: i32) -> f64 {
    if bin == i32::MIN {
        return 0.0;
    }
    ((f64::from(bin) + 0.5) * RATIO.ln()).exp().min(f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn log_histograms_keep_values_to_within_one_percent(exponent in -280.0..300.0f64) {
            let value = 10f64.powf(exponent);
            let mut histogram = LogHistogram::new();
            histogram.add(value, 3);
            let (back, count) = histogram.iter().next().unwrap();
            prop_assert!((back / value - 1.0).abs() <= 0.01 && count == 3, "{} {}", back, value);
        }
    }

    #[test]
    fn histogram_quantiles_and_means_are_as_precise_as_the_bins() {
        let mut histogram = LogHistogram::new();
        (1..=1000).for_each(|i| histogram.add(f64::from(i), 2));
        for (q, expected) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found: f64 = histogram.quantile(q).unwrap();
            assert!((found / expected - 1.0).abs() < 0.021, "{q}: {found}");
        }
        assert!((histogram.mean().unwrap() / 500.5 - 1.0).abs() < 0.01);
        assert_eq!(histogram.count(), 2000);
    }

    #[test]
    fn zero_negative_nan_and_infinite_values_are_counted_in_finite_bins() {
        let mut histogram = LogHistogram::new();
        assert_eq!((histogram.quantile(0.5), histogram.mean()), (None, None));
        [0.0, -1.0, f64::NAN, f64::INFINITY].into_iter().for_each(|value| histogram.add(value, 1));
        histogram.add(7.0, 0);
        let found: Vec<(f64, u64)> = histogram.iter().collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], (0.0, 3));
        assert!(found[1].0.is_finite());
    }
}
