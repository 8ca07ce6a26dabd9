//! Costs of transports, fitted to the results that are marked for fits.

use super::absorbed::{Absorbed, absorbed};
use super::constants::Constants;
use super::interval::Spread;
use super::predict::Ready;
use super::{Published, PublishedResult, Role, transfer};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of results from which all costs of a transport are fitted; from fewer results, one cost is fitted.
const ENOUGH: usize = 8;
/// Start of the search for all four costs: 50 us of latency, 1 GB/s for each transfer inside a node and across nodes, 50 us for
/// each tensor.
const START: [f64; 4] = [50e-6, 1e9, 1e9, 50e-6];
/// Start of the search if only a rate is fitted [B/s]; [`TENSOR`] is the start if only the time of a tensor is fitted [s].
const RATE: f64 = 4e9;
const TENSOR: f64 = 100e-6;
/// Steps of the search's grid in a factor of two: constants are fitted to 2 %.
const PARTS: f64 = 32.0;
/// Steps by which the search first goes up and down with each constant: a factor of four.
const FIRST: i32 = 64;

/// Which rates of a transport a prediction takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// Those that were fitted to results.
    Fitted,
    /// Those of the catalogue's links.
    Nominal,
}

/// Result of the fit for a transport at a site.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Costs of the transport.
    pub constants: Constants,
    /// Models whose results the fit used.
    pub models: BTreeSet<String>,
    /// Rates with which other models are predicted: with fits to fewer than three models the fitted ones; with more, those with
    /// which each of the fit's models is predicted better without its own results.
    pub others: Rates,
    /// Fitted rates that the hardware does not explain.
    pub absorbed: Vec<Absorbed>,
    /// Sum of the squared logarithms of prediction over measurement of the fit's own results.
    pub squares: f64,
    /// Number of the fit's own results less number of fitted costs.
    pub freedom: usize,
}

impl Fit {
    /// Returns whether the fit predicts results of `model`.
    #[must_use]
    pub fn serves(&self, model: &str) -> bool {
        self.others == Rates::Fitted || self.models.contains(model)
    }
}

/// A site and a transport.
pub type Group = (String, String);

/// Fits by site and transport: clusters of one site share the fit of a transport.
pub type Fitted = BTreeMap<Group, Fit>;

/// Fits the costs of each transport at each site to the results that are marked for fits: all four costs if there are enough
/// results, otherwise one, either a rate or the time of a tensor.
#[must_use]
pub fn fit(published: &Published) -> Fitted {
    fit_some(published, |_| true)
}

/// Fits only the transport of `result` at its site, which is all that its prediction needs.
#[must_use]
pub fn fit_for(published: &Published, result: &PublishedResult) -> Fitted {
    let wanted = published.group(result);
    fit_some(published, |of| *of == wanted)
}

impl Published {
    /// Returns the site and the transport of a result.
    pub(super) fn group(&self, result: &PublishedResult) -> Group {
        (self.clusters[&result.cluster].site.clone(), result.transport.clone())
    }

    /// Returns whether a result is of several nodes.
    pub(super) fn spans_nodes(&self, result: &PublishedResult) -> bool {
        result.gpus > self.clusters[&result.cluster].gpus_per_node
    }

    /// Returns whether a result of a transport at a site is of several nodes.
    #[must_use]
    pub fn group_spans_nodes(&self, group: &Group) -> bool {
        self.results.iter().any(|of| self.spans_nodes(of) && self.group(of) == *group)
    }

    /// Returns those results of each transport at each site that are `wanted`, ready to be predicted.
    pub(super) fn groups(
        &self,
        wanted: impl Fn(&PublishedResult) -> bool,
    ) -> BTreeMap<Group, Vec<Ready<'_>>> {
        let mut groups: BTreeMap<Group, Vec<Ready<'_>>> = BTreeMap::new();
        let all: Vec<&PublishedResult> = self.results.iter().filter(|of| wanted(of)).collect();
        let ready: Vec<_> = all.par_iter().map(|result| Ready::new(self, result)).collect();
        for ready in ready.into_iter().flatten() {
            groups.entry(self.group(ready.result)).or_default().push(ready);
        }
        groups
    }
}

fn fit_some(published: &Published, wanted: impl Fn(&Group) -> bool) -> Fitted {
    let of_fits =
        |result: &PublishedResult| result.role() == Role::Fit && wanted(&published.group(result));
    let groups: Vec<_> = published.groups(of_fits).into_iter().collect();
    let fits = groups.par_iter().map(|(of, rows)| {
        let rows: Vec<&Ready<'_>> = rows.iter().collect();
        let costs = costs(published, &rows);
        let constants = costs.constants;
        let results: Vec<&PublishedResult> = rows.iter().map(|row| row.result).collect();
        let fit = Fit {
            constants,
            models: results.iter().map(|result| result.model.clone()).collect(),
            others: transfer::others(published, &rows),
            absorbed: absorbed(published, &results, &constants),
            squares: costs.squares(&rows),
            freedom: rows.len().saturating_sub(costs.number),
        };
        (of.clone(), fit)
    });
    fits.collect::<Vec<_>>().into_iter().collect()
}

