//! Fits laws that are the maximum of a few sums, such as `max(floor, fixed + per_sample · batch)`. The time of a read is such a
//! law too: the maximum of the times that each limit alone would give.

use super::cell::median;
use super::solve::{Coefficients, Sums};

/// Distance at which Huber's weights begin to fall [standard deviations].
const HUBER: f64 = 1.345;
/// Smallest relative standard deviation of a cell, due to rounding.
const LEAST: f64 = 1e-7;
/// Largest number of rounds of reweighting.
const ROUNDS: usize = 12;

/// One of the sums whose maximum is the law's value. The largest sum for a cell is said to bind the cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Number of coefficients.
    pub(super) columns: usize,
    /// Returns the factors of the coefficients for given settings.
    pub(super) features: fn(&[f64]) -> Coefficients,
}

/// The cells of a fit, with the features of each piece.
pub(super) struct Problem<'a> {
    pieces: &'a [Piece],
    /// Whether the law always needs its first piece.
    first_needed: bool,
    /// Whether columns of the first piece may be left out.
    first_thins: bool,
    features: Vec<Vec<Coefficients>>,
    /// Variance of each cell's mean, relative to the squared mean.
    variances: Vec<f64>,
}

/// Result of a fit: the coefficients of the pieces, and the piece that binds each cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Solution {
    /// Coefficients of each piece; `None` if the piece binds no cell and the law does not need it.
    pub(super) pieces: Vec<Option<Coefficients>>,
    /// Index of the piece that binds each cell.
    pub(super) bound: Vec<usize>,
    /// Relative residual of each cell.
    pub(super) residuals: Vec<f64>,
    /// Columns of the first piece that may differ from zero, a bit for each.
    pub(super) first: usize,
}

impl Solution {
    /// Returns the number of coefficients of all pieces in the solution.
    pub(super) fn size(&self, pieces: &[Piece]) -> usize {
        let columns = |(index, piece): (usize, &Piece)| match index {
            0 => self.first.count_ones() as usize,
            _ => piece.columns,
        };
        let all = pieces.iter().enumerate().zip(&self.pieces);
        all.filter(|(_, found)| found.is_some()).map(|(piece, _)| columns(piece)).sum()
    }

    /// Returns the law's value for a cell whose mean is `mean`.
    pub(super) fn fitted(&self, cell: usize, mean: f64) -> f64 {
        mean * (1.0 - self.residuals[cell])
    }

    /// Returns Huber's loss, summed over all cells; `deviations` has the relative standard deviation of each cell.
    pub(super) fn loss(&self, deviations: &[f64]) -> f64 {
        let loss = |(r, sd): (&f64, &f64)| {
            let z = (r / sd).abs();
            if z <= HUBER { 0.5 * z * z } else { HUBER * (z - 0.5 * HUBER) }
        };
        self.residuals.iter().zip(deviations).map(loss).sum()
    }
}

impl<'a> Problem<'a> {
    /// Returns the problem of fitting `pieces` to cells with the given settings and variances.
    pub(super) fn new(pieces: &'a [Piece], settings: &[&[f64]], variances: Vec<f64>) -> Self {
        let row = |piece: &Piece| settings.iter().map(|x| (piece.features)(x)).collect();
        let features = pieces.iter().map(row).collect();
        Problem { pieces, first_needed: true, first_thins: false, features, variances }
    }

    /// Sets whether columns of the first piece may be left out where the cells do not need them.
    pub(super) fn first_thins(self, thins: bool) -> Self {
        Problem { first_thins: thins, ..self }
    }

    /// Returns the sets of columns that the first piece may have, the largest first.
    fn firsts(&self) -> Vec<usize> {
        let all = (1 << self.pieces[0].columns) - 1;
        if self.first_thins { (1..=all).rev().collect() } else { vec![all] }
    }

    /// Sets whether the law needs its first piece; if not, the other pieces may bind all cells.
    pub(super) fn first_needed(self, needed: bool) -> Self {
        Problem { first_needed: needed, ..self }
    }

    /// Returns the relative standard deviation of each cell's mean about the law.
    pub(super) fn deviations(&self, misfit: f64) -> Vec<f64> {
        self.variances.iter().map(|v| (v + misfit * misfit).sqrt().max(LEAST)).collect()
    }

