//! Fits without a law: cost of passing items through a queue, speed of cores, noise, jitter.

use super::bootstrap;
use super::cell::{Cell, Cells, median};
use super::estimate::{Law, Term, rounded};
use super::laws::cells;
use super::shape::Piece;
use crate::measurement::Sample;
use forebay_scenario::profile::{Fit, Parameter};
use std::collections::BTreeMap;

const QUEUE: Law<'static> = Law {
    pieces: &[Piece { columns: 1, features: |_| [1.0, 0.0, 0.0] }],
    terms: &[Term { name: "per_item", unit: "core-s", at: (0, 0), rate: false, unseen: "" }],
    settings: &["capacity", "producers", "consumers"],
};

/// Fits the core-seconds of passing an item through the queue.
pub(super) fn queue(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let cells = cells(samples, QUEUE.settings, Sample::core_seconds_each);
    QUEUE.fit(&cells, &[vec![0; cells.cells.len()]], draws)
}

/// Settings of trials that keep several cores busy: the first three define the work, the last is the number of threads.
pub(super) const WORK: [&str; 4] = ["bytes", "pixels", "resize", "threads"];

/// Returns the share of the time in which threads wanted a core that they got one.
pub(super) fn got(sample: &Sample) -> f64 {
    let waited = sample.observed.get("waited").copied().filter(|waited| *waited > 0.0);
    match waited {
        Some(waited) if sample.core_seconds > 0.0 => {
            sample.core_seconds / (sample.core_seconds + waited)
        }
        _ => 1.0,
    }
}

/// Fits the speed of a core while n threads compute, relative to its speed while one does: the decoding rate of n threads together,
/// divided by the rate of a single thread with the same work and by the number of busy cores. Trials with more threads than `cores`
/// (0 if unknown) are left out where a quota leaves a part of a core: the quota slows them. If trials ran beside others, all speeds are
/// relative to a core that a thread has for itself: then `speed_1` is the share of a core that a single thread gets.
pub(super) fn cores(
    samples: &[&Sample],
    reads: &[&Sample],
    cores: f64,
    draws: usize,
) -> Option<Fit> {
    let whole = cores <= 0.0 || cores.fract() == 0.0;
    let may = |s: &&&Sample| {
        let threads = s.setting("threads");
        (1.0..1e6).contains(&threads) && (whole || threads <= cores.max(1.0))
    };
    let samples: Vec<&Sample> = samples.iter().filter(may).copied().collect();
    let most = if cores > 0.0 { cores.max(1.0) } else { f64::INFINITY };
    let per_thread = |s: &Sample| s.seconds_each() * s.setting("threads").min(most);
    let mut cells = cells(&samples, &WORK, per_thread);
    let pairs = pairs(&cells.cells);
    if pairs.is_empty() {
        let (share, drawn) = lone_share(&samples, reads, cores, draws)?;
        let fit = plain(&["speed_1".to_owned()], "1", &[share], &drawn);
        return Some(Fit { samples: cells.count() as u64, ..fit });
    }
    let used = |index: usize| pairs.values().flatten().any(|(a, b)| *a == index || *b == index);
    let speeds = |means: &[f64]| {
        let speed = |pairs: &Vec<(usize, usize)>| {
            median(
                &mut pairs.iter().map(|(one, many)| means[*one] / means[*many]).collect::<Vec<_>>(),
            )
        };
        Some(pairs.values().map(speed).collect::<Vec<f64>>())
    };
    let centre = speeds(&cells.means())?;
    let freedom = bootstrap::freedom(&cells, cells.cells.len());
    let mut all = bootstrap::draws(&cells, 0.0, &centre, draws, freedom, speeds);
    let mut names: Vec<String> = pairs.keys().map(|threads| format!("speed_{threads}")).collect();
    let mut centre = centre;
    if let Some((share, drawn)) = lone_share(&samples, reads, cores, draws) {
        names.push("speed_1".to_owned());
        centre.iter_mut().for_each(|speed| *speed *= share);
        centre.push(share);
        for (index, draw) in all.iter_mut().enumerate() {
            let share = drawn.get(index).map_or(share, |drawn| drawn[0]);
            draw.iter_mut().for_each(|speed| *speed *= share);
            draw.push(share);
        }
    }
    let mut fit = plain(&names, "1", &centre, &all);
    cells.keep(used);
    fit.samples = cells.count() as u64;
    fit.residual = rounded(spread(&cells));
    fit.range = BTreeMap::from_iter(cells.range(3).map(|range| ("threads".to_owned(), range)));
    Some(fit)
}

