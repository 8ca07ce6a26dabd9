//! Intervals by resampling: what the means of the cells might have been, and the law fitted to it.
//!
//! Each draw moves every cell's mean by its deviations, multiplied by one normal deviate for each
//! block of time (a wild bootstrap of blocks, Shao 2010): trials that drifted together move
//! together. Draws are widened by Student's t over the number of blocks, so that few trials give
//! honest intervals.

use super::cell::Cells;
use forebay_engine::stats::{quantile, student_975};
use forebay_model::random::Generator;
use rand::{RngExt, SeedableRng};

/// The same samples give the same intervals.
const SEED: u64 = 0x000f_04eb_a700;
/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// Draws of a vector of values about `centre`, the value at the means themselves; none where
/// nothing says how noisy the means are. `fit` gives none where a draw cannot be fitted.
pub(super) fn draws(
    cells: &Cells,
    misfit: f64,
    centre: &[f64],
    count: usize,
    freedom: f64,
    mut fit: impl FnMut(&[f64]) -> Option<Vec<f64>>,
) -> Vec<Vec<f64>> {
    // Part of a degree of freedom would give intervals without end.
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

/// Degrees of freedom of the noise: of blocks of time, and of equal trials or, where there are
/// none, of cells about the law.
pub(super) fn freedom(cells: &Cells, coefficients: usize) -> f64 {
    let about_law = cells.cells.len().saturating_sub(coefficients) as f64;
    (cells.freedom + about_law).min(cells.blocks as f64 - 1.0)
}

/// The 95 % interval of value number `index`, which contains `value`.
pub(super) fn interval(draws: &[Vec<f64>], index: usize, value: f64) -> Option<[f64; 2]> {
    let mut all: Vec<f64> = draws.iter().map(|draw| draw[index]).collect();
    all.sort_by(f64::total_cmp);
    let [low, high] = [quantile(&all, 0.025)?, quantile(&all, 0.975)?];
    Some([low.min(value), high.max(value)])
}

/// A standard normal deviate (Box and Muller, 1958).
fn normal(generator: &mut Generator) -> f64 {
    let (a, b): (f64, f64) = (generator.random(), generator.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A figure of as many values drawn out of `values` with replacement, again and again.
pub(super) fn plain_draws(
    values: &[f64],
    count: usize,
    figure: impl Fn(&mut [f64]) -> f64,
) -> Vec<f64> {
    let freedom = values.len() as f64 - 1.0;
    let Some(student) = student_975(freedom) else { return Vec::new() };
    // The bootstrap's variance lacks one degree of freedom.
    let wider = student / NORMAL * (values.len() as f64 / freedom).sqrt();
    let centre = figure(&mut values.to_vec());
    let mut generator = Generator::seed_from_u64(SEED);
    let draw = |_| {
        let one = |_| values[generator.random_range(0..values.len())];
        let mut drawn: Vec<f64> = (0..values.len()).map(one).collect();
        (centre + wider * (figure(&mut drawn) - centre)).max(0.0)
    };
    (0..count).map(draw).collect()
}
