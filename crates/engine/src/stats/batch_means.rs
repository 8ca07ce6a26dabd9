//! Confidence intervals from one run by batch means, and how many values of a series count as independent.

use super::student_975;

/// Minimum number of independent batch means for which there is an interval (Law, *Simulation Modeling and Analysis*,
/// section 9.5.3: ten to thirty).
pub const FEWEST_BATCHES: usize = 10;

/// Maximum number of successive parts (batches, each with a mean of its own) into which a run is divided.
pub const MOST_BATCHES: usize = 64;

/// Smallest correlation time that is returned [values]: a few values cannot prove a smaller one.
const LEAST: f64 = 0.3;

/// Returns the correlation time of a series, in values: 1 if the values are independent, more if neighbours are
/// alike, less if they alternate.
///
/// It is `1 + 2 Σ ρ` over the correlations ρ of values at all lags. Lags are taken in pairs, as long as the sum of a
/// pair is above 0. If the sum of a pair exceeds the sum of the pair before, the smaller sum counts for both (Geyer,
/// *Practical Markov chain Monte Carlo*, Statistical Science 7, 1992, section 3.3). Correlations around an estimated
/// mean are too low by about the correlation time ÷ the number of values; the result is corrected for that. Infinite if
/// the series is too short for an estimate.
pub fn correlation_time(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let centre = values.iter().sum::<f64>() / n;
    let rest: Vec<f64> = values.iter().map(|value| value - centre).collect();
    let squares: f64 = rest.iter().map(|value| value * value).sum();
    let scale = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    if squares <= n * (1e-9 * scale).powi(2) {
        return 1.0;
    }
    let correlation = |lag: usize| {
        let pairs = rest.iter().zip(&rest[lag..]);
        pairs.map(|(a, b)| a * b).sum::<f64>() / squares
    };
    let (mut time, mut before) = (-1.0, f64::INFINITY);
    for lag in (0..values.len() / 2).step_by(2) {
        let pair = (correlation(lag) + correlation(lag + 1)).min(before);
        if pair <= 0.0 {
            break;
        }
        time += 2.0 * pair;
        before = pair;
    }
    let part = time / n;
    if part < 0.5 { (time * (1.0 + 1.5 / n) / (1.0 - part)).max(LEAST) } else { f64::INFINITY }
}

/// Returns the effective sample size: the number of independent values that would determine the mean as precisely as
/// `values` do.
pub fn independent_values(values: &[f64]) -> f64 {
    values.len() as f64 / correlation_time(values)
}

/// Returns the half-width of the 95 % interval of the ratio `Σ a ÷ Σ b` of pairs `(a, b)`, one pair from each of the
/// successive batches of one run. It is Student's interval of the residuals `a − ratio · b` (Cochran, *Sampling
/// Techniques*, section 6.4); the degrees of freedom follow from the number of independent residuals. `None` if fewer
/// than [`FEWEST_BATCHES`] residuals are independent, or if `Σ b` is not above 0.
pub fn ratio_half_width(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (a, b) = pairs.iter().fold((0.0, 0.0), |(a, b), pair| (a + pair.0, b + pair.1));
    if pairs.len() < FEWEST_BATCHES || b <= 0.0 {
        return None;
    }
    let ratio = a / b;
    let residuals: Vec<f64> = pairs.iter().map(|pair| pair.0 - ratio * pair.1).collect();
    let size = pairs.iter().fold(0.0_f64, |most, pair| most.max(pair.0.abs()));
    if residuals.iter().all(|residual| residual.abs() <= 1e-9 * size) {
        return Some(0.0);
    }
    let independent = independent_values(&residuals);
    if independent < FEWEST_BATCHES as f64 {
        return None;
    }
    let variance = residuals.iter().map(|value| value * value).sum::<f64>() / (n - 1.0);
    let freedom = independent.min(n) - 1.0;
    let half = student_975(freedom)? * (variance / independent).sqrt() / (b / n);
    half.is_finite().then_some(half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use rand_distr::StandardNormal;

    /// An autoregressive series around 10 with correlation `rho`.
    fn series(rho: f64, n: usize, seed: u64) -> Vec<f64> {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut x: f64 = generator.sample(StandardNormal);
        let noise = (1.0 - rho * rho).sqrt();
        let mut next = || {
            x = rho * x + noise * generator.sample::<f64, _>(StandardNormal);
            10.0 + x
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn correlated_values_count_as_fewer_independent_values() {
        // An autoregressive series has the correlation time (1 + ρ) ÷ (1 − ρ).
        for (rho, n) in [(0.0, 20_000), (0.5, 20_000), (0.9, 100_000)] {
            let (found, expected) =
                (correlation_time(&series(rho, n, 1)), (1.0 + rho) / (1.0 - rho));
            assert!((found / expected - 1.0).abs() < 0.15, "{found} instead of {expected}");
        }
        let trend: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(independent_values(&trend) < 10.0);
        assert_eq!(correlation_time(&[3.0; 40]), 1.0);
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert_eq!(correlation_time(&alternating), LEAST);
    }

    #[test]
    fn a_ratio_with_equal_divisors_has_the_interval_of_a_mean() {
        let values = series(0.0, 64, 5);
        let pairs: Vec<(f64, f64)> = values.iter().map(|value| (*value, 1.0)).collect();
        let [low, high] = super::super::t_interval(&values).expect("an interval");
        let half = ratio_half_width(&pairs).expect("an interval");
        let wider = correlation_time(&values).sqrt();
        assert!((half / wider / ((high - low) / 2.0) - 1.0).abs() < 0.02, "{half} {low} {high}");
        assert_eq!(ratio_half_width(&[(1.0, 2.0)]), None);
        assert_eq!(ratio_half_width(&[(1.0, 0.0); 20]), None);
        assert_eq!(ratio_half_width(&[(1.0, 2.0); 20]), Some(0.0));
    }

    /// System: 1,000 autoregressive series. Expectation: 92 to 97 % of their intervals hold the true mean.
    #[test]
    fn intervals_of_dependent_series_hold_the_mean() {
        for (rho, n) in [(0.0, 64), (0.5, 320), (0.8, 1024), (0.9, 4096)] {
            let holds = |seed: u64| {
                let series = series(rho, n, 1000 + seed);
                let sum = |part: &[f64]| (part.iter().sum::<f64>(), part.len() as f64);
                let pairs: Vec<_> = series.chunks_exact(n / MOST_BATCHES).map(sum).collect();
                let centre = series.iter().sum::<f64>() / n as f64;
                Some((centre - 10.0).abs() <= ratio_half_width(&pairs)?)
            };
            let found: Vec<bool> = (0..1000).filter_map(holds).collect();
            let share = found.iter().filter(|holds| **holds).count() as f64 / found.len() as f64;
            assert!((0.92..=0.97).contains(&share), "{share} with {rho}, of {}", found.len());
        }
    }
}
