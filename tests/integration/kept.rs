//! Shared helpers for tests of caches, tiers and staging: a job that only reads, and theoretical miss ratios.

use forebay::report::{CacheRequests, Outcome};

/// Returns a job that reads with one thread, in batches of 20, for a trainer whose steps take no time.
/// `machine` has the cluster and its storage; `job` names the storage of the data set `d`.
pub(crate) fn reader(epochs: u32, machine: &str, data: (u32, &str), job: &str) -> String {
    let (samples, size) = data;
    format!(
        r#"
name = "reader"
[run]
epochs = {epochs}
warm_up = "off"
replications = 1
seed = 1
{machine}
[dataset.d]
samples = {samples}
sample_size = "{size}"
[[job]]
name = "j"
dataset = "d"
batch = 20
{job}
[job.loader.tf-queue]
threads = 1
capacity = "40 samples"
decode = "0 s"
[job.model]
step = "1 us"
"#
    )
}

/// Shards of 50 samples.
pub(crate) const SHARDS: (&str, &str) =
    ("dataset.d.layout", "{ shards = { samples = 50, request = \"1 MB\" } }");

/// Returns the amount that a resource served.
pub(crate) fn served(outcome: &Outcome, resource: &str) -> f64 {
    outcome.resources.iter().find(|r| r.name == resource).map_or(0.0, |r| r.served)
}

/// Returns the miss ratio of these requests.
pub(crate) fn misses(requests: &[CacheRequests]) -> f64 {
    let sum = |of: fn(&CacheRequests) -> u64| requests.iter().map(of).sum::<u64>() as f64;
    sum(|r| r.misses) / (sum(|r| r.misses) + sum(|r| r.hits))
}

/// Checks that a value is within `tolerance` of the expected one.
pub(crate) fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{what}: {value} instead of {expected}");
}

/// Returns the steady miss ratio under a fresh permutation of files every epoch, of a cache that holds a share
/// `x` of the files and evicts at random: the root in (0, 1] of m = 1 − ((1 − e^(−m/x)) ÷ (m/x))².
pub(crate) fn random_replacement(x: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0);
    for _ in 0..100 {
        let m: f64 = 0.5 * (low + high);
        let kept = (1.0 - (-m / x).exp()) / (m / x);
        if m - 1.0 + kept * kept < 0.0 { low = m } else { high = m }
    }
    0.5 * (low + high)
}

/// Returns the steady miss ratio under a fresh permutation every epoch of a cache that holds a share `x` of the
/// files and evicts the least recently used.
pub(crate) fn least_recently_used(x: f64) -> f64 {
    1.0 - (x + (1.0 - x) * (1.0 - x).ln())
}
