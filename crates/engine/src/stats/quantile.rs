//! Quantiles.

/// Returns the quantile `q` in 0–1 of values in ascending order, with linear interpolation between
/// neighbours (type 7 of Hyndman and Fan, 1996, the default of R and NumPy); `None` if there are no
/// values.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let (below, part) = (place.floor(), place.fract());
    let low = *sorted.get(below as usize)?;
    let high = *sorted.get((below as usize + 1).min(last))?;
    // The difference of two equal infinities would be NaN.
    Some(if part == 0.0 || low == high { low } else { low + part * (high - low) })
}

/// Returns the smallest value at or below which a share `q` in 0–1 of the total weight lies, given
/// (value, weight) in ascending order of value; `None` if the total weight is 0. For time-weighted
/// figures and histograms.
pub fn weighted_quantile(sorted: &[(f64, f64)], q: f64) -> Option<f64> {
    let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let goal = q.clamp(0.0, 1.0) * total;
    let mut sum = 0.0;
    let met = sorted.iter().find(|(_, weight)| {
        sum += weight;
        *weight > 0.0 && sum >= goal
    });
    met.or(sorted.last()).filter(|_| total > 0.0).map(|&(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expectation: the results of `quantile(c(1, 2, 4, 8), type = 7)` in R.
    #[test]
    fn quantiles_match_type_7_quantiles_of_r() {
        let values = [1.0, 2.0, 4.0, 8.0];
        for (q, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.75, 5.0), (1.0, 8.0)] {
            assert_eq!(quantile(&values, q), Some(expected), "{q}");
        }
        assert!((quantile(&values, 0.95).unwrap() - 7.4).abs() < 1e-12);
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.99), Some(3.0));
        assert_eq!(quantile(&[1.0, f64::INFINITY, f64::INFINITY], 0.9), Some(f64::INFINITY));
    }

    #[test]
    fn weighted_quantiles_are_taken_at_fractions_of_the_total_weight() {
        let values = [(1.0, 1.0), (2.0, 0.0), (3.0, 98.0), (9.0, 1.0)];
        for (q, expected) in [(0.0, 1.0), (0.01, 1.0), (0.5, 3.0), (0.99, 3.0), (0.995, 9.0)] {
            assert_eq!(weighted_quantile(&values, q), Some(expected), "{q}");
        }
        assert_eq!(weighted_quantile(&[], 0.5), None);
        assert_eq!(weighted_quantile(&[(1.0, 0.0)], 0.5), None);
    }
}
