//! What ranks do beside computing and how long epochs take to begin, fitted to the results of other submitters' systems.

use super::{StorageResult, StorageResults, StorageRole, System};
use crate::import::dlio::Beside;
use crate::stats::quantile;
use rayon::prelude::*;

/// Which of the constants of [`Beside`] a workload has: two at most, because results lie at the threshold of utilisation and tell no more.
///
/// The choice was made on the rounds' results in this repository: PyTorch's ranks wait for each other on a host in proportion to their
/// number, and TensorFlow's take their share of its cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// A varying time of each rank, and turns of the ranks of a host.
    VaryingAndSerial,
    /// A varying time of each rank.
    Varying,
    /// A varying time of each rank, and threads on the host's cores.
    VaryingAndThreads(u32),
}

/// Constants of a workload in the rounds of one kind, and the results that they were fitted to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// The constants.
    pub beside: Beside,
    /// Number of results that were fitted.
    pub results: usize,
}

impl Shape {
    /// Returns the constants that a workload has.
    #[must_use]
    pub fn of(round: &str, workload: &str) -> Shape {
        match (workload, StorageResult::counts_first(round)) {
            ("resnet50" | "cosmoflow", _) => Shape::VaryingAndThreads(8),
            ("unet3d", true) => Shape::VaryingAndSerial,
            _ => Shape::Varying,
        }
    }

    /// Returns the constants whose two numbers are `of`; a shape with one number does not use the second.
    fn beside(self, of: [f64; 2]) -> Beside {
        let none = Beside { threads: 1, ..Beside::default() };
        match self {
            Shape::VaryingAndSerial => Beside { varying: of[0], serial: of[1], ..none },
            Shape::Varying => Beside { varying: of[0], ..none },
            Shape::VaryingAndThreads(threads) => {
                Beside { varying: of[0], work: of[1], threads, ..none }
            }
        }
    }

    fn has_two(self) -> bool {
        matches!(self, Shape::VaryingAndSerial | Shape::VaryingAndThreads(_))
    }
}

/// Returns the sum of relative errors of samples per second to the power of 3/2.
fn loss(rows: &[Known<'_>], beside: &Beside) -> f64 {
    let error =
        |row: &Known<'_>| (expected(row, beside) / row.of.samples_per_second - 1.0).abs().powf(1.5);
    rows.iter().map(error).sum()
}

/// Numbers that are tried for each constant, as powers of their ratio: from a ten-thousandth of a step to all of it.
const TRIED: i32 = 60;

/// A result to fit to, with what its prediction needs besides.
pub(super) struct Known<'a> {
    pub(super) of: &'a StorageResult,
    pub(super) system: &'a System,
    /// Bandwidth from which it is predicted [B/s].
    pub(super) bandwidth: f64,
    /// Time that beginning an epoch adds to reading its first batches [s].
    pub(super) start: f64,
}

/// Returns the results of a workload in rounds of one kind that tell what ranks do beside computing: those of systems whose bandwidth is known
/// from elsewhere. Where there are none, those of other systems, as if their bandwidth were not a limit: they tell the most that it can be.
fn rows<'a>(
    all: &'a StorageResults,
    round: &str,
    workload: &str,
    without: Option<&str>,
) -> Vec<Known<'a>> {
    let (mut telling, mut others) = (Vec::new(), Vec::new());
    for system in &all.systems {
        let same = StorageResult::counts_first(&system.round) == StorageResult::counts_first(round);
        if !same || Some(system.submitter.as_str()) == without {
            continue;
        }
        let (bandwidth, roles) = system.bandwidth();
        for (of, role) in system.results.iter().zip(roles).filter(|(of, _)| of.workload == workload)
        {
            let known = |bandwidth| Known { of, system, bandwidth, start: start(all, system, of) };
            match role {
                StorageRole::Held | StorageRole::PriceList => telling.push(known(bandwidth)),
                StorageRole::Bandwidth | StorageRole::Single => others.push(known(f64::INFINITY)),
            }
        }
    }
    if telling.is_empty() { others } else { telling }
}

