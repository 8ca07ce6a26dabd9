//! Predictions of published training from data sheets: each line has the rates that other publications reached of its nominal rate.

use super::constants::Constants;
use super::predict::Ready;
use super::scenario::{beyond, inside, is_input, network};
use super::{Published, PublishedResult, Quantity, Role};
use crate::ranges::{self, DRAWS, Line, Reached};
use crate::stats::weighted_quantile;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Fewest sources of a range that leaves out those of the judged publication.
const FEWEST_SOURCES: usize = 3;

/// Seed of the order in which draws take the shares of lines.
const SEED: u64 = 1;

/// A result, and its predictions with rates that publications reached.
#[derive(Debug, Clone, Copy)]
pub struct OverRanges<'p> {
    /// The result.
    pub result: &'p PublishedResult,
    /// Prediction with the rates of data sheets, in the quantity's unit.
    pub nominal: f64,
    /// Smallest and largest prediction of the draws.
    pub draws: [f64; 2],
    /// Interval in which nine of ten measurements should lie: the draws, widened by what other publications' results lie outside theirs.
    pub interval90: [f64; 2],
}

impl OverRanges<'_> {
    /// Returns whether the measurement lies in the interval.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        let [low, high] = self.interval90;
        (low..=high).contains(&self.result.measured)
    }

    /// Returns whether the measurement lies between the draws.
    #[must_use]
    pub fn is_drawn(&self) -> bool {
        self.outside() == 0.0
    }

    /// Returns how much faster the run is predicted at the rates of data sheets than it was, relative to what it was.
    #[must_use]
    pub fn speed_error(&self) -> f64 {
        let (nominal, measured) = (self.nominal, self.result.measured);
        if more_is_faster(self.result) {
            nominal / measured - 1.0
        } else {
            measured / nominal - 1.0
        }
    }

    /// Returns by what logarithm the measured run is faster than the fastest draw, or, below 0, slower than the slowest; 0 between them.
    fn outside(&self) -> f64 {
        let ([low, high], measured) = (self.draws, self.result.measured);
        let above = (measured / high).ln().max(0.0) + (measured / low).ln().min(0.0);
        if more_is_faster(self.result) { above } else { -above }
    }

    /// Returns the draws' interval with its slow end slower by one logarithm, and its fast end faster by the other.
    pub(super) fn widened(&self, [slower, faster]: [f64; 2]) -> [f64; 2] {
        let [low, high] = self.draws;
        match more_is_faster(self.result) {
            true => [low * slower.exp(), high * faster.exp()],
            false => [low / faster.exp(), high / slower.exp()],
        }
    }
}

fn more_is_faster(result: &PublishedResult) -> bool {
    matches!(result.quantity, Quantity::Throughput | Quantity::Efficiency)
}

/// A rate of a transport that a draw sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Inside,
    Between,
    Across,
}

/// Returns all verified results whose clusters have a line with a range, except inputs of predictions. Publications judge no range that
/// they are a source of.
#[must_use]
pub fn over_ranges(published: &Published) -> Vec<OverRanges<'_>> {
    let all = drawn(published);
    let interval = |(ready, one): &(Ready<'_>, OverRanges<'_>)| {
        let own = publication(&one.result.url);
        let others = all.iter().map(|(_, of)| of);
        let ends = outside(others.filter(|of| publication(&of.result.url) != own));
        ready.possible(one.widened(ends))
    };
    let intervals: Vec<[f64; 2]> = all.iter().map(interval).collect();
    let widened = |((_, one), interval90)| OverRanges { interval90, ..one };
    all.into_iter().zip(intervals).map(widened).collect()
}

