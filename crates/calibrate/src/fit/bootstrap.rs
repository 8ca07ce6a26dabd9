//! Confidence intervals by resampling: the law is fitted again to randomly moved means of the cells.
//!
//! Each draw samples one normal deviate for each block of time. Each block moves the mean of a cell by the influence of the
//! block's trials on this mean, multiplied by the block's deviate (a wild bootstrap of blocks, Shao 2010). So trials that drifted
//! together move together. The spread of the draws is widened by Student's t for the number of blocks, so that intervals from few
//! trials are wide enough.

use super::cell::Cells;
use forebay_engine::stats::{quantile, student_975};
use forebay_model::random::Generator;
use rand::{RngExt, SeedableRng};

/// Random seed of the bootstrap draws; it is fixed, so that the same samples give the same intervals.
const SEED: u64 = 0x000f_04eb_a700;
/// The 97.5 % quantile of the normal distribution.
pub(super) const NORMAL: f64 = 1.959_964;

/// Returns up to `count` bootstrap draws. Each draw moves the means of the cells randomly, and `fit` fits values to the moved
/// means. The distances of the fitted values from `centre`, the values fitted to the unmoved means, are widened by Student's t.
/// Draws for which `fit` returns `None` are left out. Returns no draws if the noise of the means is unknown (`freedom` below 1).
pub(super) fn draws(
    cells: &Cells,
    misfit: f64,
    centre: &[f64],
    count: usize,
    freedom: f64,
    mut fit: impl FnMut(&[f64]) -> Option<Vec<f64>>,
) -> Vec<Vec<f64>> {
    // Less than one degree of freedom would give unlimited intervals.
    let Some(student) = student_975(freedom).filter(|_| freedom >= 1.0) else {
        return Vec::new();
    };
    let wider = student / NORMAL;
    let mut generator = Generator::seed_from_u64(SEED);
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let blocks: Vec<f64> = (0..cells.blocks).map(|_| normal(&mut generator)).collect();
        let moved = |cell: &super::cell::Cell| {
            let own = normal(&mut generator);
            cell.perturbed(&blocks, own, misfit)
        };
        let means: Vec<f64> = cells.cells.iter().map(moved).collect();
        let Some(found) = fit(&means) else { continue };
        let widen = |(value, centre): (&f64, &f64)| (centre + wider * (value - centre)).max(0.0);
        all.push(found.iter().zip(centre).map(widen).collect());
    }
    all
}

/// Returns the degrees of freedom of the noise: the degrees of freedom between equal trials, plus the number of cells, minus the
/// number of `coefficients`. The result is at most the number of blocks of time minus 1.
pub(super) fn freedom(cells: &Cells, coefficients: usize) -> f64 {
    let about_law = cells.cells.len().saturating_sub(coefficients) as f64;
    (cells.freedom + about_law).min(cells.blocks as f64 - 1.0)
}

/// Returns the 95 % confidence interval of the fitted value with index `index`: the 2.5 % and 97.5 % quantiles of this value over
/// the bootstrap draws, widened to contain `value`. Returns `None` if there are no draws.
pub(super) fn interval(draws: &[Vec<f64>], index: usize, value: f64) -> Option<[f64; 2]> {
    let mut all: Vec<f64> = draws.iter().map(|draw| draw[index]).collect();
    all.sort_by(f64::total_cmp);
    let [low, high] = [quantile(&all, 0.025)?, quantile(&all, 0.975)?];
    Some([low.min(value), high.max(value)])
}

/// Returns a standard normal deviate (Box and Muller, 1958).
fn normal(generator: &mut Generator) -> f64 {
    let (a, b): (f64, f64) = (generator.random(), generator.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Returns `count` factors whose logarithms are normally distributed with mean 0 and this standard deviation.
pub(super) fn factors(deviation: f64, count: usize) -> Vec<f64> {
    let mut generator = Generator::seed_from_u64(SEED ^ 1);
    (0..count).map(|_| (deviation * normal(&mut generator)).exp()).collect()
}

/// Returns `count` lists of `length` values, each taken at random from `off`.
pub(super) fn moved(off: &[f64], length: usize, count: usize) -> Vec<Vec<f64>> {
    let mut generator = Generator::seed_from_u64(SEED ^ 2);
    let mut one = |_| off[generator.random_range(0..off.len())];
    (0..count).map(|_| (0..length).map(&mut one).collect()).collect()
}

/// Returns `count` bootstrap draws of the statistic `figure`. Each draw is the statistic of a random sample of the same size,
/// which is taken from `values` with replacement. The spread of the draws is widened by Student's t for the number of values.
pub(super) fn plain_draws<T: Copy>(
    values: &[T],
    count: usize,
    figure: impl Fn(&mut [T]) -> f64,
) -> Vec<f64> {
    let freedom = values.len() as f64 - 1.0;
    let Some(student) = student_975(freedom) else { return Vec::new() };
    // The variance of the bootstrap lacks one degree of freedom.
    let wider = student / NORMAL * (values.len() as f64 / freedom).sqrt();
    let centre = figure(&mut values.to_vec());
    let mut generator = Generator::seed_from_u64(SEED);
    let draw = |_| {
        let one = |_| values[generator.random_range(0..values.len())];
        let mut drawn: Vec<T> = (0..values.len()).map(one).collect();
        (centre + wider * (figure(&mut drawn) - centre)).max(0.0)
    };
    (0..count).map(draw).collect()
}
