//! Figures of staging (data sets copied to nodes) and of where reads found their bytes.

use super::figures::{Spread, StagingReport, TierShares};
use super::sample::over_replications;
use super::window::ratio;
use super::{JobOutcome, StagingOutcome, TierRequests};
use forebay_engine::stats::mean;

/// Returns the figures of staging to storage `to`, from a job's copies, grouped by replication; `None` if nothing was staged.
pub(super) fn staging(to: &str, copies: &[Vec<&JobOutcome>]) -> Option<StagingReport> {
    let all = || copies.iter().flatten().flat_map(|copy| &copy.staging);
    let first = all().map(|node| node.seconds).reduce(f64::min)?;
    let last = all().map(|node| node.seconds).fold(first, f64::max);
    let figure = |of: fn(&[StagingOutcome]) -> f64| {
        let one = |copies: &Vec<&JobOutcome>| {
            let staged = copies.iter().filter(|copy| !copy.staging.is_empty());
            mean(&staged.map(|copy| of(&copy.staging)).collect::<Vec<_>>())
        };
        over_replications(&copies.iter().filter_map(one).collect::<Vec<_>>())
    };
    Some(StagingReport {
        to: to.to_owned(),
        seconds: figure(|nodes| nodes.iter().map(|node| node.seconds).fold(0.0, f64::max)),
        nodes: Spread { min: first, max: last },
        bytes: figure(|nodes| nodes.iter().map(|node| node.bytes).sum()),
    })
}

/// Returns, for each of the first `epochs` epochs, where the requests of all copies found their bytes.
pub(super) fn tier_shares<'o>(
    copies: impl Iterator<Item = &'o [TierRequests]>,
    epochs: usize,
) -> Vec<TierShares> {
    let mut sums: Vec<TierRequests> = Vec::new();
    for requests in copies {
        sums.resize(sums.len().max(requests.len()), TierRequests::default());
        for (sum, requests) in sums.iter_mut().zip(requests) {
            sum.hits += requests.hits;
            sum.peers += requests.peers;
            sum.misses += requests.misses;
        }
    }
    sums.iter().take(epochs).map(shares).collect()
}

fn shares(requests: &TierRequests) -> TierShares {
    let TierRequests { hits, peers, misses } = *requests;
    let of = |part: u64| ratio(part as f64, (hits + peers + misses) as f64).unwrap_or(0.0);
    TierShares { hit: of(hits), peer: of(peers), miss: of(misses) }
}
