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

/// One of the successive batches of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Batch {
    /// Dividend of the ratio, summed over the batch.
    pub a: f64,
    /// Divisor of the ratio, summed over the batch.
    pub b: f64,
    /// Change over the batch of a quantity that is the same at the end of a long run as at its beginning, such as the number
    /// of samples in buffers; 0 if there is none.
    pub change: f64,
}

/// Returns the half-width of the 95 % interval of the ratio `Σ a ÷ Σ b` over the successive batches of one run. It is
/// Student's interval of the residuals `a − ratio · b` (Cochran, *Sampling Techniques*, section 6.4); the degrees of freedom
/// follow from the number of independent residuals. `None` if fewer than [`FEWEST_BATCHES`] residuals are independent, or if
/// `Σ b` is not above 0.
///
/// The changes are control variates (Lavenberg and Welch, *A perspective on the use of control variables*, Management Science
/// 27, 1981): the long run's sum of changes is 0, so what they explain of the residuals does not add up over batches. Only
/// what they explain of the sum over all batches is added to the half-width. If that exceeds the random half-width, the
/// quantity was not level, and the changes are ignored.
///
/// If something recurs regularly, such as the end of an epoch, `phases` is the number of batches in one of its periods, and
/// the batches are those of whole periods; otherwise it is 1. Only differences between batches of the same phase are then due
/// to chance: a residual is taken from the mean residual of its phase. Two periods are enough for an interval.
pub fn ratio_half_width(batches: &[Batch], phases: usize) -> Option<f64> {
    let n = batches.len() as f64;
    let sum = |of: fn(&Batch) -> f64| batches.iter().map(of).sum::<f64>();
    let (a, b) = (sum(|batch| batch.a), sum(|batch| batch.b));
    if batches.len() < FEWEST_BATCHES || b <= 0.0 {
        return None;
    }
    let ratio = a / b;
    let residuals: Vec<f64> = batches.iter().map(|batch| batch.a - ratio * batch.b).collect();
    let residuals = without_phase_means(&residuals, phases);
    let size = batches.iter().fold(0.0_f64, |most, batch| most.max(batch.a.abs()));
    if residuals.iter().all(|residual| residual.abs() <= 1e-9 * size) {
        return Some(0.0);
    }
    let plain = random_half_width(&residuals, phases, 0.0);
    let centre = sum(|batch| batch.change) / n;
    let changes: Vec<f64> = batches.iter().map(|batch| batch.change).collect();
    let (slope, rest) = without_linear_part(&residuals, &without_phase_means(&changes, phases));
    let explained = (slope * centre).abs();
    let controlled = random_half_width(&rest, phases, 1.0).filter(|half| explained <= *half);
    let half = if slope == 0.0 { plain } else { controlled.map(|half| half + explained).or(plain) };
    half.map(|half| half / (b / n)).filter(|half| half.is_finite())
}

/// Returns the values less the mean of all values of their phase; value number `i` is of phase `i % phases`.
pub fn without_phase_means(values: &[f64], phases: usize) -> Vec<f64> {
    let phases = phases.max(1);
    let mean = |phase: usize| {
        let of = values.iter().skip(phase).step_by(phases);
        of.clone().sum::<f64>() / of.count().max(1) as f64
    };
    let means: Vec<f64> = (0..phases).map(mean).collect();
    values.iter().enumerate().map(|(i, value)| value - means[i % phases]).collect()
}

/// Returns the half-width of Student's interval of the mean of residuals, from which the means of their `phases` and `fitted`
/// more coefficients were fitted; `None` if fewer than [`FEWEST_BATCHES`] are independent.
fn random_half_width(residuals: &[f64], phases: usize, fitted: f64) -> Option<f64> {
    let (n, fitted) = (residuals.len() as f64, fitted + phases as f64);
    let independent = independent_values(residuals);
    if independent < FEWEST_BATCHES as f64 {
        return None;
    }
    let squares = || residuals.iter().map(|value| value * value);
    let variance = squares().sum::<f64>() / (n - fitted);
    let freedom = match phases {
        0 | 1 => independent.min(n) - fitted,
        _ => phase_freedom(residuals, phases),
    };
    Some(student_975(freedom)? * (variance / independent).sqrt())
}

/// Returns the degrees of freedom of a sum of the variances of `phases` phases, some of which vary more than others (Welch,
/// *The generalization of Student's problem when several different population variances are involved*, Biometrika 34, 1947).
fn phase_freedom(residuals: &[f64], phases: usize) -> f64 {
    let periods = residuals.len() as f64 / phases as f64;
    let squares = |phase: usize| -> f64 {
        residuals.iter().skip(phase).step_by(phases).map(|value| value * value).sum()
    };
    let each: Vec<f64> = (0..phases).map(squares).collect();
    let (sum, fourth) = each.iter().fold((0.0, 0.0), |(a, b), of| (a + of, b + of * of));
    // At least 1: a single phase varies, and has one degree of freedom for each period but one.
    (sum * sum * (periods - 1.0) / fourth).max(1.0)
}