/// Returns the share of a core that a single thread gets beside others, with its draws; `None` if no trial ran beside others. What
/// a quota of less than a core holds back is not the others': the number of cores says it.
///
/// A thread that sleeps, as one that reads does, gets less beside others than one that computes without a pause, whose neighbours the
/// kernel moves to other cores. A loader's threads are between: the share is the geometric mean of both, and draws are anywhere between
/// them.
fn lone_share(
    samples: &[&Sample],
    reads: &[&Sample],
    cores: f64,
    draws: usize,
) -> Option<(f64, Vec<Vec<f64>>)> {
    if samples.iter().all(|sample| sample.beside.is_none()) {
        return None;
    }
    let most = if cores > 0.0 { cores.min(1.0) } else { 1.0 };
    let share = |sample: &&Sample| (got(sample) / most).min(1.0);
    let computing = samples.iter().filter(|sample| sample.setting("threads") == 1.0);
    let computing: Vec<f64> = computing.map(share).collect();
    let sleeps = |sample: &&&Sample| {
        sample.settings.get("readers") == Some(&1.0) && sample.label("access") != "warm"
    };
    let mut sleeping: Vec<f64> = reads.iter().filter(sleeps).map(share).collect();
    let (value, drawn) = resampled(&computing, draws, median)?;
    if sleeping.is_empty() {
        return Some((value, drawn));
    }
    let least = median(&mut sleeping).min(value);
    let between = |place: f64| value * (least / value).powf(place);
    // Multiples of the golden ratio are spread evenly.
    let place = |index: usize| (index as f64 * 0.618_033_988_749_895).fract();
    Some((between(0.5), (0..draws).map(|index| vec![between(place(index))]).collect()))
}

/// Returns, for each number of threads, pairs of cells with the same work: the first cell has one thread, the second has this
/// number of threads.
fn pairs(cells: &[Cell]) -> BTreeMap<u64, Vec<(usize, usize)>> {
    let mut pairs: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
    for (many, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.x[3] > 1.0) {
        let alone = |other: &Cell| other.x[3] == 1.0 && other.x[..3] == cell.x[..3];
        if let Some(one) = cells.iter().position(alone) {
            pairs.entry(cell.x[3] as u64).or_default().push((one, many));
        }
    }
    pairs
}

/// Returns the median of |measured − mean of equal trials| ÷ measured.
fn spread(cells: &Cells) -> f64 {
    let of_cell =
        |cell: &Cell| cell.values.iter().map(|v| (1.0 - cell.mean / v).abs()).collect::<Vec<_>>();
    median(&mut cells.cells.iter().flat_map(of_cell).collect::<Vec<_>>())
}

/// Largest distance from the mean with which a trial counts for the noise [relative standard deviations]; outliers count as this far off.
const CLIPPED: f64 = 3.0;

/// Fits the relative standard deviations between equal trials, over all `groups` together, divided into two parts: `trial`, between
/// trials that follow each other, which averages out over a run that is longer than it lasts (`trial_length`, here `lasts`); and
/// `run_to_run`, by which the machine drifts over the calibration, and which stays for a whole run. Half the mean square of successive differences
/// is the variance without drift (von Neumann, 1941).
pub(super) fn noise(groups: &[Cells], lasts: f64, draws: usize) -> Option<Fit> {
    let with_equals = |cell: &&Cell| cell.values.len() > 1 && cell.spread.is_some();
    let all: Vec<&Cell> = groups.iter().flat_map(|g| &g.cells).filter(with_equals).collect();
    let most = CLIPPED * median(&mut all.iter().filter_map(|cell| cell.spread).collect::<Vec<_>>());
    let variances: Vec<Variances> = all.iter().map(|cell| Variances::new(cell, most)).collect();
    if variances.is_empty() {
        return None;
    }
    // Draws of the same number resample the same cells.
    let drawn = [Variances::drift, Variances::trial]
        .map(|part| bootstrap::plain_draws(&variances, draws, |of| part(of)));
    let drawn: Vec<Vec<f64>> =
        drawn[0].iter().zip(&drawn[1]).map(|(drift, trial)| vec![*drift, *trial, lasts]).collect();
    let value = [Variances::drift(&variances), Variances::trial(&variances), lasts];
    let names = ["run_to_run", "trial", "trial_length"].map(str::to_owned);
    let mut fit = plain(&names, "1", &value, &drawn);
    if let Some(length) = fit.parameters.get_mut("trial_length") {
        length.unit = "s".to_owned();
    }
    fit.samples = all.iter().map(|cell| cell.values.len() as u64).sum();
    Some(fit)
}

/// Relative variances of equal trials.
#[derive(Debug, Clone, Copy, Default)]
struct Variances {
    /// Variance about the mean.
    whole: f64,
    /// Half the mean square of differences between trials that follow each other.
    successive: f64,
    /// Number of trials less one.
    freedom: f64,
}

