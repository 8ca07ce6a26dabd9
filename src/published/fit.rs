//! Costs of transports, fitted to the results that are marked for fits.

use super::absorbed::{Absorbed, absorbed};
use super::constants::Constants;
use super::predict::predict;
use super::{Published, PublishedResult, Role};
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
/// Factor by which the search first multiplies and divides each constant. The search ends when the factor has fallen to [`LAST`].
const FIRST: f64 = 4.0;
const LAST: f64 = 1.02;

/// Result of the fit for a transport at a site.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Costs of the transport.
    pub constants: Constants,
    /// Models whose results the fit used.
    pub models: BTreeSet<String>,
    /// Fitted rates that the hardware does not explain.
    pub absorbed: Vec<Absorbed>,
}

impl Fit {
    /// Returns whether the fit may be used to predict results of `model`: for every model if the hardware explains all fitted
    /// rates, otherwise only for the models whose results the fit used.
    #[must_use]
    pub fn holds_for(&self, model: &str) -> bool {
        self.absorbed.is_empty() || self.models.contains(model)
    }
}

/// Fits by site and transport: clusters of one site share the fit of a transport.
pub type Fitted = BTreeMap<(String, String), Fit>;

/// Fits the costs of each transport at each site to the results that are marked for fits: all four costs if there are enough
/// results, otherwise one, either a rate or the time of a tensor.
#[must_use]
pub fn fit(published: &Published) -> Fitted {
    fit_some(published, |_| true)
}

/// Fits only the transport of `result` at its site, which is all that its prediction needs.
#[must_use]
pub fn fit_for(published: &Published, result: &PublishedResult) -> Fitted {
    let wanted = group(published, result);
    fit_some(published, |of| *of == wanted)
}

/// Returns the site and the transport of a result.
fn group(published: &Published, result: &PublishedResult) -> (String, String) {
    (published.clusters[&result.cluster].site.clone(), result.transport.clone())
}

fn fit_some(published: &Published, wanted: impl Fn(&(String, String)) -> bool) -> Fitted {
    let mut groups: BTreeMap<(String, String), Vec<&PublishedResult>> = BTreeMap::new();
    for result in published.results.iter().filter(|result| result.role() == Role::Fit) {
        groups.entry(group(published, result)).or_default().push(result);
    }
    groups.retain(|of, _| wanted(of));
    let all = groups.into_iter().map(|(of, results)| {
        let constants = match results.len() >= ENOUGH && several_models(&results) {
            true => costs(&search(START, |at| loss(published, &results, &costs(at)))),
            false if negotiated(&results) => tensor(published, &results),
            false => rate(published, &results),
        };
        let models = results.iter().map(|result| result.model.clone()).collect();
        let absorbed = absorbed(published, &results, &constants);
        (of, Fit { constants, models, absorbed })
    });
    all.collect()
}

/// Returns whether the results have several models, so that costs per byte and costs per tensor can be separated.
fn several_models(results: &[&PublishedResult]) -> bool {
    results.iter().any(|result| result.model != results[0].model)
}

/// Returns whether the cost to fit is the time of a tensor rather than a rate: for Horovod on NCCL. NCCL sends and sums on the
/// GPUs at the speed of the links, but Horovod's processes first agree on each tensor and copy it into their buffer (Sergeev and
/// Del Balso, *Horovod: fast and easy distributed deep learning in TensorFlow*, 2018).
fn negotiated(results: &[&PublishedResult]) -> bool {
    results.iter().all(|of| of.transport.contains("nccl") && of.framework.contains("Horovod"))
}

/// Returns the costs with a fitted time for each tensor.
fn tensor(published: &Published, results: &[&PublishedResult]) -> Constants {
    let kind = Constants::of_kind(&results[0].transport);
    let of = |at: &[f64; 1]| Constants { per_tensor: at[0], ..kind };
    of(&search([TENSOR], |at| loss(published, results, &of(at))))
}

/// Returns the costs with one fitted rate. If the node has GPUs that are not joined directly, the rate limits transfers between
/// them. Otherwise it limits transfers between nodes and, if every run has a single node, also transfers inside the node. If the
/// transport copies through host memory (not NCCL), the rate limits transfers inside a node in every case.
fn rate(published: &Published, results: &[&PublishedResult]) -> Constants {
    let first = results[0];
    let across = results.iter().any(|r| r.gpus > published.clusters[&r.cluster].gpus_per_node);
    let direct = first.transport.contains("nccl");
    let joined = published.clusters[&first.cluster].switch.is_some();
    let of = |at: &[f64; 1]| Constants {
        inside: if direct && (across || joined) { f64::INFINITY } else { at[0] },
        across: if joined { f64::INFINITY } else { at[0] },
        between: if joined { at[0] } else { f64::INFINITY },
        ..Constants::of_kind(&first.transport)
    };
    of(&search([RATE], |at| loss(published, results, &of(at))))
}

fn costs(at: &[f64; 4]) -> Constants {
    let [latency, inside, across, per_tensor] = *at;
    Constants { latency, inside, across, per_tensor, between: f64::INFINITY }
}

/// Returns the values that minimize `loss`, by a pattern search that multiplies and divides each value by a factor.
fn search<const N: usize>(start: [f64; N], loss: impl Fn(&[f64; N]) -> f64) -> [f64; N] {
    let (mut at, mut least, mut factor) = (start, loss(&start), FIRST);
    while factor > LAST {
        let mut better = false;
        for index in 0..N {
            for by in [factor, 1.0 / factor] {
                let mut tried = at;
                tried[index] *= by;
                let found = loss(&tried);
                if found < least {
                    (at, least, better) = (tried, found, true);
                }
            }
        }
        if !better {
            factor = factor.sqrt();
        }
    }
    at
}

/// Returns the mean square of the logarithm of prediction over measurement.
fn loss(published: &Published, results: &[&PublishedResult], constants: &Constants) -> f64 {
    let squares = results.par_iter().map(|result| {
        let predicted = predict(published, result, constants)?;
        Some((predicted / result.measured).ln().powi(2))
    });
    let squares: Vec<Option<f64>> = squares.collect();
    squares.into_iter().flatten().sum::<f64>() / results.len().max(1) as f64
}
