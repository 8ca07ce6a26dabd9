//! Fits changes of scenario and profile to the measured rows that are marked for the fit, so that the simulation reproduces the
//! measurements.
//!
//! Several explanations are tried, each with two amounts: the time of a worker for a sample, and that of a limit which workers do not
//! set. Those that the likelihood allows beside the best one are kept. The rows are simulated on a grid of amounts: a coarse grid over
//! the whole search range, and a fine grid around its best point. Between grid points, logarithms of rates are interpolated, which is
//! exact as long as the bottleneck is the same. An interval contains the values that the profile likelihood allows (Student's t for
//! the number of rows). An amount on which no row depends, or that cannot be separated from the other one, therefore has a wide
//! interval and is not identified.

use super::explanation::REACH;
use super::{Explanation, Factors, Limit, Observed};
use crate::stats::student_975;
use serde::Serialize;

/// Number of points of each grid along each factor.
const POINTS: usize = 17;
/// Half of the fine grid's width in binary logarithms: one step of the coarse grid to either side.
const FINE: f64 = 2.0 * REACH / (POINTS as f64 - 1.0);
/// Number of intervals into which each side of a cell of the coarse grid is divided to evaluate the likelihood; [`WITHIN_FINE`]
/// is this number for the fine grid.
const WITHIN_COARSE: usize = 10;
const WITHIN_FINE: usize = 6;
/// Lower bound on the relative standard deviation assumed for a measured rate: with few measured rows, the residuals alone may
/// show a smaller one.
const FLOOR: f64 = 0.02;
/// Minimum relative standard deviation of a row's computing time per step, which is measured less precisely than the rate.
const FLOOR_OF_BUSY: f64 = 0.05;
/// Degrees of freedom with which the two minimum standard deviations above enter the estimate of the residuals' variance.
const PRIOR: f64 = 4.0;
/// Residual beyond which Huber's loss is linear [standard deviations].
const HUBER: f64 = 1.345;
/// Maximum ratio of an interval's ends at which the factor counts as identified.
const WIDE: f64 = 2.0;
/// Difference of losses up to which two explanations fit equally well: a sixth of what tells them apart.
const ALIKE: f64 = 1.0;
/// Weight of the penalty on factors other than 1. It is so small that it decides only where the rows do not determine the
/// factors.
const PULL: f64 = 0.02;

/// Estimate of an amount from rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    /// Estimated value. If the rows do not determine a factor but are compatible with 1, the value is 1, which leaves scenario
    /// and profile unchanged.
    pub value: f64,
    /// 95 % interval; `None` if it reaches an end of the search range.
    pub ci95: Option<[f64; 2]>,
    /// Why the rows do not determine the amount; `None` if they do.
    pub unidentified: Option<String>,
}

/// An explanation of the rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// What limits the job where its workers do not.
    pub limit: Limit,
    /// Amount of this limit: for a step the factor on its time; for a batch the time for each [s]; for cores the share of them; for a
    /// crowd the coherency of the universal scalability law; for a server its bandwidth [B/s]; for a lock the share of the workers'
    /// work.
    pub amount: Told,
    /// Factor on a worker's time for a sample.
    pub sample: Told,
    /// Root mean square of the logarithms of predicted over measured rates, on the same rows.
    pub residual: f64,
    /// Changes that reproduce the rows best.
    pub best: Factors,
    /// Changes sampled by their likelihood, for intervals of predictions. An amount that is not identified has the same value in
    /// all samples.
    pub draws: Vec<Factors>,
}

/// Result of the fit to rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refit {
    /// Number of rows that were used.
    pub rows: usize,
    /// The explanations that the rows allow, the best one first.
    pub explanations: Vec<Explained>,
}

impl Refit {
    /// Returns the best explanation.
    #[must_use]
    pub fn best(&self) -> &Explained {
        &self.explanations[0]
    }

    /// Returns the changes sampled for simulation number `run`: all explanations in turn.
    #[must_use]
    pub fn drawn(&self, run: u32) -> Factors {
        let (run, all) = (run as usize, self.explanations.len());
        let of = &self.explanations[run % all];
        match of.draws.len() {
            0 => of.best,
            // Consecutive runs get samples that are far apart on the lattice.
            count => of.draws[(run / all).wrapping_mul(40_503) % count],
        }
    }
}

