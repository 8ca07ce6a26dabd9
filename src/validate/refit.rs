//! Rows marked for it are fitted on: the factors of [`Factors`] under which the simulation shows
//! what was measured.
//!
//! The simulation is asked on a grid of factors, coarse over all that is searched and fine about the
//! best of it; between, logarithms of rates are interpolated, which is exact as long as one of the
//! two binds. Intervals are where the profile likelihood allows a factor (Student's t for as many
//! rows as there are), so that what no row is bound by, or what cannot be told from the other,
//! has a wide one and is not identified.

use super::{Factors, Observed};
use crate::stats::student_975;
use serde::Serialize;

/// Greatest factor that is searched, and its reciprocal the least, as a power of two.
const REACH: f64 = 4.0;
/// Points of either grid along each factor.
const POINTS: usize = 17;
/// Half of the fine grid's width, as a power of two: one coarse step to either side.
const FINE: f64 = 2.0 * REACH / (POINTS as f64 - 1.0);
/// Points at which the likelihood is looked at along a cell of the coarse grid, and of the fine one.
const WITHIN_COARSE: usize = 10;
const WITHIN_FINE: usize = 6;
/// A row is off by this much at least, whatever the fit's residuals say of so few rows.
const FLOOR: f64 = 0.02;
/// The same of a share of time that accelerators compute, which watches measure less well.
const FLOOR_OF_BUSY: f64 = 0.05;
/// How many degrees of freedom these floors count.
const PRIOR: f64 = 4.0;
/// Where Huber's loss turns linear [standard deviations].
const HUBER: f64 = 1.345;
/// An interval wider than this ratio of its ends tells nothing.
const WIDE: f64 = 2.0;
/// Pull towards what scenario and profile say: decides only where the rows do not.
const PULL: f64 = 0.02;

/// A factor as rows tell it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Told {
    /// The value; what scenario and profile say, 1, where the rows allow it and tell no other.
    pub value: f64,
    /// 95 % interval, where it ends within what was searched.
    pub ci95: Option<[f64; 2]>,
    /// Why the rows do not tell it, where they do not.
    pub unidentified: Option<String>,
}

/// What was fitted on rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refit {
    /// Rows that it used.
    pub rows: usize,
    /// Time of a step.
    pub step: Told,
    /// Time of a worker for a sample.
    pub sample: Told,
    /// Root mean square of the logarithms of predicted over measured rates, on the same rows.
    pub residual: f64,
    /// Factors that the rows allow as well, for intervals of predictions: what is not identified
    /// is the same in all.
    pub draws: Vec<Factors>,
}

impl Refit {
    /// The factors fitted.
    #[must_use]
    pub fn factors(&self) -> Factors {
        Factors { step: self.step.value, sample: self.sample.value }
    }

    /// Those of simulation number `run`.
    #[must_use]
    pub fn drawn(&self, run: u32) -> Factors {
        match self.draws.len() {
            0 => self.factors(),
            // Neighbours on the lattice are far apart in the order of runs.
            count => self.draws[(run as usize).wrapping_mul(40_503) % count],
        }
    }
}

/// Fits factors to measured rows. `simulate` gives, for each of some factors, what each row's
/// simulation shows (`None` where it completes no step).
///
/// # Errors
/// Those of `simulate`.
pub fn refit<E>(
    rows: &[Observed],
    mut simulate: impl FnMut(&[Factors]) -> Result<Vec<Vec<Option<Observed>>>, E>,
) -> Result<Option<Refit>, E> {
    if rows.is_empty() {
        return Ok(None);
    }
    let coarse = Grid::new([0.0; 2], REACH, rows, &mut simulate)?;
    let centre = coarse.best();
    let fine = Grid::new(centre, FINE, rows, &mut simulate)?;
    Ok(Some(Fitting { coarse, fine, rows: rows.len() }.finish()))
}

/// Places as powers of two of the factors: step, sample.
type Place = [f64; 2];

/// Differences of all rows on a square of places.
struct Grid {
    low: Place,
    spacing: f64,
    /// By place, step before sample: differences in units of their standard deviation, rates
    /// before shares.
    residuals: Vec<Vec<f64>>,
}

impl Grid {
    fn new<E>(
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
        let factors: Vec<Factors> = (0..POINTS * POINTS).map(|i| factors(at(i))).collect();
        let simulated = simulate(&factors)?;
        let residuals = simulated.iter().map(|of| residuals(rows, of)).collect();
        Ok(Grid { low, spacing, residuals })
    }

    /// The place with the least loss.
    fn best(&self) -> Place {
        let loss = |index: &usize| loss(&self.residuals[*index]) + pull(self.place(*index));
        let all = 0..self.residuals.len();
        let best = all.min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap_or(0);
        self.place(best)
    }

    fn place(&self, index: usize) -> Place {
        let along = |axis: usize, at: usize| self.low[axis] + self.spacing * at as f64;
        [along(0, index / POINTS), along(1, index % POINTS)]
    }

