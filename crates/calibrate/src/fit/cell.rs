//! Groups equal trials into cells, each with a robust mean, which outliers do not move, and its uncertainty.

use std::cmp::Ordering;

/// Largest number of blocks of neighbouring trials. A disturbance of one trial also disturbs its neighbours, so whole blocks are
/// perturbed together.
const BLOCKS: usize = 12;
/// Distance at which Tukey's biweight reaches zero [robust standard deviations].
const REACH: f64 = 4.685;
/// Weight of the noise pooled over all cells when the noise of one cell is estimated [degrees of freedom].
const PRIOR: f64 = 4.0;
/// Range of valid measured values [s].
const USABLE: std::ops::Range<f64> = 1e-12..1e5;
/// Range of valid settings of a trial; 0 is valid too.
const SETTINGS: std::ops::Range<f64> = 1e-3..1e12;

/// A measured value at settings `x`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observation {
    /// The settings.
    pub(super) x: Vec<f64>,
    /// The value; positive.
    pub(super) value: f64,
    /// Time at which the value was measured, in any unit.
    pub(super) at: f64,
}

/// All observations at the same settings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    /// The settings.
    pub(super) x: Vec<f64>,
    /// Robust mean.
    pub(super) mean: f64,
    /// Variance of the mean, relative to the squared mean.
    pub(super) variance: f64,
    /// The observations.
    pub(super) values: Vec<f64>,
    /// Relative standard deviation of one observation, estimated from the observations of this cell alone.
    pub(super) spread: Option<f64>,
    /// For each block of time (by its number), the influence of its observations on the mean, relative to the mean.
    shifts: Vec<(usize, f64)>,
    /// Standard deviation of the mean, relative to the mean, in addition to the variation between blocks.
    extra: f64,
}

/// Observations grouped into cells, in ascending order of settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Cells {
    /// The cells.
    pub(super) cells: Vec<Cell>,
    /// Number of blocks of time.
    pub(super) blocks: usize,
    /// Degrees of freedom of the noise between equal trials.
    pub(super) freedom: f64,
}

impl Cell {
    /// Returns the mean with random shifts, for a bootstrap draw. `blocks` has a normal deviate for each block of time; `own` is
    /// a normal deviate for this cell alone. `misfit` is the relative deviation of cells from the law beyond their own noise.
    pub(super) fn perturbed(&self, blocks: &[f64], own: f64, misfit: f64) -> f64 {
        let shift: f64 = self.shifts.iter().map(|(block, size)| size * blocks[*block]).sum();
        let own = own * self.extra.hypot(misfit);
        self.mean * (1.0 + shift + own).max(0.05)
    }
}

impl Cells {
    /// Keeps only the cells whose index `used` accepts.
    pub(super) fn keep(&mut self, used: impl Fn(usize) -> bool) {
        let mut index = 0..;
        self.cells.retain(|_| index.next().is_some_and(&used));
    }

    /// Groups observations into cells; leaves out observations with invalid values or settings.
    pub(super) fn new(observations: Vec<Observation>) -> Cells {
        let usable = |x: &f64| *x == 0.0 || SETTINGS.contains(x);
        let finite = |o: &Observation| o.x.iter().all(usable);
        let mut all: Vec<Observation> =
            observations.into_iter().filter(|o| USABLE.contains(&o.value) && finite(o)).collect();
        // Observations without a valid time keep their order in the file.
        all.sort_by(|a, b| a.at.partial_cmp(&b.at).unwrap_or(Ordering::Equal));
        let blocks = all.len().min(BLOCKS);
        let total = all.len().max(1);
        let mut dated: Vec<(usize, Observation)> =
            all.into_iter().enumerate().map(|(i, o)| (i * blocks / total, o)).collect();
        dated.sort_by(|(_, a), (_, b)| order(&a.x, &b.x));
        let groups: Vec<&[(usize, Observation)]> =
            dated.chunk_by(|(_, a), (_, b)| a.x == b.x).collect();
        let scale = pooled_scale(&groups);
        let rough: Vec<Rough> = groups.iter().map(|group| Rough::new(group, scale)).collect();
        let freedom: f64 = rough.iter().map(|r| r.freedom).sum();
        let noise: f64 = rough.iter().map(|r| r.freedom * r.variance).sum();
        let noise = if freedom > 0.0 { noise / freedom } else { 0.0 };
        let cells = rough.into_iter().map(|r| r.moderated(noise, freedom)).collect();
        Cells { cells, blocks, freedom }
    }