/// Fits `explanations` to measured rows, and keeps those that the rows allow; returns `None` if there are no rows. For each of the
/// given changes, `simulate` returns the simulated figures of each row (`None` if the simulation completes no step).
///
/// # Errors
/// Returns the first error of `simulate`.
pub fn refit<E>(
    rows: &[Observed],
    explanations: &[Explanation],
    mut simulate: impl FnMut(&[Factors]) -> Result<Vec<Vec<Option<Observed>>>, E>,
) -> Result<Option<Refit>, E> {
    let mut all = Vec::new();
    for explanation in explanations.iter().filter(|_| !rows.is_empty()) {
        let coarse = Grid::new(*explanation, [0.0; 2], REACH, rows, &mut simulate)?;
        let centre = coarse.best();
        let fine = Grid::new(*explanation, centre, FINE, rows, &mut simulate)?;
        all.push(Fitting { explanation: *explanation, coarse, fine, rows: rows.len() }.finish());
    }
    let Some(best) = all.iter().min_by(|a, b| a.least.total_cmp(&b.least)) else { return Ok(None) };
    let (least, allowed) = (best.least, best.least + best.allowance);
    // Explanations that fit as well stay in their order.
    let order = |fit: &Fitted| if fit.least - least >= ALIKE { fit.least } else { least };
    // What has no effect explains nothing that the worker's time does not.
    let is_kept = |fit: &Fitted| fit.least <= allowed && fit.is_needed;
    let any = all.iter().any(is_kept);
    all.retain(|fit| is_kept(fit) || !any && fit.least == least);
    all.sort_by(|a, b| order(a).total_cmp(&order(b)));
    let explanations = all.into_iter().map(|fit| fit.explained).collect();
    Ok(Some(Refit { rows: rows.len(), explanations }))
}

/// A point of the search range: the place of an explanation's amount, and the binary logarithm of the factor on a worker's time for
/// a sample.
type Place = [f64; 2];

/// Residuals of all rows at the points of a square grid.
struct Grid {
    explanation: Explanation,
    low: Place,
    spacing: f64,
    /// For each grid point, the residuals of all rates, followed by the residuals of all known computing times [standard
    /// deviations]. In the order of grid points, the explanation's amount varies slowest.
    residuals: Vec<Vec<f64>>,
}

impl Grid {
    fn new<E>(
        explanation: Explanation,
        centre: Place,
        half: f64,
        rows: &[Observed],
        simulate: &mut impl FnMut(&[Factors]) -> Result<Vec<Vec<Option<Observed>>>, E>,
    ) -> Result<Grid, E> {
        let spacing = 2.0 * half / (POINTS as f64 - 1.0);
        let low = centre.map(|c| c - half);
        let at = |index: usize| {
            [low[0] + spacing * (index / POINTS) as f64, low[1] + spacing * (index % POINTS) as f64]
        };
        let all = (0..POINTS * POINTS).map(|i| explanation.factors(at(i)));
        let factors: Vec<Factors> = all.collect();
        let simulated = simulate(&factors)?;
        let residuals = simulated.iter().map(|of| residuals(rows, of)).collect();
        Ok(Grid { explanation, low, spacing, residuals })
    }

    /// Returns the grid point with the smallest loss.
    fn best(&self) -> Place {
        let loss = |index: &usize| {
            loss(&self.residuals[*index]) + pull(self.explanation, self.place(*index))
        };
        let all = 0..self.residuals.len();
        let best = all.min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap_or(0);
        self.place(best)
    }

    fn place(&self, index: usize) -> Place {
        let along = |axis: usize, at: usize| self.low[axis] + self.spacing * at as f64;
        [along(0, index / POINTS), along(1, index % POINTS)]
    }

    /// Returns evenly spaced points all over the square. Each side of a grid cell is divided into `within` intervals.
    fn dense(&self, within: usize) -> Vec<Place> {
        let (count, spacing) = ((POINTS - 1) * within + 1, self.spacing / within as f64);
        let along = |axis: usize, at: usize| self.low[axis] + spacing * at as f64;
        (0..count * count).map(|i| [along(0, i / count), along(1, i % count)]).collect()
    }

    fn holds(&self, place: Place) -> bool {
        let end = self.spacing * (POINTS as f64 - 1.0);
        (0..2).all(|i| (-1e-9..=end + 1e-9).contains(&(place[i] - self.low[i])))
    }

