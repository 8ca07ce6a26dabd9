//! Fits the times of messages and collectives as a function of size: the median of each measured size, and a law for other sizes
//! beyond them. Sizes are split into ranges, and a straight line is fitted to each range.
//!
//! If tables name algorithms, the sizes of each algorithm have lines of their own. Within an algorithm, the borders between
//! ranges minimise Huber's loss plus Schwarz's penalty (1978) for each range after the first. The borders are found by dynamic
//! programming (Jackson et al., *An Algorithm for Optimal Partitioning of Data on an Interval*, 2005). The noise is estimated
//! before any line is fitted: from the distance between each size's time and the straight line through its two neighbours
//! (Gasser, Sroka and Jennen-Steinmetz, 1986).
//!
//! A range has at least three sizes, since a line fits any two sizes exactly. But times may jump before the last two sizes of a
//! table (DeepBench's all-reduce has seven sizes up to 258 MB; on Knights Landing its times jump between 67 and 153 MB). So the
//! last range may have only two sizes, at twice the penalty, if the times of both are far above, or both far below, the line of
//! the range before.

use super::by;
use super::cell::{Cell, Cells, Observation, median};
use super::ranges::Lines;
use super::shape::{Piece, Problem, Solution};
use super::sizes::with_measured;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;
use std::collections::BTreeMap;

const LINE: [Piece; 1] = [Piece { columns: 2, features: |x| [1.0, x[0], 0.0] }];
/// Smallest number of sizes in a range of one algorithm; a line would fit any two sizes exactly.
const FEWEST: usize = 3;
/// Number of sizes in a short last range, which follows a jump of the times at the end of a table.
const BEYOND: usize = 2;
/// Smallest relative distance that counts as a jump: the distance of the times in a short last range from the line of the range
/// before it.
const JUMP: f64 = 0.2;
/// Maximum number of sizes that the law uses; if there are more, every second, third or n-th size is used.
const MOST: usize = 200;
/// Smallest relative noise that is assumed for a table.
const FLOOR: f64 = 0.01;

/// Returns fits by transport, then by collective with its number of ranks, such as `allreduce-8`.
pub(super) fn transports(
    samples: &[&Sample],
    draws: usize,
) -> BTreeMap<String, BTreeMap<String, Fit>> {
    let whole = |value: f64| value >= 0.0 && value.fract() == 0.0;
    let usable = |s: &&&Sample| {
        let (bytes, ranks) = (s.setting("bytes"), s.setting("ranks"));
        !s.label("transport").is_empty() && whole(bytes) && whole(ranks) && ranks >= 1.0
    };
    let samples: Vec<&Sample> = samples.iter().filter(usable).copied().collect();
    let kind = |s: &Sample| format!("{}-{}", s.label("collective"), s.setting("ranks"));
    let of_transport = |group: &[&Sample]| {
        let fits = by(group, kind, |group| fit(group, draws));
        fits.into_iter().filter_map(|(kind, fit)| Some((kind, fit?))).collect::<BTreeMap<_, _>>()
    };
    let mut all = by(&samples, |s| s.label("transport").to_owned(), of_transport);
    all.retain(|_, fits| !fits.is_empty());
    all
}

/// Fits the law of one collective on a fixed number of ranks.
pub(super) fn fit(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let fastest = fastest(samples);
    let observation = |(sample, _): &(&Sample, &str)| Observation {
        x: vec![sample.setting("bytes")],
        value: sample.seconds_each(),
        at: sample.at,
    };
    let measured = Cells::new(fastest.iter().map(observation).collect());
    let mut cells = measured.clone();
    let every = cells.cells.len().div_ceil(MOST).max(1);
    cells.cells = cells.cells.into_iter().step_by(every).collect();
    let named = |cell: &Cell| {
        let same = |(sample, _): &&(&Sample, &str)| sample.setting("bytes") == cell.x[0];
        fastest.iter().find(same).map_or("", |(_, name)| *name)
    };
    let mut algorithms: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, cell) in cells.cells.iter().enumerate() {
        algorithms.entry(named(cell)).or_default().push(index);
    }
    let noise = noise(&cells.cells, algorithms.values()).max(FLOOR);
    let mut lines = Vec::new();
    for of in algorithms.values() {
        lines.extend(split(&cells, of, noise)?);
    }
    let law = Lines { cells: &cells, lines, noise }.fit(draws)?;
    Some(with_measured(law, &measured, noise, draws))
}