    /// Returns the number of observations.
    pub(super) fn count(&self) -> usize {
        self.cells.iter().map(|cell| cell.values.len()).sum()
    }

    /// Returns the means of the cells.
    pub(super) fn means(&self) -> Vec<f64> {
        self.cells.iter().map(|cell| cell.mean).collect()
    }

    /// Returns the smallest and largest value of setting number `index`.
    pub(super) fn range(&self, index: usize) -> Option<[f64; 2]> {
        let values = || self.cells.iter().map(|cell| cell.x[index]);
        Some([values().reduce(f64::min)?, values().reduce(f64::max)?])
    }
}

/// Compares settings lexicographically.
fn order(a: &[f64], b: &[f64]) -> Ordering {
    let differing = a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|o| o.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Returns the median; NaN if there are no values.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => 0.5 * (values[n / 2 - 1] + values[n / 2]),
    }
}

/// Returns the relative standard deviation of equal trials, pooled over all cells and estimated from the median of absolute
/// deviations. The smallest deviation of each cell is left out: it is the deviation of the trial nearest to the median, so it
/// says nothing about the spread.
fn pooled_scale(groups: &[&[(usize, Observation)]]) -> f64 {
    let mut deviations = Vec::new();
    for group in groups.iter().filter(|group| group.len() > 1) {
        let mut values: Vec<f64> = group.iter().map(|(_, o)| o.value).collect();
        let middle = median(&mut values);
        let mut own: Vec<f64> = values.iter().map(|v| (v / middle - 1.0).abs()).collect();
        own.sort_by(f64::total_cmp);
        deviations.extend_from_slice(&own[1..]);
    }
    if deviations.is_empty() { 0.0 } else { 1.4826 * median(&mut deviations) }
}

/// A cell with the variance of its own trials only, before the noise of the other cells is included.
struct Rough {
    x: Vec<f64>,
    mean: f64,
    values: Vec<f64>,
    /// Effective number of observations less one.
    freedom: f64,
    /// Relative variance of one observation.
    variance: f64,
    shifts: Vec<(usize, f64)>,
}

impl Rough {
    fn new(group: &[(usize, Observation)], pooled: f64) -> Rough {
        let values: Vec<f64> = group.iter().map(|(_, o)| o.value).collect();
        let scale = own_scale(&values).max(pooled).max(1e-9);
        let mean = centre(&values, scale);
        let standard = |v: &f64| (v / mean - 1.0) / (REACH * scale);
        let slope = |z: f64| if z.abs() < 1.0 { (1.0 - z * z) * (1.0 - 5.0 * z * z) } else { 0.0 };
        let kept: f64 = values.iter().map(|v| weight(standard(v))).sum();
        let slopes: f64 = values.iter().map(|v| slope(standard(v))).sum();
        // The influence function of an M-estimate (Huber, Robust Statistics, section 3.2).
        let divisor = slopes.max(0.5 * kept).max(0.5);
        let unbiased = (kept / (kept - 1.0).max(0.5)).sqrt();
        let influence = |v: &f64| {
            weight(standard(v)) * (v / mean - 1.0) / divisor
                * if kept > 1.0 { unbiased } else { 0.0 }
        };
        let mut shifts: Vec<(usize, f64)> = Vec::new();
        let mut squares = 0.0;
        for (value, (block, _)) in values.iter().zip(group) {
            let shift = influence(value);
            squares += shift * shift;
            match shifts.iter_mut().find(|(at, _)| at == block) {
                Some((_, sum)) => *sum += shift,
                None => shifts.push((*block, shift)),
            }
        }
        Rough {
            x: group[0].1.x.clone(),
            mean,
            values,
            freedom: (kept - 1.0).max(0.0),
            variance: squares * kept,
            shifts,
        }
    }

