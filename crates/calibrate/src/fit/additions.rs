//! Fits a time that is added to steps, as a linear function of the batch. Steps with and without the addition are compared.

use super::bootstrap;
use super::cell::{Cell, Cells, median};
use super::estimate::rounded;
use super::others::plain;
use super::solve::Sums;
use forebay_scenario::profile::Fit;

/// Deviation, relative to the step, above which Huber's loss is linear.
const LINEAR: f64 = 0.03;
/// Number of rounds of reweighting.
const ROUNDS: usize = 12;
/// A parameter counts as identified, even if its interval is wider than its value, if the interval is at most this part of the steps that
/// the parameter adds to: the addition is then too small to measure, and known to be small.
const SMALL: f64 = 0.1;
/// Names of the parameters: the addition is `fixed + per_sample · batch`.
const NAMES: [&str; 2] = ["fixed", "per_sample"];

/// A cell with the addition, and the steps without it with which the cell is compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) batch: f64,
    /// Number of times that a step contains the addition.
    pub(super) times: f64,
    /// Indices of the cells without the addition, with their weights: the cell of the same batch, or the nearest smaller and larger
    /// batches, between which predictions interpolate too.
    without: [(usize, f64); 2],
    /// Index of the cell with the addition.
    with: usize,
}

impl Pair {
    /// Returns whether the pair uses the cell with this index.
    pub(super) fn uses(&self, index: usize) -> bool {
        let of_without = |(of, weight): &(usize, f64)| *of == index && *weight > 0.0;
        self.with == index || self.without.iter().any(of_without)
    }

    /// Returns the times of the steps without and with the addition, given the means of all cells.
    fn steps(&self, means: &[f64]) -> (f64, f64) {
        let part = |(index, weight): &(usize, f64)| weight * means[*index];
        (self.without.iter().map(part).sum(), means[self.with])
    }
}

/// A parameter of the law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term {
    Fixed,
    PerSample,
}

/// Returns the pairs of all cells with the addition. `times` returns how many times a step of a cell contains the addition; `None` if it
/// has none of it. `same` says whether a cell without the addition differs from a cell with it in nothing else but the batch, which
/// is the first setting.
pub(super) fn pairs(
    cells: &[Cell],
    times: impl Fn(&Cell) -> Option<f64>,
    same: impl Fn(&Cell, &Cell) -> bool,
) -> Vec<Pair> {
    let pair = |(with, cell): (usize, &Cell)| {
        let (times, batch) = (times(cell)?, cell.x[0]);
        let plain = cells.iter().enumerate().filter(|(_, of)| same(of, cell));
        let without = around(plain.map(|(index, of)| (index, of.x[0])), batch)?;
        Some(Pair { batch, times, without, with })
    };
    cells.iter().enumerate().filter_map(pair).collect()
}

/// Returns the cells, of those with the given indices and batches, between which a step over `batch` samples is interpolated
/// linearly, with their weights; `None` if the batch is beyond all of them.
fn around(cells: impl Iterator<Item = (usize, f64)>, batch: f64) -> Option<[(usize, f64); 2]> {
    let (mut below, mut above) = (None, None);
    for (index, of) in cells {
        if of <= batch && below.is_none_or(|(_, nearest)| of > nearest) {
            below = Some((index, of));
        }
        if of >= batch && above.is_none_or(|(_, nearest)| of < nearest) {
            above = Some((index, of));
        }
    }
    let ((low, from), (high, to)) = (below?, above?);
    let weight = if to > from { (batch - from) / (to - from) } else { 0.0 };
    Some([(low, 1.0 - weight), (high, weight)])
}

/// Fits the addition to the pairs of cells; `None` without pairs. If the pairs do not determine both parameters, the addition
/// consists of the term `only`.
pub(super) fn fit(cells: &Cells, pairs: &[Pair], only: Term, draws: usize) -> Option<Fit> {
    let laws =
        [Additions { cells, pairs, only: None }, Additions { cells, pairs, only: Some(only) }];
    let [both, one] = laws.map(|law| law.fit(draws));
    let told = |fit: &Fit| fit.parameters.values().any(|of| of.unidentified.is_none());
    match (both, one) {
        (Some(both), one) if told(&both) || !one.as_ref().is_some_and(told) => Some(both),
        (_, one) => one,
    }
}

/// What a fit needs.
struct Additions<'a> {
    cells: &'a Cells,
    pairs: &'a [Pair],
    /// The only term of the law; `None` if it has both.
    only: Option<Term>,
}