    /// Returns the residuals at any point in the square, interpolated between grid points.
    fn at(&self, place: Place) -> Vec<f64> {
        let split = |axis: usize| {
            let along =
                ((place[axis] - self.low[axis]) / self.spacing).clamp(0.0, POINTS as f64 - 1.0);
            let cell = (along.floor() as usize).min(POINTS - 2);
            (cell, along - cell as f64)
        };
        let ((i, u), (j, v)) = (split(0), split(1));
        let corner = |i: usize, j: usize| &self.residuals[i * POINTS + j];
        let (a, b, c, d) = (corner(i, j), corner(i, j + 1), corner(i + 1, j), corner(i + 1, j + 1));
        let mix = |k: usize| {
            (1.0 - u) * ((1.0 - v) * a[k] + v * b[k]) + u * ((1.0 - v) * c[k] + v * d[k])
        };
        (0..a.len()).map(mix).collect()
    }
}

/// Returns residuals [standard deviations]: the logarithm of simulated over measured value, for each row's rate and, if the row's
/// stall is known, for the computing time of its steps.
fn residuals(rows: &[Observed], simulated: &[Option<Observed>]) -> Vec<f64> {
    /// Residual for a simulation that completes no step.
    const FAR: f64 = 1e3;
    let busy = |of: &Observed| of.step_time * (1.0 - of.stall);
    let rates = rows.iter().zip(simulated).map(|(row, found)| match found {
        Some(found) => (found.samples_per_second / row.samples_per_second).ln() / FLOOR,
        None => FAR,
    });
    let shares =
        rows.iter().zip(simulated).filter(|(row, _)| row.stall < 1.0).map(|(row, found)| {
            let ratio = found.as_ref().map(|found| busy(found) / busy(row));
            let off = ratio.map_or(FAR, |ratio| ratio.ln() / FLOOR_OF_BUSY);
            // Near a stall of 100 %, the measurement says little about the computing time that is left, so it counts less.
            off * (1.0 - row.stall).min(0.1) / 0.1
        });
    rates.chain(shares).map(|off| if off.is_finite() { off } else { FAR }).collect()
}

/// Returns twice Huber's loss, which is the sum of squares for small residuals.
fn loss(residuals: &[f64]) -> f64 {
    let one = |off: &f64| {
        let off = off.abs();
        if off <= HUBER { off * off } else { HUBER * (2.0 * off - HUBER) }
    };
    residuals.iter().map(one).sum()
}

/// Returns the penalty on changes.
fn pull(explanation: Explanation, place: Place) -> f64 {
    let from = match explanation.without_effect() {
        None => place[0],
        Some(end) => (place[0] - end) / 2.0,
    };
    PULL * (from * from + place[1] * place[1])
}

/// A fitted explanation.
struct Fitted {
    explained: Explained,
    /// Least loss, and how much more than the least of all is allowed.
    least: f64,
    allowance: f64,
    /// Whether the rows rule out that the explanation's amount has no effect.
    is_needed: bool,
}

/// Both grids with their residuals.
struct Fitting {
    explanation: Explanation,
    coarse: Grid,
    fine: Grid,
    rows: usize,
}

impl Fitting {
    fn loss(&self, place: Place) -> f64 {
        let grid = if self.fine.holds(place) { &self.fine } else { &self.coarse };
        loss(&grid.at(place))
    }

    fn finish(self) -> Fitted {
        let lattice = self.lattice();
        let losses: Vec<f64> = lattice.iter().map(|place| self.loss(*place)).collect();
        let pulled = |index: &usize| losses[*index] + pull(self.explanation, lattice[*index]);
        let all = 0..lattice.len();
        let best = all.min_by(|a, b| pulled(a).total_cmp(&pulled(b))).unwrap_or(0);
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        // Rows that no factors reproduce widen all intervals.
        let seen = self.coarse.residuals.first().map_or(0, Vec::len);
        let freedom = PRIOR + seen.saturating_sub(2) as f64;
        let scale = ((least + PRIOR) / freedom).max(1.0);
        let t = student_975(freedom).unwrap_or(f64::INFINITY);
        let allowance = t * t * scale;
        let allowed = |index: usize| losses[index] <= least + allowance;
        let inside: Vec<Place> =
            (0..lattice.len()).filter(|i| allowed(*i)).map(|i| lattice[i]).collect();
        let told = |best| [0, 1].map(|axis| self.told(axis, best, &inside));
        let best = self.unchanged_if_unknown(lattice[best], &told(lattice[best]), &inside);
        let told = told(best);
        let draws = self.draws(best, &told, &inside, scale, least);
        let residual = self.residual(best);
        let end = self.explanation.without_effect();
        let is_needed =
            end.is_none_or(|end| inside.iter().all(|place| (place[0] - end).abs() > 0.01));
        let [amount, sample] = told;
        let limit = self.explanation.limit;
        let best = self.explanation.factors(best);
        let explained = Explained { limit, amount, sample, residual, best, draws };
        Fitted { explained, least, allowance, is_needed }
    }

