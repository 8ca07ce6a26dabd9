//! Fits the duration of an averaging of learners' models: steps of the same learners are timed with and without averaging.

use super::averages;
use super::bootstrap;
use super::cell::{Cell, Cells, Observation, median};
use super::estimate::rounded;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;

/// A comparison of steps of the same learners, with the same batch, without and with averaging.
struct Pair {
    /// Steps between two averagings.
    every: f64,
    /// Indices of the cells without and with averaging.
    cells: (usize, usize),
}

impl Pair {
    /// Returns the time of an averaging: what it adds to a step, times the steps between two averagings [s].
    fn latency(&self, means: &[f64]) -> f64 {
        self.every * (means[self.cells.1] - means[self.cells.0])
    }
}

/// Fits the time of an averaging as the median over all pairs of cells that differ only in averaging; `None` without such pairs.
pub(super) fn latency(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let mut cells = cells(samples);
    let pairs = pairs(&cells.cells);
    if pairs.is_empty() {
        return None;
    }
    let means = cells.means();
    let centre = middle(&pairs, &means);
    let errors = |factor: f64| {
        // Relative to the time of a step, as is the noise of a cell.
        let error =
            |pair: &Pair| (pair.latency(&means) - centre) / pair.every / means[pair.cells.1];
        median(&mut pairs.iter().map(|pair| factor * error(pair).abs()).collect::<Vec<_>>())
    };
    // A difference has the noise of two means; a larger spread means that averagings differ in time.
    let spread = errors(1.4826);
    let noise = 2.0 * median(&mut cells.cells.iter().map(|cell| cell.variance).collect::<Vec<_>>());
    let misfit = (0.5 * (spread * spread - noise)).max(0.0).sqrt();
    let again = |means: &[f64]| Some(vec![middle(&pairs, means)]);
    let freedom = bootstrap::freedom(&cells, 1 + cells.cells.len() - pairs.len());
    let all = bootstrap::draws(&cells, misfit, &[centre], draws, freedom, again);
    let mut fit = super::others::plain(&["latency".to_owned()], "s", &[centre], &all);
    if let Some(found) = fit.parameters.get_mut("latency").filter(|found| found.value == 0.0) {
        found.unidentified = Some("too small to measure".to_owned());
    }
    fit.residual = rounded(errors(1.0));
    cells.keep(|index| pairs.iter().any(|pair| [pair.cells.0, pair.cells.1].contains(&index)));
    fit.samples = cells.count() as u64;
    let ends = |(index, name): (usize, &str)| Some((name.to_owned(), cells.range(index)?));
    fit.range = [(0, "batch"), (1, "learners")].into_iter().filter_map(ends).collect();
    Some(fit)
}

/// Groups steps by batch, number of learners and steps between two averagings (0 without averaging).
fn cells(samples: &[&Sample]) -> Cells {
    let observation = |sample: &&Sample| Observation {
        x: vec![
            sample.setting("batch"),
            sample.setting("learners"),
            averages(sample).unwrap_or(0.0),
        ],
        value: sample.seconds_each(),
        at: sample.at,
    };
    Cells::new(samples.iter().map(observation).collect())
}

/// Returns all pairs of a cell without averaging and a cell with averaging, at the same batch size and number of learners.
fn pairs(cells: &[Cell]) -> Vec<Pair> {
    let averaging = cells.iter().enumerate().filter(|(_, cell)| cell.x[2] > 0.0);
    let pair = |(with, cell): (usize, &Cell)| {
        let same = |other: &Cell| other.x == [cell.x[0], cell.x[1], 0.0];
        let without = cells.iter().position(same)?;
        Some(Pair { every: cell.x[2], cells: (without, with) })
    };
    averaging.filter_map(pair).collect()
}

/// Returns the median time of an averaging over all pairs, at least 0 [s].
fn middle(pairs: &[Pair], means: &[f64]) -> f64 {
    median(&mut pairs.iter().map(|pair| pair.latency(means)).collect::<Vec<_>>()).max(0.0)
}