/// Returns, for each size, the trials of the fastest algorithm at this size, with the algorithm's name.
fn fastest<'a>(samples: &[&'a Sample]) -> Vec<(&'a Sample, &'a str)> {
    let mut sizes: BTreeMap<u64, BTreeMap<&str, Vec<&Sample>>> = BTreeMap::new();
    for &sample in samples {
        // Sizes are not negative, so they have the same order as their bits.
        let size = sample.setting("bytes").to_bits();
        sizes.entry(size).or_default().entry(sample.label("algorithm")).or_default().push(sample);
    }
    let time = |trials: &Vec<&Sample>| {
        median(&mut trials.iter().map(|trial| trial.seconds_each()).collect::<Vec<_>>())
    };
    let best = |algorithms: BTreeMap<&'a str, Vec<&'a Sample>>| {
        let least = algorithms.into_iter().min_by(|(_, a), (_, b)| time(a).total_cmp(&time(b)));
        least.map(|(name, trials)| trials.into_iter().map(move |trial| (trial, name)))
    };
    sizes.into_values().filter_map(best).flatten().collect()
}

/// Returns the relative standard deviation of a size's mean time about the line between its two neighbours of the same algorithm.
fn noise<'a>(cells: &[Cell], algorithms: impl Iterator<Item = &'a Vec<usize>>) -> f64 {
    let off = |three: &[usize]| {
        let [a, b, c] = [0, 1, 2].map(|index| &cells[three[index]]);
        let share = (b.x[0] - a.x[0]) / (c.x[0] - a.x[0]);
        let ends = [(1.0 - share) * a.mean, share * c.mean];
        let spread = (b.mean.powi(2) + ends[0].powi(2) + ends[1].powi(2)).sqrt();
        (b.mean - ends[0] - ends[1]).abs() / spread
    };
    let mut all: Vec<f64> = algorithms.flat_map(|of| of.windows(3).map(off)).collect();
    if all.is_empty() { 0.0 } else { 1.4826 * median(&mut all) }
}

/// Returns the line fitted to the cells with the indices `of`, and the Huber loss of this line.
pub(super) fn line(
    cells: &Cells,
    of: &[usize],
    means: &[f64],
    noise: f64,
) -> Option<(Solution, f64)> {
    let settings: Vec<&[f64]> = of.iter().map(|index| &cells.cells[*index].x[..]).collect();
    let variances = of.iter().map(|index| cells.cells[*index].variance).collect();
    let means: Vec<f64> = of.iter().map(|index| means[*index]).collect();
    let problem = Problem::new(&LINE, &settings, variances);
    let solution = problem.refine(&means, &vec![0; of.len()], 0b11, noise)?;
    let loss = solution.loss(&problem.deviations(noise));
    Some((solution, loss))
}

/// Splits the cells of one algorithm into ranges, so that the sum of loss and penalty is minimal.
fn split(cells: &Cells, of: &[usize], noise: f64) -> Option<Vec<Vec<usize>>> {
    let means = cells.means();
    // Penalty of a further range: a border, and two coefficients of another line.
    let price = 3.0 * (0.5 * (of.len() as f64).ln() + 0.5);
    // For the first n cells: the least cost, and the start of the last range.
    let mut best: Vec<Option<(f64, usize)>> = vec![None; of.len() + 1];
    for end in 1..=of.len() {
        for start in 0..end {
            let (few, first) = (end - start < FEWEST, start == 0);
            let beyond = end == of.len() && end - start == BEYOND && jumps(cells, of, &best, noise);
            let before = match (first, few, best[start]) {
                (true, ..) => 0.0,
                (_, false, Some((cost, _))) if start >= FEWEST => cost + price,
                (_, true, Some((cost, _))) if beyond => cost + 2.0 * price,
                _ => continue,
            };
            let cost = before + line(cells, &of[start..end], &means, noise)?.1;
            if best[end].is_none_or(|(least, _)| cost < least) {
                best[end] = Some((cost, start));
            }
        }
    }
    let mut ranges = Vec::new();
    let mut end = of.len();
    while end > 0 {
        let (_, start) = best[end]?;
        ranges.push(of[start..end].to_vec());
        end = start;
    }
    Some(ranges)
}

/// Returns whether the last two cells are both far above, or both far below, the line of the range that ends before them.
fn jumps(cells: &Cells, of: &[usize], best: &[Option<(f64, usize)>], noise: f64) -> bool {
    let end = of.len() - BEYOND;
    let Some(start) = best[end].map(|(_, start)| start).filter(|start| end - start >= FEWEST)
    else {
        return false;
    };
    let found = line(cells, &of[start..end], &cells.means(), noise);
    let Some([offset, slope, _]) = found.and_then(|(solution, _)| solution.pieces[0]) else {
        return false;
    };
    let off = |cell: &usize| {
        let cell = &cells.cells[*cell];
        cell.mean / (offset + slope * cell.x[0]) - 1.0
    };
    let off: Vec<f64> = of[end..].iter().map(off).collect();
    off.iter().all(|off| *off > JUMP) || off.iter().all(|off| *off < -JUMP)
}