    /// Returns the best point at which factors that the rows do not determine are 1, if the likelihood allows that.
    fn unchanged_if_unknown(&self, best: Place, told: &[Told; 2], inside: &[Place]) -> Place {
        let is_factor = [self.explanation.without_effect().is_none(), true];
        let unknown = |axis: usize| is_factor[axis] && told[axis].ci95.is_none();
        let is_unchanged =
            |place: &&Place| (0..2).all(|axis| !unknown(axis) || place[axis].abs() < 1e-9);
        let all = inside.iter().filter(is_unchanged);
        *all.min_by(|a, b| self.loss(**a).total_cmp(&self.loss(**b))).unwrap_or(&best)
    }

    /// Returns all points of the search range at which the likelihood is evaluated: the points of both grids, and points between
    /// them.
    fn lattice(&self) -> Vec<Place> {
        let mut places = self.coarse.dense(WITHIN_COARSE);
        places.retain(|place| !self.fine.holds(*place));
        places.extend(self.fine.dense(WITHIN_FINE));
        places
    }

    /// Returns the value at `place` along an axis.
    fn value(&self, axis: usize, place: f64) -> f64 {
        if axis == 0 { self.explanation.amount(place) } else { place.exp2() }
    }

    /// Returns the estimate along axis number `axis`; `inside` are the points that the likelihood allows.
    fn told(&self, axis: usize, best: Place, inside: &[Place]) -> Told {
        let along = || inside.iter().map(|place| place[axis]);
        let (low, high) = (along().fold(best[axis], f64::min), along().fold(best[axis], f64::max));
        let ends = [(low <= 0.01 - REACH), (high >= REACH - 0.01)];
        let value = self.value(axis, best[axis]);
        let [below, above] = [low, high].map(|place| self.value(axis, place));
        let unidentified = match ends {
            [true, true] => Some("no row depends on it".to_owned()),
            [true, false] => Some(format!("the rows only say that it is at most {above:.2}")),
            [false, true] => Some(format!("the rows only say that it is at least {below:.2}")),
            _ if above / below > WIDE => Some(format!(
                "the rows allow {below:.2} to {above:.2}: they cannot separate it from the other one, or contradict each \
                 other"
            )),
            _ => None,
        };
        let ci95 = (ends == [false, false]).then_some([below, above]);
        Told { value, ci95, unidentified }
    }

    /// Returns factors sampled in proportion to their likelihood. A factor that is not identified keeps its best value.
    fn draws(
        &self,
        best: Place,
        told: &[Told; 2],
        inside: &[Place],
        scale: f64,
        least: f64,
    ) -> Vec<Factors> {
        const DRAWS: usize = 199;
        let fixed = |place: &Place| {
            let keep = |axis: usize| {
                if told[axis].unidentified.is_some() { best[axis] } else { place[axis] }
            };
            [keep(0), keep(1)]
        };
        let fine = || inside.iter().filter(|place| self.fine.holds(**place)).map(fixed);
        let weight = |place: Place| (-(self.loss(place) - least).max(0.0) / (2.0 * scale)).exp();
        let all: Vec<(Place, f64)> = fine().map(|place| (place, weight(place))).collect();
        let total: f64 = all.iter().map(|(_, weight)| weight).sum();
        let (mut draws, mut sum) = (Vec::new(), 0.0);
        for (place, weight) in all {
            sum += weight / total;
            while draws.len() < DRAWS && (draws.len() as f64 + 0.5) / (DRAWS as f64) < sum {
                draws.push(self.explanation.factors(place));
            }
        }
        draws
    }

    /// Returns the root mean square of the differences between logarithms of predicted and measured rates.
    fn residual(&self, place: Place) -> f64 {
        let grid = if self.fine.holds(place) { &self.fine } else { &self.coarse };
        let rates = &grid.at(place)[..self.rows];
        (rates.iter().map(|off| (off * FLOOR).powi(2)).sum::<f64>() / self.rows as f64).sqrt()
    }
}
