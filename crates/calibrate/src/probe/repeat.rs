//! Decides whether a trial has been repeated often enough, and whether its times drift.

use forebay_engine::stats::quantile;

/// Returns the median of values in any order and its 95 % confidence interval. The interval lies between two order
/// statistics and needs no assumption about the distribution of the values (Conover, *Practical Nonparametric
/// Statistics*, section 3.2). The interval is `None` for fewer than six values; the result is `None` if there are
/// no values.
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<(f64, Option<[f64; 2]>)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = quantile(&sorted, 0.5)?;
    let n = sorted.len();
    let outside = outside(n);
    Some((median, outside.map(|outside| [sorted[outside], sorted[n - 1 - outside]])))
}

/// Returns half of the width of the median's confidence interval, divided by the median; infinite for fewer
/// than six values.
#[must_use]
pub(super) fn relative_half_width(values: &[f64]) -> f64 {
    match median_interval(values) {
        Some((median, Some([low, high]))) if median > 0.0 => (high - low) / 2.0 / median,
        _ => f64::INFINITY,
    }
}

/// Returns how many of `n` sorted values lie outside the median's 95 % confidence interval at each end; `None` for
/// fewer than six values. The true median lies beyond each end of the interval with a probability of at most 2.5
/// %: the number of values below the true median is binomial with probability ½.
fn outside(n: usize) -> Option<usize> {
    let mut chance = 0.5_f64.powi(i32::try_from(n).ok()?);
    let (mut below, mut outside) = (0.0, None);
    for k in 0..n / 2 {
        below += chance;
        if below > 0.025 {
            break;
        }
        outside = Some(k);
        chance *= (n - k) as f64 / (k + 1) as f64;
    }
    outside
}

/// Returns whether values, in the order in which they were taken, drift: they have a trend, and rise or fall by
/// more than the share `least` of their median. The trend is found by Mann and Kendall's test at the 1 % level
/// (Mann, *Nonparametric tests against trend*, 1945).
#[must_use]
pub(super) fn drifts(values: &[f64], least: f64) -> bool {
    let n = values.len();
    let mut sum = 0_i64;
    for (i, &early) in values.iter().enumerate() {
        for &late in &values[i + 1..] {
            sum += i64::from(late > early) - i64::from(late < early);
        }
    }
    let n = n as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let significant = (sum.unsigned_abs() as f64 - 1.0) > 2.576 * deviation;
    significant && rise(values).abs() > least
}

/// Returns the rise of the median from the first to the last third of the values, divided by the median of all
/// values.
fn rise(values: &[f64]) -> f64 {
    let third = (values.len() / 3).max(1);
    let median = |values: &[f64]| median_interval(values).map_or(f64::NAN, |(median, _)| median);
    (median(&values[values.len() - third..]) - median(&values[..third])) / median(values)
}

/// Returns how many values at the beginning must be left out so that the rest does not drift: `Some(0)` if
/// nothing drifts, `None` if more than half would have to be left out.
#[must_use]
pub fn leading_trend(values: &[f64], least: f64) -> Option<usize> {
    (0..=values.len() / 2).find(|&from| !drifts(&values[from..], least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::random::{Purpose, Streams};
    use rand::RngExt;

    /// Ranks from tables of the sign test: n = 6: 1 and 6; n = 10: 2 and 9; n = 20: 6 and 15.
    #[test]
    fn the_interval_of_a_median_has_the_ranks_of_sign_test_tables() {
        for (n, ranks) in [(6, [1.0, 6.0]), (9, [2.0, 8.0]), (10, [2.0, 9.0]), (20, [6.0, 15.0])] {
            let values: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            let (median, interval) = median_interval(&values).unwrap();
            assert_eq!((median, interval), (f64::from(n + 1) / 2.0, Some(ranks)), "{n}");
        }
        assert_eq!(median_interval(&[1.0; 5]), Some((1.0, None)));
        assert_eq!(median_interval(&[]), None);
        assert_eq!(relative_half_width(&[2.0; 6]), 0.0);
        assert_eq!(relative_half_width(&[2.0; 5]), f64::INFINITY);
    }

    #[test]
    fn an_initial_trend_in_trials_is_excluded_and_an_endless_trend_is_reported() {
        let settles: Vec<f64> = (0..20)
            .map(|i| if i < 5 { 5.0 - f64::from(i) / 2.0 } else { 2.0 + 0.01 * f64::from(i % 3) })
            .collect();
        let from = leading_trend(&settles, 0.05).unwrap();
        assert!((1..=5).contains(&from), "{from}");
        let climbs: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(leading_trend(&climbs, 0.05), None);
        assert_eq!(leading_trend(&[1.0; 9], 0.05), Some(0));
        let hardly: Vec<f64> = (0..20).map(|i| 1.0 + 1e-4 * f64::from(i)).collect();
        assert_eq!(leading_trend(&hardly, 0.05), Some(0), "too small to matter");
        assert_eq!(leading_trend(&[], 0.05), Some(0));
    }

    /// System: 2000 series without a trend. Expectation: a trend is found in one of a hundred, within five
    /// standard errors.
    #[test]
    fn noise_is_seldom_called_a_trend() {
        let called = (0..2000).filter(|&series| {
            let mut generator = Streams::new(1, 0).at(Purpose::Trial, 0, series, 0);
            let values: Vec<f64> = (0..12).map(|_| generator.random::<f64>()).collect();
            drifts(&values, 0.0)
        });
        let share = called.count() as f64 / 2000.0;
        assert!((share - 0.01).abs() < 5.0 * (0.01_f64 / 2000.0).sqrt(), "{share}");
    }
}