    /// Returns the best solution and its misfit (the deviation of cells from the law beyond their own noise). Each of `starts`
    /// gives one solution for each set of columns of the first piece; Schwarz's criterion (1978) selects among them and prefers
    /// solutions with few coefficients.
    pub(super) fn best(&self, means: &[f64], starts: &[Vec<usize>]) -> Option<(Solution, f64)> {
        let solve = |misfit: f64| {
            let firsts = self.firsts();
            let each =
                starts.iter().flat_map(|start| firsts.iter().map(move |first| (start, first)));
            each.filter_map(|(start, first)| self.refine(means, start, *first, misfit))
                .collect::<Vec<_>>()
        };
        let rough = solve(0.0);
        let deviations = self.deviations(0.0);
        let by_loss =
            |a: &&Solution, b: &&Solution| a.loss(&deviations).total_cmp(&b.loss(&deviations));
        let misfit = self.misfit(rough.iter().min_by(by_loss)?);
        let deviations = self.deviations(misfit);
        // The border of each piece is free, so it counts as a coefficient too.
        let price = 0.5 * (means.len() as f64).ln() + 0.5;
        let score = |s: &Solution| {
            let extra = s.pieces.iter().flatten().count() as f64 - 1.0;
            s.loss(&deviations) + price * (s.size(self.pieces) as f64 + extra)
        };
        let all = solve(misfit);
        let lowest = |candidates: &mut dyn Iterator<Item = &Solution>| {
            candidates.min_by(|a, b| score(a).total_cmp(&score(b))).cloned()
        };
        let mut best = lowest(&mut all.iter())?;
        // Two laws with as many parameters (a latency alone, a limit of one stream alone) may fit the measurements about equally
        // well. Then these do not tell which parameter they need, and both stay.
        let rival = |other: &&Solution| {
            other.first != best.first
                && other.first.count_ones() == best.first.count_ones()
                && other.pieces[0].is_some()
                && score(other) < score(&best) + price
        };
        if best.pieces[0].is_some() && all.iter().any(|other| rival(&other)) {
            let every = self.firsts()[0];
            best = lowest(&mut all.iter().filter(|of| of.first == every)).unwrap_or(best);
        }
        let misfit = self.misfit(&best);
        let settled = self.refine(means, &best.bound, best.first, misfit).unwrap_or(best);
        Some((settled, misfit))
    }

    /// Returns the columns of piece number `piece`, a bit for each; `first` are those of the first piece.
    fn columns(&self, piece: usize, first: usize) -> usize {
        if piece == 0 { first } else { (1 << self.pieces[piece].columns) - 1 }
    }

    /// Returns whether the cells bound by piece number `piece` determine each coefficient of this piece separately.
    pub(super) fn tells_apart(&self, solution: &Solution, piece: usize, means: &[f64]) -> bool {
        let mut sums = Sums::default();
        for (c, mean) in means.iter().enumerate().filter(|(c, _)| solution.bound[*c] == piece) {
            sums.add(&self.features[piece][c], *mean, mean.powi(-2));
        }
        sums.tells_apart(self.columns(piece, solution.first))
    }

    /// Returns the relative standard deviation of the cells' means about the law, beyond the noise of the means themselves.
    fn misfit(&self, solution: &Solution) -> f64 {
        let cells = solution.residuals.len();
        let free = cells.saturating_sub(solution.size(self.pieces));
        if free == 0 {
            return 0.0;
        }
        let mut sizes: Vec<f64> = solution.residuals.iter().map(|r| r.abs()).collect();
        // The smallest residuals, as many as there are coefficients, have no information and are left out.
        sizes.sort_by(f64::total_cmp);
        let scale = 1.4826 * median(&mut sizes[cells - free..]);
        // The median of so few squares may exceed their mean by chance; this excess is no misfit.
        let chance = 1.0 + (5.0 / free as f64).sqrt();
        let noise = chance * median(&mut self.variances.clone());
        (scale * scale - noise).max(0.0).sqrt()
    }

