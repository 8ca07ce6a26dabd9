//! Where the warm-up of a series ends.

use super::mean;

/// Number of values in each of the batch means that MSER-5 looks at.
const BATCH: usize = 5;

/// The truncation point that MSER-5 found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Number of values to leave out at the beginning; a multiple of 5, at most half of the series.
    pub values: usize,
    /// Whether the series looks stationary after the truncation point. It is `false` if the best point lies at the
    /// very end of the permitted half, because the warm-up may then last longer.
    pub settled: bool,
}

/// Returns the truncation point of a series by the marginal standard error rule on means of five values (White, *An
/// effective truncation heuristic for bias reduction in simulation output*, 1997; White, Cobb and Spratt, 2000). It
/// is the point that minimises the squared standard error of the rest of the series, `Σ (y − mean)² / m²` over the
/// `m` batch means behind the point.
///
/// Only the first half is searched, because the statistic is erratic over the last few values. The earliest of equal
/// minima counts. Deviations below 1e-8 of the mean are rounding, so a constant series keeps all its values. A series
/// of fewer than 20 values (four batches) keeps all its values. Values behind the last whole batch are ignored.
pub fn mser5(series: &[f64]) -> Truncation {
    let means: Vec<f64> = series.chunks_exact(BATCH).filter_map(mean).collect();
    let most = means.len() / 2;
    if most < 2 {
        return Truncation { values: 0, settled: true };
    }
    let best = earliest_minimum(&squared_errors(&means)[..=most]);
    Truncation { values: best * BATCH, settled: best < most }
}

/// Returns, for each start, the squared marginal standard error of the values from there to the end. Sums run from
/// the end, centred on the mean of the last half so that no digits are lost.
fn squared_errors(means: &[f64]) -> Vec<f64> {
    let centre = mean(&means[means.len() / 2..]).unwrap_or(0.0);
    let rounding = (1e-8 * centre).powi(2);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    let mut errors: Vec<f64> = means
        .iter()
        .rev()
        .map(|value| {
            let distance = value - centre;
            sum += distance;
            squares += distance * distance;
            count += 1.0;
            (squares - sum * sum / count).max(rounding * count) / (count * count)
        })
        .collect();
    errors.reverse();
    errors
}

/// Returns the index of the smallest value; a later value counts as smaller only if the difference is more than
/// rounding.
fn earliest_minimum(values: &[f64]) -> usize {
    let mut best = 0;
    for (i, &value) in values.iter().enumerate() {
        if value < values[best] * (1.0 - 1e-9) {
            best = i;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

    fn uniform(n: usize, seed: u64) -> Vec<f64> {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..n).map(|_| generator.random()).collect()
    }

    /// Returns the number of values to leave out, by the definition of MSER-5.
    fn obvious(series: &[f64]) -> usize {
        let means: Vec<f64> = series.chunks_exact(5).map(|five| mean(five).unwrap()).collect();
        let error = |start: usize| {
            let rest = &means[start..];
            let centre = mean(rest).unwrap();
            let squares: f64 = rest.iter().map(|y| (y - centre).powi(2)).sum();
            squares / (rest.len() as f64).powi(2)
        };
        let starts = 0..=means.len() / 2;
        starts.min_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap() * 5
    }

    #[test]
    fn truncation_agrees_with_the_definition_of_mser5() {
        for seed in 0..200 {
            let mut series = uniform(50 + seed as usize, seed);
            (0..seed as usize / 4).for_each(|i| series[i] += 3.0);
            assert_eq!(mser5(&series).values, obvious(&series), "{seed}");
        }
    }

    #[test]
    fn warm_up_truncation_removes_an_initial_shift_of_the_mean() {
        let mut series = uniform(400, 1);
        series[..100].iter_mut().for_each(|x| *x += 50.0);
        let found = mser5(&series);
        assert!((100..=130).contains(&found.values) && found.settled, "{found:?}");
    }

    #[test]
    fn a_series_with_a_trend_is_not_stationary() {
        let series: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(mser5(&series), Truncation { values: 50, settled: false });
    }

    #[test]
    fn constant_and_short_series_are_kept_whole() {
        let all = Truncation { values: 0, settled: true };
        assert_eq!(mser5(&[0.05; 1000]), all);
        assert_eq!(mser5(&[1.0, 9.0, 3.0]), all);
        assert_eq!(mser5(&[]), all);
        let mut rounded = vec![0.05; 1000];
        rounded[3] += 1e-12;
        assert_eq!(mser5(&rounded), all);
    }
}
