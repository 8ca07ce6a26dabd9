//! Synchronisation of model copies: what a step is, what they exchange, and how stale updates are.

use super::figures::{StalenessReport, StalenessShare, SyncReport};
use super::format::{bytes, number};
use super::sample::over_replications;
use super::window::ratio;
use super::{JobOutcome, SyncOutcome};
use forebay_engine::stats::mean;
use forebay_scenario::{Job, Servers, Sync};
use std::collections::BTreeMap;

/// Returns the synchronisation report of a job, from its copies, grouped by replication; `None` if nothing is exchanged.
pub(super) fn sync(job: &Job, copies: &[Vec<&JobOutcome>]) -> Option<SyncReport> {
    let sync = job.sync.as_ref().filter(|sync| job.ranks() > 1 || sync.servers.is_some())?;
    let staleness = staleness(copies).filter(|_| job.servers().is_some());
    let bytes = sync.buckets.iter().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.bytes));
    let own = if sync.sparse { bytes / u64::from(job.ranks()) } else { bytes };
    Some(SyncReport {
        steps_per_exchange: interval(sync),
        bytes_per_exchange: own,
        fidelity: sync.servers.is_none().then(|| sync.fidelity.name()),
        text: text(job, sync, own),
        staleness,
    })
}

/// Returns the steps of a model copy from one exchange to the next.
fn interval(sync: &Sync) -> u64 {
    sync.averaging.map_or(sync.interval, |averaging| averaging.period)
}

/// Returns the mean staleness of the updates of a job's copies; 0 if none were observed.
pub(super) fn mean_staleness(copies: &[Vec<&JobOutcome>]) -> f64 {
    staleness(copies).and_then(|of| of.mean.mean).unwrap_or(0.0)
}

fn staleness(copies: &[Vec<&JobOutcome>]) -> Option<StalenessReport> {
    let of = |copies: &Vec<&JobOutcome>| {
        let each = copies.iter().filter_map(|copy| mean_of(copy.sync.as_ref()?));
        mean(&each.collect::<Vec<f64>>())
    };
    let mut all = BTreeMap::new();
    for sync in copies.iter().flatten().filter_map(|copy| copy.sync.as_ref()) {
        for (staleness, updates) in &sync.staleness {
            *all.entry(*staleness).or_insert(0) += updates;
        }
    }
    let (max, _) = all.last_key_value()?;
    Some(StalenessReport {
        mean: over_replications(&copies.iter().filter_map(of).collect::<Vec<f64>>()),
        max: *max,
        distribution: distribution(&all),
    })
}

fn mean_of(sync: &SyncOutcome) -> Option<f64> {
    let sum: f64 = sync.staleness.iter().map(|(of, updates)| *of as f64 * *updates as f64).sum();
    ratio(sum, sync.staleness.values().sum::<u64>() as f64)
}

/// Returns the shares of updates by staleness, in bins of 0, 1, 2 to 3, 4 to 7, …
fn distribution(all: &BTreeMap<u64, u64>) -> Vec<StalenessShare> {
    let mut shares: Vec<StalenessShare> = Vec::new();
    let updates: u64 = all.values().sum();
    for (of, number) in all {
        let from = if *of == 0 { 0 } else { 1 << of.ilog2() };
        let share = *number as f64 / updates as f64;
        match shares.last_mut().filter(|last| last.from == from) {
            Some(last) => last.share += share,
            None => shares.push(StalenessShare { from, share }),
        }
    }
    shares
}

fn text(job: &Job, sync: &Sync, own: u64) -> String {
    let (copies, servers) = (job.models(), sync.servers.as_ref());
    let each = if sync.averaging.is_some() || job.sums_gradients() { "GPU" } else { "model copy" };
    let most = if job.learners.tuning.is_some() { "at most " } else { "" };
    let whose = match servers.filter(|servers| !servers.is_synchronous()) {
        None => format!("a step is one batch of each of {most}{copies} model copies"),
        Some(_) => {
            format!("a step is {copies} batches, done by any of {copies} model copies")
        }
    };
    let when = match interval(sync) {
        1 => "after each".to_owned(),
        steps => format!("after every {steps}"),
    };
    let how = match servers {
        Some(servers) => with_servers(servers),
        None => format!("by {}", sync.operation().name()),
    };
    format!("{whose}; {when} of its own steps a {each} exchanges {} {how}", bytes(own as f64))
}

fn with_servers(servers: &Servers) -> String {
    let how = match servers.slack {
        Some(0) => "all together".to_owned(),
        Some(slack) => {
            format!("at most {} exchanges ahead of the slowest model copy", number(slack as f64))
        }
        None => "each model copy by itself".to_owned(),
    };
    let plural = if servers.number() == 1 { "server" } else { "servers" };
    format!("with {} {plural}, {how}", servers.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_of_staleness_has_bins_of_powers_of_two() {
        let all = BTreeMap::from([(0, 4), (1, 2), (2, 1), (3, 1), (7, 4), (8, 4)]);
        let found: Vec<(u64, f64)> =
            distribution(&all).iter().map(|of| (of.from, of.share)).collect();
        assert_eq!(found, [(0, 0.25), (1, 0.125), (2, 0.125), (4, 0.25), (8, 0.25)]);
    }
}