impl Additions<'_> {
    fn fit(&self, draws: usize) -> Option<Fit> {
        let means = self.cells.means();
        let centre = self.solve(&means)?;
        let mut sizes: Vec<f64> = self.errors(&means, centre).map(f64::abs).collect();
        let residual = median(&mut sizes.clone());
        let misfit = self.misfit(&mut sizes);
        let again = |means: &[f64]| self.solve(means).map(Vec::from);
        let coefficients = self.columns() + self.cells.cells.len() - self.pairs.len();
        let freedom = bootstrap::freedom(self.cells, coefficients);
        let all = bootstrap::draws(self.cells, misfit, &centre, draws, freedom, again);
        let mut fit = plain(&NAMES.map(str::to_owned), "s", &centre, &all);
        fit.residual = rounded(residual);
        self.judge_small(&mut fit, &means);
        self.say_what_is_assumed(&mut fit);
        Some(fit)
    }

    /// Counts parameters as identified if their intervals are narrow beside the steps that they add to. A value of 0 with a wide interval
    /// is not identified.
    fn judge_small(&self, fit: &mut Fit, means: &[f64]) {
        for (name, parameter) in &mut fit.parameters {
            let Some([low, high]) = parameter.ci95 else { continue };
            let part = |pair: &Pair| {
                let feature = if name == NAMES[0] { 1.0 } else { pair.batch };
                (high - low) * feature * pair.times / pair.steps(means).1
            };
            if self.pairs.iter().map(part).fold(0.0, f64::max) <= SMALL {
                parameter.unidentified = None;
            } else if parameter.value == 0.0 {
                parameter.unidentified = Some("too small to measure".to_owned());
            }
        }
    }

    /// Number of terms.
    fn columns(&self) -> usize {
        if self.only.is_some() { 1 } else { 2 }
    }

    /// Returns `fixed` and `per_sample` by Huber's reweighted least squares, on residuals relative to the step with the addition;
    /// `None` if the pairs do not determine them.
    fn solve(&self, means: &[f64]) -> Option<[f64; 2]> {
        let mut found = [0.0; 2];
        let mut weights = vec![1.0; self.pairs.len()];
        for _ in 0..ROUNDS {
            let mut sums = Sums::default();
            for (pair, weight) in self.pairs.iter().zip(&weights) {
                let (without, with) = pair.steps(means);
                let features = match self.only {
                    None => [pair.times, pair.times * pair.batch, 0.0],
                    Some(Term::Fixed) => [pair.times, 0.0, 0.0],
                    Some(Term::PerSample) => [pair.times * pair.batch, 0.0, 0.0],
                };
                sums.add(&features, with - without, weight / with.powi(2));
            }
            if !sums.tells_apart((1 << self.columns()) - 1) {
                return None;
            }
            let [first, second, _] = sums.solve(self.columns());
            found = match self.only {
                None => [first, second],
                Some(Term::Fixed) => [first, 0.0],
                Some(Term::PerSample) => [0.0, first],
            };
            for (weight, error) in weights.iter_mut().zip(self.errors(means, found)) {
                *weight = if error.abs() <= LINEAR { 1.0 } else { LINEAR / error.abs() };
            }
        }
        Some(found)
    }

    /// Returns the error of each pair, relative to the step with the addition.
    fn errors(&self, means: &[f64], [fixed, per_sample]: [f64; 2]) -> impl Iterator<Item = f64> {
        self.pairs.iter().map(move |pair| {
            let (without, with) = pair.steps(means);
            (with - without - pair.times * (fixed + per_sample * pair.batch)) / with
        })
    }

    /// Returns the relative standard deviation of a step about the law beyond the noise of its cell. A difference has the noise of
    /// two cells.
    fn misfit(&self, sizes: &mut [f64]) -> f64 {
        // The smallest errors, as many as there are coefficients, have no information.
        sizes.sort_by(f64::total_cmp);
        let Some(free @ [_, ..]) = sizes.get_mut(self.columns()..) else { return 0.0 };
        let spread = 1.4826 * median(free);
        let variances = self.cells.cells.iter().map(|cell| cell.variance);
        let noise = 2.0 * median(&mut variances.collect::<Vec<_>>());
        (0.5 * (spread * spread - noise)).max(0.0).sqrt()
    }

    /// Marks the parameter that is 0 by assumption, if the law has only one term.
    fn say_what_is_assumed(&self, fit: &mut Fit) {
        let other = match self.only {
            None => return,
            Some(Term::Fixed) => NAMES[1],
            Some(Term::PerSample) => NAMES[0],
        };
        if let Some(parameter) = fit.parameters.get_mut(other) {
            let why = "cannot be told apart from the other parameter: 0 is assumed";
            (parameter.unidentified, parameter.ci95) = (Some(why.to_owned()), None);
        }
    }
}