    /// Returns the cell; its variance becomes the average of its own variance and `noise`, the pooled variance of all cells,
    /// because a variance from few values is uncertain. The weights are degrees of freedom (Smyth, 2004).
    fn moderated(mut self, noise: f64, freedom: f64) -> Cell {
        let prior = PRIOR.min(freedom);
        let sum = (prior + self.freedom).max(1e-9);
        let variance = (prior * noise + self.freedom * self.variance) / sum;
        let kept = self.freedom + 1.0;
        let extra = ((variance - self.variance) / kept).max(0.0).sqrt();
        if self.variance > variance {
            let factor = (variance / self.variance).sqrt();
            self.shifts.iter_mut().for_each(|(_, shift)| *shift *= factor);
        }
        let spread = (self.freedom > 0.0).then(|| self.variance.sqrt());
        let Rough { x, mean, values, shifts, .. } = self;
        Cell { x, mean, variance: variance / kept, values, spread, shifts, extra }
    }
}

/// Returns the relative standard deviation of the values; 0 if they are too few to determine it.
fn own_scale(values: &[f64]) -> f64 {
    if values.len() < 5 {
        return 0.0;
    }
    let middle = median(&mut values.to_vec());
    let mut deviations: Vec<f64> = values.iter().map(|v| (v / middle - 1.0).abs()).collect();
    1.4826 * median(&mut deviations)
}

/// Returns Tukey's biweight. Distant values have no weight at all. Under Huber's weights, disturbed trials, which are all slower,
/// would still pull the mean.
fn weight(z: f64) -> f64 {
    if z.abs() < 1.0 { (1.0 - z * z).powi(2) } else { 0.0 }
}

/// Returns the robust mean of the values. The iteration starts at their median; for two values it starts at the smaller one, as
/// disturbances only slow trials down.
fn centre(values: &[f64], scale: f64) -> f64 {
    let mut centre = match values {
        [a, b] => a.min(*b),
        _ => median(&mut values.to_vec()),
    };
    for _ in 0..10 {
        let weights = values.iter().map(|v| weight((v / centre - 1.0) / (REACH * scale)));
        let (sum, all) = weights.zip(values).fold((0.0, 0.0), |(s, a), (w, v)| (s + w, a + w * v));
        if sum < 0.5 {
            break;
        }
        centre = all / sum;
    }
    centre
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(values: &[(f64, f64)]) -> Cells {
        let observation = |(i, (x, value)): (usize, &(f64, f64))| Observation {
            x: vec![*x],
            value: *value,
            at: i as f64,
        };
        Cells::new(values.iter().enumerate().map(observation).collect())
    }

    #[test]
    fn one_slow_trial_hardly_changes_the_mean_of_all_trials() {
        let quiet = [(1.0, 1.0), (1.0, 1.01), (1.0, 0.99), (1.0, 1.005), (1.0, 0.995)];
        let clean = cells(&quiet).cells[0].mean;
        let disturbed = [&quiet[..], &[(1.0, 3.0)]].concat();
        assert!((cells(&disturbed).cells[0].mean - clean).abs() < 0.002);
    }

    #[test]
    fn two_trials_that_differ_much_are_fitted_as_the_faster_one() {
        let pairs = [(1.0, 1.0), (1.0, 1.01), (2.0, 2.0), (2.0, 2.01), (3.0, 3.0), (3.0, 9.0)];
        let cells = cells(&pairs);
        assert!((cells.cells[2].mean - 3.0).abs() < 0.01);
        assert!((cells.cells[0].mean - 1.005).abs() < 0.002);
    }

    #[test]
    fn nonpositive_and_infinite_values_are_excluded_from_a_fit() {
        let bad = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300];
        let all: Vec<(f64, f64)> = bad.iter().flat_map(|b| [(1.0, *b), (*b, f64::NAN)]).collect();
        assert_eq!(cells(&all).count(), 0);
        assert_eq!(cells(&[]).count(), 0);
        assert_eq!(cells(&[(2.0, 5.0)]).cells[0].mean, 5.0);
    }

    #[test]
    fn identical_trials_have_a_variance_of_zero() {
        let same = cells(&[(1.0, 2.0), (1.0, 2.0), (1.0, 2.0)]);
        assert_eq!((same.cells[0].mean, same.cells[0].variance), (2.0, 0.0));
    }
}