/// Costs that reproduce some results best.
pub(super) struct Costs {
    pub(super) constants: Constants,
    /// How many costs were fitted.
    number: usize,
}

impl Costs {
    fn squares(&self, rows: &[&Ready<'_>]) -> f64 {
        rows.iter().filter_map(|row| row.log_error(&self.constants)).map(|of| of.powi(2)).sum()
    }

    /// Returns how far the costs are off the results that they were fitted to; `None` if they are as many.
    pub(super) fn residual(&self, rows: &[&Ready<'_>]) -> Option<Spread> {
        Spread::mean(self.squares(rows), rows.len().saturating_sub(self.number))
    }
}

pub(super) fn costs(published: &Published, rows: &[&Ready<'_>]) -> Costs {
    let all = |at: &[f64; 4]| {
        let [latency, inside, across, per_tensor] = *at;
        Constants { latency, inside, across, per_tensor, between: f64::INFINITY }
    };
    let (constants, number) = match rows.len() >= ENOUGH && several_models(rows) {
        true => (all(&search(START, |at| loss(rows, &all(at)))), START.len()),
        false if negotiated(rows) => (tensor(rows), 1),
        false => (rate(published, rows), 1),
    };
    Costs { constants, number }
}

/// Returns whether the results have several models, so that costs per byte and costs per tensor can be separated.
fn several_models(rows: &[&Ready<'_>]) -> bool {
    rows.iter().any(|row| row.result.model != rows[0].result.model)
}

/// Returns whether the cost to fit is the time of a tensor rather than a rate: for Horovod on NCCL. NCCL sends and sums on the
/// GPUs at the speed of the links, but Horovod's processes first agree on each tensor and copy it into their buffer (Sergeev and
/// Del Balso, *Horovod: fast and easy distributed deep learning in TensorFlow*, 2018).
fn negotiated(rows: &[&Ready<'_>]) -> bool {
    let all =
        |of: &PublishedResult| of.transport.contains("nccl") && of.framework.contains("Horovod");
    rows.iter().all(|row| all(row.result))
}

/// Returns the costs with a fitted time for each tensor.
fn tensor(rows: &[&Ready<'_>]) -> Constants {
    let kind = Constants::of_kind(&rows[0].result.transport);
    let of = |at: &[f64; 1]| Constants { per_tensor: at[0], ..kind };
    of(&search([TENSOR], |at| loss(rows, &of(at))))
}

/// Returns the costs with one fitted rate. If the node has GPUs that are not joined directly, the rate limits transfers between
/// them. Otherwise it limits transfers between nodes and, if every run has a single node, also transfers inside the node. If the
/// transport copies through host memory (not NCCL), the rate limits transfers inside a node in every case.
fn rate(published: &Published, rows: &[&Ready<'_>]) -> Constants {
    let first = rows[0].result;
    let across = rows.iter().any(|row| published.spans_nodes(row.result));
    let direct = first.transport.contains("nccl");
    let joined = published.clusters[&first.cluster].switch.is_some();
    let of = |at: &[f64; 1]| Constants {
        inside: if direct && (across || joined) { f64::INFINITY } else { at[0] },
        across: if joined { f64::INFINITY } else { at[0] },
        between: if joined { at[0] } else { f64::INFINITY },
        ..Constants::of_kind(&first.transport)
    };
    of(&search([RATE], |at| loss(rows, &of(at))))
}

/// Returns the values that minimize `loss`, by a pattern search that multiplies and divides each value by a factor.
///
/// All values lie on the grid `start · 2^(n ÷ PARTS)`: searches for similar results then try the same values, whose predictions are
/// kept.
fn search<const N: usize>(start: [f64; N], loss: impl Fn(&[f64; N]) -> f64) -> [f64; N] {
    let values = |at: &[i32; N]| {
        std::array::from_fn(|index| start[index] * (f64::from(at[index]) / PARTS).exp2())
    };
    let (mut at, mut width) = ([0; N], FIRST);
    let mut least = loss(&values(&at));
    while width > 0 {
        let mut better = false;
        for index in 0..N {
            for by in [width, -width] {
                let mut tried = at;
                tried[index] += by;
                let found = loss(&values(&tried));
                if found < least {
                    (at, least, better) = (tried, found, true);
                }
            }
        }
        if !better {
            width /= 2;
        }
    }
    values(&at)
}

/// Returns the mean square of the logarithm of prediction over measurement.
fn loss(rows: &[&Ready<'_>], constants: &Constants) -> f64 {
    let squares = rows.par_iter().map(|row| Some(row.log_error(constants)?.powi(2)));
    let squares: Vec<Option<f64>> = squares.collect();
    squares.into_iter().flatten().sum::<f64>() / rows.len().max(1) as f64
}
