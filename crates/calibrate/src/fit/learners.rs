//! Fits how much of a GPU one learner occupies, from steps of one learner and of several learners beside each other.

use super::bootstrap;
use super::cell::{Cell, median};
use super::estimate::rounded;
use super::laws::cells;
use crate::measurement::Sample;
use forebay_model::law::OccupancyLaw;
use forebay_scenario::profile::Fit;

/// Deviation of the logarithm of a slowdown above which Huber's loss is linear.
const LINEAR: f64 = 0.03;
/// Number of grid points at which the best value is searched first.
const GRID: usize = 240;
/// Relative tolerance within which learners count as not slowing each other down, or one learner as filling the GPU.
const NEAR: f64 = 0.02;

/// A comparison of one learner with several learners at the same batch size.
struct Pair {
    batch: f64,
    learners: f64,
    /// Indices of the cells with one learner and with `learners` learners.
    cells: (usize, usize),
}

/// Fits the batch that occupies half of the GPU; `None` unless some batch was trained both by one learner and by several.
pub(super) fn occupancy(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let cells = cells(samples, &["batch", "learners"], Sample::seconds_each);
    let pairs = pairs(&cells.cells);
    let batches = || pairs.iter().map(|pair| pair.batch);
    let (least, most) = (batches().reduce(f64::min)?, batches().reduce(f64::max)?);
    // Below the lower bound the smallest batch fills the GPU all the time; above the upper bound learners do not slow each
    // other down.
    let bounds = [1e-2 * least, 1e3 * most];
    let means = cells.means();
    let half = best(&slowdowns(&pairs, &means), bounds);
    let errors = errors(&slowdowns(&pairs, &means), half);
    // A quotient has the noise of two means; a larger spread is a misfit of the law.
    let spread = 1.4826 * median(&mut errors.iter().map(|e| e.abs()).collect::<Vec<_>>());
    let noise = 2.0 * median(&mut cells.cells.iter().map(|cell| cell.variance).collect::<Vec<_>>());
    let misfit = (0.5 * (spread * spread - noise)).max(0.0).sqrt();
    let again = |means: &[f64]| Some(vec![best(&slowdowns(&pairs, means), bounds)]);
    let freedom = bootstrap::freedom(&cells, 1 + cells.cells.len() - pairs.len());
    let all = bootstrap::draws(&cells, misfit, &[half], draws, freedom, again);
    let mut fit = super::others::plain(&["half_batch".to_owned()], "1", &[half], &all);
    if let (Some(why), Some(found)) = (untold(&pairs, half), fit.parameters.get_mut("half_batch")) {
        found.unidentified = Some(why.to_owned());
    }
    fit.samples = cells.count() as u64;
    fit.residual = rounded(median(&mut errors.iter().map(|e| e.abs()).collect::<Vec<_>>()));
    let learners = pairs.iter().map(|pair| pair.learners).fold(1.0, f64::max);
    fit.range = [("batch", [least, most]), ("learners", [1.0, learners])]
        .map(|(name, ends)| (name.to_owned(), ends))
        .into();
    Some(fit)
}

/// Returns all pairs of a cell with one learner and a cell with several learners at the same batch size.
fn pairs(cells: &[Cell]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (many, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.x[1] > 1.0) {
        let alone = |other: &Cell| other.x == [cell.x[0], 1.0];
        if let Some(one) = cells.iter().position(alone) {
            pairs.push(Pair { batch: cell.x[0], learners: cell.x[1], cells: (one, many) });
        }
    }
    pairs
}

/// Returns, for each pair, the batch, the number of learners and the slowdown: the factor by which a step takes longer with
/// several learners than with one.
fn slowdowns(pairs: &[Pair], means: &[f64]) -> Vec<[f64; 3]> {
    let of = |pair: &Pair| {
        let slowdown = means[pair.cells.1] / means[pair.cells.0];
        [pair.batch, pair.learners, slowdown]
    };
    pairs.iter().map(of).collect()
}

/// Returns, for each pair, the logarithm of measured ÷ fitted slowdown.
fn errors(slowdowns: &[[f64; 3]], half_batch: f64) -> Vec<f64> {
    let law = OccupancyLaw::Saturating { half: half_batch };
    let slowdown = |batch, learners| learners / law.gain(learners, batch);
    let error = |[batch, learners, found]: &[f64; 3]| (found / slowdown(*batch, *learners)).ln();
    slowdowns.iter().map(error).collect()
}

/// Returns the half-occupancy batch with the smallest Huber loss: the best value on a grid, then refined near this value.
fn best(slowdowns: &[[f64; 3]], [low, high]: [f64; 2]) -> f64 {
    let loss = |half: f64| -> f64 {
        let of = |e: f64| {
            if e.abs() <= LINEAR { 0.5 * e * e } else { LINEAR * (e.abs() - 0.5 * LINEAR) }
        };
        errors(slowdowns, half).into_iter().map(of).sum()
    };
    let ratio = (high / low).powf(1.0 / GRID as f64);
    let grid = (0..=GRID).map(|step| low * ratio.powi(step as i32));
    let (mut centre, mut least) = (low, f64::INFINITY);
    for half in grid {
        let found = loss(half);
        if found < least {
            (centre, least) = (half, found);
        }
    }
    let (mut from, mut to) = (centre / ratio, centre * ratio);
    for _ in 0..30 {
        let third = (to / from).cbrt();
        let [a, b] = [from * third, to / third];
        if loss(a) <= loss(b) { to = b } else { from = a }
    }
    (from * to).sqrt()
}

/// Returns why the trials give only a bound of the half-occupancy batch: learners never slowed each other down, or one learner
/// always filled the GPU. Returns `None` otherwise.
fn untold(pairs: &[Pair], half_batch: f64) -> Option<&'static str> {
    let law = OccupancyLaw::Saturating { half: half_batch };
    let free = |pair: &Pair| pair.learners / law.gain(pair.learners, pair.batch) < 1.0 + NEAR;
    let full = |pair: &Pair| law.of(pair.batch) > 1.0 - NEAR;
    if pairs.iter().all(free) {
        return Some(
            "learners never slowed each other down: the value may be larger; measure larger batches or more learners to find \
             it",
        );
    }
    pairs.iter().all(full).then_some(
        "one learner filled the GPU with every batch: the value may be smaller; measure smaller batches to find it",
    )
}
