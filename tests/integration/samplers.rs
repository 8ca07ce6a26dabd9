//! How ranks split an epoch, and the effect on their nodes' page caches.

use super::kept::{SHARDS, misses, reader};
use super::runs::{simulate, written};
use forebay::report::{CacheRequests, Outcome};
use forebay::scenario::ScenarioFile;

/// Four nodes that read 4,000 files of 100 kB, each with a page cache for a quarter of them, from a disk of 100
/// MB/s, for a trainer whose steps take no time.
const MACHINE: &str = r#"
[cluster]
nodes = 4
[cluster.node]
cores = 8
[cluster.node.page_cache]
capacity = "100 MB"
[storage.s.local-disk]
bandwidth = "100 MB/s"
"#;

const POLICY: &str = "cluster.node.page_cache.policy";

fn scenario(sampler: &str) -> String {
    let job = format!("storage = \"s\"\nnodes = 4\nsampler = \"{sampler}\"");
    reader(30, MACHINE, (4000, "100 kB"), &job)
}

fn outcome(sampler: &str, changes: &[(&str, &str)]) -> Outcome {
    simulate(&written(&scenario(sampler), changes))
}

/// Returns the miss ratio after the tenth epoch.
fn steady_misses(outcome: &Outcome) -> f64 {
    misses(&outcome.jobs[0].cache[10..])
}

#[test]
fn a_rank_with_a_fixed_slice_reads_it_from_disk_once() {
    // System: a cache for exactly one slice. Expectation: the first epoch misses all of the slice, later ones
    // hit everything, whatever the policy; so the run takes the time of reading a slice from the disk.
    for policy in ["\"random\"", "\"lru\"", "\"minio\""] {
        let all = outcome("contiguous", &[(POLICY, policy)]);
        let cache = &all.jobs[0].cache;
        assert_eq!(cache[0], CacheRequests { hits: 0, misses: 4000 });
        let hits = CacheRequests { hits: 4000, misses: 0 };
        assert!(cache.len() == 30 && cache[1..].iter().all(|epoch| *epoch == hits), "{policy}");
        assert!((all.makespan - 1.0).abs() < 0.05, "{}", all.makespan);
    }
    let shards = outcome("shard-split", &[SHARDS]);
    assert_eq!(shards.jobs[0].cache[0], CacheRequests { hits: 0, misses: 400 });
    let hits = CacheRequests { hits: 400, misses: 0 };
    assert!(shards.jobs[0].cache[1..].iter().all(|epoch| *epoch == hits));
}

#[test]
fn cache_miss_ratios_of_ranks_with_changing_samples_match_closed_forms() {
    // System: each of n ranks reads another n-th of the samples in every epoch, with a cache for as many.
    // Expectation: without eviction, a cached sample is hit with its probability of being read, so that the
    // miss ratio is 1 − 1/n. With LRU, at fraction t of an epoch the cache holds 1 − t of its samples that this
    // epoch has not read, among n − t: the hit ratio is ∫(1 − t)/(n − t) dt = 1 − (n − 1) ln(n/(n − 1)).
    for (nodes, capacity) in [("4", "\"100 MB\""), ("2", "\"200 MB\"")] {
        let n: f64 = nodes.parse().expect("a number");
        let of = |policy| {
            let changes = [
                ("job.nodes", nodes),
                ("cluster.node.page_cache.capacity", capacity),
                (POLICY, policy),
            ];
            steady_misses(&outcome("strided", &changes))
        };
        let (minio, lru) = (of("\"minio\""), of("\"lru\""));
        assert!((minio - (1.0 - 1.0 / n)).abs() < 0.01, "{minio}");
        assert!((lru - (n - 1.0) * (n / (n - 1.0)).ln()).abs() < 0.01, "{lru}");
    }
    // Shards in one order for all ranks are distributed anew in each epoch, too.
    let shards = steady_misses(&outcome("strided", &[SHARDS, (POLICY, "\"minio\"")]));
    assert!((shards - 0.75).abs() < 0.04, "{shards}");
}

#[test]
fn ranks_with_unequal_fixed_slices_read_only_their_own() {
    // System: 4,001 files for three ranks whose loaders make batches on request and drop incomplete batches.
    // Expectation: over all epochs, a rank misses only the samples of its own slice.
    let loader = "{ pytorch = { workers = 2, decode = \"0 s\" } }";
    let changes = [
        ("dataset.d.samples", "4001"),
        ("job.nodes", "3"),
        ("cluster.node.page_cache.capacity", "\"134 MB\""),
        ("job.loader", loader),
    ];
    let misses = |sampler| {
        let all = outcome(sampler, &changes);
        all.jobs[0].cache.iter().map(|epoch| epoch.misses).sum::<u64>()
    };
    let (own, turns) = (misses("contiguous"), misses("strided"));
    assert!((3960..=4001).contains(&own), "{own}");
    assert!(turns > 40_000, "{turns}");
}

#[test]
fn without_a_page_cache_all_samplers_give_the_same_makespan() {
    let time = |sampler| {
        let direct = ("storage.s.local-disk.access", "\"direct\"");
        outcome(sampler, &[SHARDS, direct, ("run.epochs", "2")]).makespan
    };
    assert_eq!(time("strided"), time("contiguous"));
    assert_eq!(time("strided"), time("shard-split"));
}

#[test]
fn invalid_samplers_are_refused() {
    let resolve = |sampler: &str, set: &str| {
        let file = ScenarioFile::parse("test.toml", scenario(sampler)).expect("a scenario");
        file.resolve(&[set.parse().expect("an override")])
    };
    let refused = |sampler, set, says: &str| {
        let problems = resolve(sampler, set).expect_err(set).to_string();
        assert!(problems.contains(says), "{problems}");
    };
    refused("shard-split", "run.seed=1", "has no shards");
    refused(
        "contiguous",
        "dataset.d.layout={ shards = { samples = 2000 } }",
        "loaders cannot share 2 files",
    );
    refused("block", "run.seed=1", "contiguous");
    let alone = resolve("contiguous", "job.nodes=1").expect("a scenario");
    assert!(
        alone.remarks.iter().any(|remark| remark.contains("has no effect")),
        "{:?}",
        alone.remarks
    );
    let split = resolve("contiguous", "run.seed=1").expect("a scenario");
    assert!(!split.remarks.iter().any(|remark| remark.contains("sampler")), "{:?}", split.remarks);
}