    /// Fits the pieces to the `means` of the cells, starting from the assignment `start` of cells to pieces; of the first piece only
    /// the columns in `first`. Each round fits each
    /// piece to its cells by Huber's reweighted least squares on relative residuals, then assigns each cell to the piece with the
    /// largest value for it. Returns `None` if there is no valid solution.
    pub(super) fn refine(
        &self,
        means: &[f64],
        start: &[usize],
        first: usize,
        misfit: f64,
    ) -> Option<Solution> {
        let deviations = self.deviations(misfit);
        let mut bound = start.to_vec();
        let mut fitted = means.to_vec();
        let mut weights = vec![1.0; means.len()];
        let mut pieces = vec![None; self.pieces.len()];
        for _ in 0..ROUNDS {
            let mut sums = vec![(0usize, Sums::default()); self.pieces.len()];
            for (c, (mean, deviation)) in means.iter().zip(&deviations).enumerate() {
                let weight = weights[c] / (deviation * fitted[c]).powi(2);
                let (count, sum) = &mut sums[bound[c]];
                *count += 1;
                sum.add(&self.features[bound[c]][c], *mean, weight);
            }
            let solve = |(piece, (count, sums)): (usize, &(usize, Sums))| {
                (*count > 0).then(|| sums.solve_within(self.columns(piece, first)))
            };
            pieces = sums.iter().enumerate().map(solve).collect();
            let before = fitted.clone();
            for c in 0..means.len() {
                (bound[c], fitted[c]) = self.greatest(&pieces, c, bound[c])?;
                let z = (means[c] / fitted[c] - 1.0).abs() / deviations[c];
                weights[c] = if z <= HUBER { 1.0 } else { HUBER / z };
            }
            let same = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 1e-6;
            if before.iter().zip(&fitted).all(same) {
                break;
            }
        }
        let needed = if self.first_needed { 1 } else { pieces.len() };
        pieces.iter().take(needed).flatten().next()?;
        let unused = |index: &usize| !bound.contains(index);
        // A first piece that binds no cell is kept if the law needs it.
        for index in (usize::from(self.first_needed)..pieces.len()).filter(unused) {
            pieces[index] = None;
        }
        let residuals = means.iter().zip(&fitted).map(|(m, f)| 1.0 - f / m).collect();
        Some(Solution { pieces, bound, residuals, first })
    }

    /// Returns the piece with the largest value for a cell, and this value. Among equal values it prefers `before`, the piece to
    /// which the cell was assigned so far.
    fn greatest(
        &self,
        pieces: &[Option<Coefficients>],
        cell: usize,
        before: usize,
    ) -> Option<(usize, f64)> {
        let value = |index: usize| {
            let found = pieces[index].as_ref()?;
            let value: f64 =
                found.iter().zip(&self.features[index][cell]).map(|(c, f)| c * f).sum();
            (value > 0.0 && value.is_finite()).then_some((index, value))
        };
        let order = std::iter::once(before).chain((0..pieces.len()).filter(|i| *i != before));
        order.filter_map(value).reduce(
            |best, next| {
                if next.1 > best.1 * (1.0 + 1e-12) { next } else { best }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: [Piece; 2] = [
        Piece { columns: 2, features: |x| [1.0, x[0], 0.0] },
        Piece { columns: 1, features: |_| [1.0, 0.0, 0.0] },
    ];

    fn solve(means: &[f64], settings: &[f64]) -> Solution {
        let rows: Vec<[f64; 1]> = settings.iter().map(|x| [*x]).collect();
        let rows: Vec<&[f64]> = rows.iter().map(|x| &x[..]).collect();
        let problem = Problem::new(&STEP, &rows, vec![1e-6; means.len()]);
        let starts: Vec<Vec<usize>> = (0..means.len())
            .map(|floor| (0..means.len()).map(|c| usize::from(c < floor)).collect())
            .collect();
        problem.best(means, &starts).unwrap().0
    }

    #[test]
    fn the_fit_finds_a_knee_in_step_times_over_batch_size() {
        let batches = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        let found = solve(&batches.map(|b| f64::max(10.0, 2.0 + b)), &batches);
        let line = found.pieces[0].unwrap();
        assert!((line[0] - 2.0).abs() < 1e-6 && (line[1] - 1.0).abs() < 1e-6, "{line:?}");
        assert!((found.pieces[1].unwrap()[0] - 10.0).abs() < 1e-6);
    }

    #[test]
    fn the_fit_finds_no_knee_in_linear_step_times() {
        let batches = [1.0, 2.0, 4.0, 8.0, 16.0];
        let found = solve(&batches.map(|b| 3.0 + 0.5 * b), &batches);
        assert_eq!(found.pieces[1], None);
    }

    #[test]
    fn one_outlying_step_time_hardly_changes_the_fitted_slope() {
        let batches = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
        let mut times = batches.map(|b| 3.0 + 0.5 * b);
        times[3] *= 1.5;
        let line = solve(&times, &batches).pieces[0].unwrap();
        assert!((line[1] - 0.5).abs() < 0.01, "{line:?}");
    }
}
