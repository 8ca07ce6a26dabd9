//! Costs of transports, fitted on the results that may be.

use super::constants::Constants;
use super::predict::{Fitted, predict};
use super::{Published, PublishedResult, Role};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The search begins here: 1 GB/s for each transfer, 50 us of latency, 50 us for each tensor.
const START: [f64; 4] = [50e-6, 1e9, 1e9, 50e-6];
/// First factor by which a constant is tried larger and smaller, and the last.
const FIRST: f64 = 4.0;
const LAST: f64 = 1.02;

/// The costs of each transport of each site that results may be fitted on.
#[must_use]
pub fn fit(published: &Published) -> Fitted {
    let mut groups: BTreeMap<(String, String), Vec<&PublishedResult>> = BTreeMap::new();
    for result in published.results.iter().filter(|result| result.role() == Role::Fit) {
        let site = published.clusters[&result.cluster].site.clone();
        groups.entry((site, result.transport.clone())).or_default().push(result);
    }
    groups.into_iter().map(|(of, results)| (of, search(published, &results))).collect()
}

/// The constants that leave the least squares of logarithms, found by pattern search.
fn search(published: &Published, results: &[&PublishedResult]) -> Constants {
    let mut at = START;
    let mut least = loss(published, results, &at);
    let mut factor = FIRST;
    while factor > LAST {
        let mut better = false;
        for index in 0..at.len() {
            for by in [factor, 1.0 / factor] {
                let mut tried = at;
                tried[index] *= by;
                let found = loss(published, results, &tried);
                if found < least {
                    (at, least, better) = (tried, found, true);
                }
            }
        }
        if !better {
            factor = factor.sqrt();
        }
    }
    constants(&at)
}

fn constants(at: &[f64; 4]) -> Constants {
    let [latency, inside, across, per_tensor] = *at;
    Constants { latency, inside, across, per_tensor }
}

/// Mean square of the logarithm of prediction over measurement.
fn loss(published: &Published, results: &[&PublishedResult], at: &[f64; 4]) -> f64 {
    let constants = constants(at);
    let squares = results.par_iter().map(|result| {
        let predicted = predict(published, result, &constants)?;
        Some((predicted / result.measured).ln().powi(2))
    });
    let squares: Vec<Option<f64>> = squares.collect();
    squares.into_iter().flatten().sum::<f64>() / results.len().max(1) as f64
}