/// Returns the slope of the regression of `values` on `centred` values, whose sum is 0, and the values without their linear
/// part. The slope is 0 if all `centred` values are.
fn without_linear_part(values: &[f64], centred: &[f64]) -> (f64, Vec<f64>) {
    let products = values.iter().zip(centred).map(|(value, x)| value * x).sum::<f64>();
    let squares = centred.iter().map(|x| x * x).sum::<f64>();
    let slope = if squares > 0.0 { products / squares } else { 0.0 };
    (slope, values.iter().zip(centred).map(|(value, x)| value - slope * x).collect())
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
        let mean_of = |value: &f64| Batch { a: *value, b: 1.0, change: 0.0 };
        let batches: Vec<Batch> = values.iter().map(mean_of).collect();
        let [low, high] = super::super::t_interval(&values).expect("an interval");
        let half = ratio_half_width(&batches, 1).expect("an interval");
        let wider = correlation_time(&values).sqrt();
        assert!((half / wider / ((high - low) / 2.0) - 1.0).abs() < 0.02, "{half} {low} {high}");
        let equal = |b: f64, n: usize| vec![Batch { a: 1.0, b, change: 0.0 }; n];
        assert_eq!(ratio_half_width(&equal(2.0, 1), 1), None);
        assert_eq!(ratio_half_width(&equal(0.0, 20), 1), None);
        assert_eq!(ratio_half_width(&equal(2.0, 20), 1), Some(0.0));
    }

    /// System: batches that take longer by what a buffer gains in them, and less by what it loses. Expectation: gains that are lost
    /// again do not widen the interval; the small gain over all batches does; a buffer that fills steadily is no control variate.
    #[test]
    fn what_a_buffer_gains_and_loses_again_does_not_widen_the_interval() {
        let noise = series(0.0, 64, 5);
        let levels: Vec<f64> = series(0.0, 65, 6).iter().map(|level| 3.0 * level).collect();
        let batch = |i: usize, trend: f64| {
            let change = levels[i + 1] - levels[i] + trend;
            Batch { a: noise[i] + 2.0 * change, b: 1.0, change }
        };
        let half = |batches: Vec<Batch>| ratio_half_width(&batches, 1).expect("an interval");
        let bare = half(noise.iter().map(|a| Batch { a: *a, b: 1.0, change: 0.0 }).collect());
        let rest = 2.0 * (levels[64] - levels[0]).abs() / 64.0;
        let found = half((0..64).map(|i| batch(i, 0.0)).collect());
        assert!((found / (bare + rest) - 1.0).abs() < 0.05, "{found} {bare} {rest}");
        let ignored = (0..64).map(|i| Batch { change: 0.0, ..batch(i, 0.0) }).collect();
        assert!(half(ignored) > 3.0 * bare);
        let grown = |i| batch(i, 5.0);
        let plain = half((0..64).map(|i| Batch { change: 0.0, ..grown(i) }).collect());
        assert_eq!(half((0..64).map(grown).collect()), plain);
    }

    /// System: two or three periods of noise that differs by phase, with a large event at one phase of each. Expectation: 92 to
    /// 97 % of the intervals hold the mean, and they do not allow for more or fewer events than one in a period.
    #[test]
    fn intervals_of_whole_periods_hold_the_mean_though_an_event_recurs() {
        for periods in [2, 3, 8] {
            let phases = MOST_BATCHES / periods;
            let half = |seed: u64| {
                let noise = series(0.3, periods * phases, 7000 + seed);
                let batch = |(i, a): (usize, &f64)| {
                    let event = if i % phases == 5 { 200.0 } else { 0.0 };
                    Batch { a: a - 10.0 + event, b: 1.0, change: 0.0 }
                };
                let batches: Vec<_> = noise.iter().enumerate().map(batch).collect();
                let n = batches.len() as f64;
                let centre = batches.iter().map(|batch| batch.a).sum::<f64>() / n;
                let half = ratio_half_width(&batches, phases)?;
                Some(((centre - 200.0 / phases as f64).abs() <= half, half))
            };
            let found: Vec<(bool, f64)> = (0..1000).filter_map(half).collect();
            let share =
                found.iter().filter(|(holds, _)| *holds).count() as f64 / found.len() as f64;
            let widest = found.iter().map(|(_, half)| *half).fold(0.0, f64::max);
            assert!((0.92..=0.975).contains(&share) && widest < 1.0, "{periods}: {share} {widest}");
        }
    }

    /// System: 1,000 autoregressive series. Expectation: 92 to 97 % of their intervals hold the true mean.
    #[test]
    fn intervals_of_dependent_series_hold_the_mean() {
        for (rho, n) in [(0.0, 64), (0.5, 320), (0.8, 1024), (0.9, 4096)] {
            let holds = |seed: u64| {
                let series = series(rho, n, 1000 + seed);
                let sum = |part: &[f64]| Batch {
                    a: part.iter().sum(),
                    b: part.len() as f64,
                    change: 0.0,
                };
                let batches: Vec<_> = series.chunks_exact(n / MOST_BATCHES).map(sum).collect();
                let centre = series.iter().sum::<f64>() / n as f64;
                Some((centre - 10.0).abs() <= ratio_half_width(&batches, 1)?)
            };
            let found: Vec<bool> = (0..1000).filter_map(holds).collect();
            let share = found.iter().filter(|holds| **holds).count() as f64 / found.len() as f64;
            assert!((0.92..=0.97).contains(&share), "{share} with {rho}, of {}", found.len());
        }
    }
}