/// Returns the results with their draws, and the draws' interval.
fn drawn(published: &Published) -> Vec<(Ready<'_>, OverRanges<'_>)> {
    let judges =
        |of: &&PublishedResult| of.verified && of.role() != Role::Input && !is_input(published, of);
    let all: Vec<&PublishedResult> = published.results.iter().filter(judges).collect();
    let found = all.par_iter().map(|result| {
        let lines = lines(published, result);
        let ready = Ready::new(published, result).filter(|_| !lines.is_empty())?;
        let nominal = ready.predict(&Constants::of_kind(&result.transport))?;
        let over = |draw: usize| ready.predict(&constants(published, result, &lines, draw));
        let all = (0..DRAWS).map(over).collect::<Option<Vec<f64>>>()?;
        let draws = ranges::ends(all.into_iter());
        Some((ready, OverRanges { result, nominal, draws, interval90: draws }))
    });
    found.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Returns the 5 and 95 % quantiles of how far results lie outside their draws, in which each source counts once.
fn outside<'o>(results: impl Iterator<Item = &'o OverRanges<'o>>) -> [f64; 2] {
    let mut sources: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for one in results {
        sources.entry(&one.result.source).or_default().push(one.outside());
    }
    let weigh = |all: &Vec<f64>| {
        let weight = 1.0 / all.len() as f64;
        all.iter().map(|of| (*of, weight)).collect::<Vec<_>>()
    };
    let mut all: Vec<(f64, f64)> = sources.values().flat_map(weigh).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share| weighted_quantile(&all, share).unwrap_or(0.0);
    [at(0.05).min(0.0), at(0.95).max(0.0)]
}

/// Returns the lines that gradients of a result take and the range of each.
fn lines(published: &Published, result: &PublishedResult) -> Vec<(Link, Reached)> {
    let cluster = &published.clusters[&result.cluster];
    let has = |names: &[&str]| names.iter().any(|name| result.transport.contains(name));
    // Gradients that are summed by CPUs take neither line between GPUs.
    let by_cpu = has(&["cpu"]);
    // As in scenarios, MPI is not taken to send from GPU to GPU, whatever the network.
    let across = match has(&["tcp", "gloo", "mpi", "parameter-server"]) {
        true => Line::Sockets,
        false => Line::Rdma,
    };
    let link = |name: &str| match name.starts_with("nvlink") && !has(&["mpi"]) {
        true => Line::Nvlink,
        false => Line::Pcie,
    };
    let joins = cluster.gpus_per_node.min(result.gpus) > 1;
    let direct = cluster.switch.unwrap_or(u32::MAX);
    let all = [
        (Link::Across, published.spans_nodes(result).then_some(across)),
        (Link::Inside, (joins && !by_cpu).then(|| link(&cluster.inside))),
        (Link::Between, cluster.between.as_deref().filter(|_| result.gpus > direct).map(link)),
    ];
    let range = |line: Line| {
        let others =
            line.range()?.without(|source| publication(&source.url) == publication(&result.url));
        (others.sources.len() >= FEWEST_SOURCES).then_some(others)
    };
    all.into_iter().filter_map(|(link, line)| Some((link, range(line?)?))).collect()
}

/// Returns host, owner and name of a repository, or host and page, of an address that may be followed by a path.
fn publication(url: &str) -> String {
    let address = url.split_whitespace().next().unwrap_or_default();
    let parts: Vec<&str> = address.trim_start_matches("https://").split('/').take(3).collect();
    parts.join("/").to_lowercase()
}

/// Returns the costs of a transport in a draw.
fn constants(
    published: &Published,
    result: &PublishedResult,
    lines: &[(Link, Reached)],
    draw: usize,
) -> Constants {
    let cluster = &published.clusters[&result.cluster];
    let ranges: Vec<&Reached> = lines.iter().map(|(_, range)| range).collect();
    let mut constants = Constants::of_kind(&result.transport);
    for ((line, _), share) in lines.iter().zip(ranges::reached_in_draw(&ranges, SEED, draw)) {
        let (rate, of) = match line {
            Link::Inside => (&mut constants.inside, Some(inside(cluster))),
            Link::Between => (&mut constants.between, beyond(cluster)),
            Link::Across => (&mut constants.across, network(cluster)),
        };
        *rate = of.map_or(f64::INFINITY, |of| share * of);
    }
    constants
}