/// Fits the constants of a workload to the results of all systems of its rounds, except for those of `without`, by the least sum of relative
/// errors of samples per second to the power of 3/2: the least sum of errors is flat, and a few storage-bound results dominate the
/// least sum of squares. `None` if there are no results.
#[must_use]
pub fn fit(
    all: &StorageResults,
    round: &str,
    workload: &str,
    without: Option<&str>,
) -> Option<Law> {
    let rows = rows(all, round, workload, without);
    let shape = Shape::of(round, workload);
    let step = rows.first()?.of.step;
    let loss = |of: [f64; 2]| loss(&rows, &shape.beside(of));
    let tried = |power: i32| step * 10_f64.powf(-4.0 * f64::from(TRIED - power) / f64::from(TRIED));
    let seconds: Vec<f64> = match shape.has_two() {
        true => std::iter::once(0.0).chain((0..=TRIED).map(tried)).collect(),
        false => vec![0.0],
    };
    let pairs: Vec<[f64; 2]> = std::iter::once(0.0)
        .chain((0..=TRIED).map(tried))
        .flat_map(|first| seconds.iter().map(move |second| [first, *second]))
        .collect();
    let losses: Vec<f64> = pairs.par_iter().map(|of| loss(*of)).collect();
    let mut best =
        (0..pairs.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b])).map(|of| pairs[of])?;
    // Then in finer and finer steps around the best.
    let mut width = 10_f64.powf(4.0 / f64::from(TRIED));
    while width > 1.001 {
        let around = |of: f64| [of / width, of, of * width];
        let near = around(best[0]).into_iter().flat_map(|a| around(best[1]).map(|b| [a, b]));
        let better = near.min_by(|a, b| loss(*a).total_cmp(&loss(*b)));
        match better.filter(|of| loss(*of) < loss(best)) {
            Some(better) => best = better,
            None => width = width.sqrt(),
        }
    }
    Some(Law { beside: shape.beside(best), results: rows.len() })
}

/// Returns the samples per second of a result in closed form: a step takes the longer of computing with the work beside it, and of reading
/// its bytes; in the rounds that count it, the first batch of an epoch is read beside those of all workers that each make one.
pub(super) fn expected(row: &Known<'_>, beside: &Beside) -> f64 {
    let of = row.of;
    let step = steady_step(of, beside, row.bandwidth);
    let together = if of.is_pytorch() { f64::from(of.workers) } else { 1.0 };
    let first = match StorageResult::counts_first(&row.system.round) {
        true => of.bytes_of_step() * together / row.bandwidth + row.start,
        false => 0.0,
    };
    let steps = f64::from(of.steps);
    f64::from(of.ranks) * f64::from(of.batch) * steps / (steps * step + first)
}

/// Returns the time of a step after the first of an epoch, in closed form [s].
pub(super) fn steady_step(of: &StorageResult, beside: &Beside, bandwidth: f64) -> f64 {
    let slowest = beside.slowest(of.ranks, of.hosts, of.cores);
    (of.step + slowest).max(of.bytes_of_step() / bandwidth)
}

/// Returns the time that beginning an epoch adds to reading its first batches, in the mean over epochs [s]: the start of PyTorch's workers
/// in the first epoch, TensorFlow's list of files in each. Medians of results of other submitters than that of `system`;
/// 0 in rounds that do not count the first step.
#[must_use]
pub fn start(all: &StorageResults, system: &System, of: &StorageResult) -> f64 {
    if !StorageResult::counts_first(&system.round) {
        return 0.0;
    }
    let others = all.systems.iter().filter(|other| other.submitter != system.submitter);
    let others = others.filter(|other| StorageResult::counts_first(&other.round));
    let units = others.flat_map(|other| {
        let bandwidth = other.bandwidth().0;
        let same = other.results.iter().filter(|result| result.workload == of.workload);
        same.filter_map(move |result| Some(late(result, bandwidth)? / parts(result)))
    });
    let mut units: Vec<f64> = units.collect();
    units.sort_by(f64::total_cmp);
    quantile(&units, 0.5).unwrap_or_default().max(0.0) * parts(of)
}

/// Returns by how much first batches of a result come later than their bytes explain [s].
fn late(of: &StorageResult, bandwidth: f64) -> Option<f64> {
    let later = of.first_batch_later?;
    match of.is_pytorch() {
        // Later epochs find the workers alive.
        true => Some(of.first_batch? - later),
        false => Some(later - of.bytes_of_step() / bandwidth),
    }
}

/// Returns by what the start is multiplied: the number of workers, or of files. Where files are few, it does not depend on them.
fn parts(of: &StorageResult) -> f64 {
    let samples = f64::from(of.ranks) * f64::from(of.batch) * f64::from(of.steps);
    match (of.is_pytorch(), of.workload.as_str()) {
        (true, _) => f64::from(of.workers),
        (false, "resnet50") => 1.0,
        (false, _) => samples,
    }
}