impl Variances {
    /// Returns the variances of a cell's trials. A trial whose distance from the mean is larger than `most` counts with the distance
    /// `most`.
    fn new(cell: &Cell, most: f64) -> Variances {
        let off = cell.values.iter().map(|value| (value / cell.mean - 1.0).clamp(-most, most));
        let off: Vec<f64> = off.collect();
        let freedom = off.len() as f64 - 1.0;
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        let squares = off.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        let steps = off.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum::<f64>();
        Variances { whole: squares / freedom, successive: steps / (2.0 * freedom), freedom }
    }

    /// Returns the mean of `part` over all cells, by their numbers of trials.
    fn pooled(all: &[Variances], part: impl Fn(&Variances) -> f64) -> f64 {
        let sum: f64 = all.iter().map(|of| of.freedom * part(of)).sum();
        sum / all.iter().map(|of| of.freedom).sum::<f64>()
    }

    /// Returns the standard deviation between trials that follow each other.
    fn trial(all: &[Variances]) -> f64 {
        Variances::pooled(all, |of| of.successive).sqrt()
    }

    /// Returns the standard deviation that remains beyond that between trials that follow each other.
    fn drift(all: &[Variances]) -> f64 {
        Variances::pooled(all, |of| of.whole - of.successive).max(0.0).sqrt()
    }
}

/// Adds the jitter (spread of step times within a trial) to `fit`, if the samples contain it.
pub(super) fn add_jitter(fit: &mut Fit, samples: &[&Sample], draws: usize) {
    let jitter = |s: &&Sample| s.observed.get("jitter").copied();
    let usable = |value: &f64| value.is_finite() && (0.0..1e6).contains(value);
    let seen: Vec<f64> = samples.iter().filter_map(jitter).filter(usable).collect();
    let Some((value, drawn)) = resampled(&seen, draws, median) else { return };
    let jitter = plain(&["jitter".to_owned()], "1", &[value], &drawn);
    super::laws::join(fit, jitter);
}

/// Adds the spread of the read latency to `fit`: the standard deviation of the latency's logarithm in the trials with the fewest
/// readers. It is computed from the median and the 99 % quantile of a lognormal distribution.
pub(super) fn add_latency_spread(fit: &mut Fit, samples: &[&Sample], draws: usize) {
    /// 99 % quantile of the standard normal distribution.
    const Z99: f64 = 2.326_347_874;
    let fewest = samples.iter().map(|s| s.setting("readers")).fold(f64::INFINITY, f64::min);
    let alone = samples.iter().filter(|s| s.setting("readers") == fewest);
    let spread = |s: &&Sample| {
        let (p50, p99) = (s.observed.get("latency_p50")?, s.observed.get("latency_p99")?);
        Some((p99 / p50).ln() / Z99).filter(|spread| spread.is_finite() && *spread >= 0.0)
    };
    let seen: Vec<f64> = alone.filter_map(spread).collect();
    let Some((value, drawn)) = resampled(&seen, draws, median) else { return };
    let spread = plain(&["latency_spread".to_owned()], "1", &[value], &drawn);
    super::laws::join(fit, spread);
}

/// Returns the statistic `figure` of the values, and bootstrap draws of it, widened for the number of values. Returns `None` if
/// there are no values.
pub(super) fn resampled(
    values: &[f64],
    draws: usize,
    figure: impl Fn(&mut [f64]) -> f64,
) -> Option<(f64, Vec<Vec<f64>>)> {
    if values.is_empty() {
        return None;
    }
    let value = figure(&mut values.to_vec());
    let drawn = bootstrap::plain_draws(values, draws, |values| figure(values));
    Some((value, drawn.into_iter().map(|v| vec![v]).collect()))
}

/// Returns a fit whose parameters are the given values. Draws have the order of `names`; they are stored in ascending order of
/// names.
pub(super) fn plain(names: &[String], unit: &str, values: &[f64], draws: &[Vec<f64>]) -> Fit {
    let parameter = |(index, (name, value)): (usize, (&String, &f64))| {
        let interval = bootstrap::interval(draws, index, *value);
        let ci95 = interval.map(|ends| ends.map(rounded));
        let unidentified = match ci95 {
            None => Some("too few trials for an interval".to_owned()),
            Some([low, high]) if high - low > *value && *value > 0.0 => {
                Some("the interval is wider than the value".to_owned())
            }
            Some(_) => None,
        };
        let unit = unit.to_owned();
        (name.clone(), Parameter { value: rounded(*value), unit, ci95, unidentified })
    };
    let parameters = names.iter().zip(values).enumerate().map(parameter).collect();
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|index| &names[*index]);
    let drawn = |draw: &Vec<f64>| order.iter().map(|index| rounded(draw[*index])).collect();
    let draws = draws.iter().take(super::estimate::KEPT).map(drawn).collect();
    Fit { parameters, draws, ..Fit::default() }
}