    /// Places all over the square, `within` along each cell.
    fn dense(&self, within: usize) -> Vec<Place> {
        let (count, spacing) = ((POINTS - 1) * within + 1, self.spacing / within as f64);
        let along = |axis: usize, at: usize| self.low[axis] + spacing * at as f64;
        (0..count * count).map(|i| [along(0, i / count), along(1, i % count)]).collect()
    }

    fn holds(&self, place: Place) -> bool {
        let end = self.spacing * (POINTS as f64 - 1.0);
        (0..2).all(|i| (-1e-9..=end + 1e-9).contains(&(place[i] - self.low[i])))
    }

    /// Differences at any place of the square, interpolated.
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

fn factors(place: Place) -> Factors {
    Factors { step: place[0].exp2(), sample: place[1].exp2() }
}

/// Differences of logarithms: of rates and, where shares of waiting are known, of the time that a
/// step computes.
fn residuals(rows: &[Observed], simulated: &[Option<Observed>]) -> Vec<f64> {
    /// In place of a simulation that completes no step.
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
            // The last per cent of a stall says little of what is left of the step.
            off * (1.0 - row.stall).min(0.1) / 0.1
        });
    rates.chain(shares).map(|off| if off.is_finite() { off } else { FAR }).collect()
}

/// Huber's loss, twice, so that it is a sum of squares for what is near.
fn loss(residuals: &[f64]) -> f64 {
    let one = |off: &f64| {
        let off = off.abs();
        if off <= HUBER { off * off } else { HUBER * (2.0 * off - HUBER) }
    };
    residuals.iter().map(one).sum()
}

fn pull(place: Place) -> f64 {
    PULL * (place[0] * place[0] + place[1] * place[1])
}

/// Both grids.
struct Fitting {
    coarse: Grid,
    fine: Grid,
    rows: usize,
}

impl Fitting {
    fn loss(&self, place: Place) -> f64 {
        let grid = if self.fine.holds(place) { &self.fine } else { &self.coarse };
        loss(&grid.at(place))
    }

    fn finish(self) -> Refit {
        let lattice = self.lattice();
        let losses: Vec<f64> = lattice.iter().map(|place| self.loss(*place)).collect();
        let pulled = |index: &usize| losses[*index] + pull(lattice[*index]);
        let all = 0..lattice.len();
        let best = all.min_by(|a, b| pulled(a).total_cmp(&pulled(b))).unwrap_or(0);
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        // Rows that agree with nothing make everything wider.
        let seen = self.coarse.residuals.first().map_or(0, Vec::len);
        let freedom = PRIOR + seen.saturating_sub(2) as f64;
        let scale = ((least + PRIOR) / freedom).max(1.0);
        let t = student_975(freedom).unwrap_or(f64::INFINITY);
        let allowed = |index: usize| losses[index] <= least + t * t * scale;
        let inside: Vec<Place> =
            (0..lattice.len()).filter(|i| allowed(*i)).map(|i| lattice[i]).collect();
        let told = [0, 1].map(|axis| self.told(axis, lattice[best], &inside));
        let draws = self.draws(lattice[best], &told, &inside, scale, least);
        let residual = self.residual(lattice[best]);
        let [step, sample] = told;
        Refit { rows: self.rows, step, sample, residual, draws }
    }

    /// All places that are looked at: those of either grid with some between.
    fn lattice(&self) -> Vec<Place> {
        let mut places = self.coarse.dense(WITHIN_COARSE);
        places.retain(|place| !self.fine.holds(*place));
        places.extend(self.fine.dense(WITHIN_FINE));
        places
    }

    /// What the rows tell of one factor.
    fn told(&self, axis: usize, best: Place, inside: &[Place]) -> Told {
        let along = || inside.iter().map(|place| place[axis]);
        let (low, high) = (along().fold(best[axis], f64::min), along().fold(best[axis], f64::max));
        let ends = [(low <= 0.01 - REACH), (high >= REACH - 0.01)];
        let value = best[axis].exp2();
        let [below, above] = [low, high].map(f64::exp2);
        let unidentified = match ends {
            [true, true] => Some("no row depends on it".to_owned()),
            [true, false] => Some(format!("the rows only say that it is at most {above:.2}")),
            [false, true] => Some(format!("the rows only say that it is at least {below:.2}")),
            _ if above / below > WIDE => Some(format!(
                "the rows allow {below:.2} to {above:.2}: they do not tell it from the other one, or \
                 differ among themselves"
            )),
            _ => None,
        };
        let ci95 = (ends == [false, false]).then_some([below, above]);
        Told { value, ci95, unidentified }
    }

    /// Places in proportion to their likelihood, of what is identified.
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
                draws.push(factors(place));
            }
        }
        draws
    }

    /// Root mean square of the rates' differences.
    fn residual(&self, place: Place) -> f64 {
        let grid = if self.fine.holds(place) { &self.fine } else { &self.coarse };
        let rates = &grid.at(place)[..self.rows];
        (rates.iter().map(|off| (off * FLOOR).powi(2)).sum::<f64>() / self.rows as f64).sqrt()
    }
}
