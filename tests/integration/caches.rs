//! The page cache of a node: miss ratios for each epoch, and the resulting read times.

use forebay::report::{CacheRequests, Outcome};
use forebay::scenario::ScenarioFile;
use forebay::sim::{self, Options};

use super::kept::{
    SHARDS, assert_near, least_recently_used, misses, random_replacement, reader, served,
};
use super::runs::{simulate, written};

/// 4,000 files of 100 kB, or shards of 50 samples, read from a disk of 100 MB/s, for a trainer whose steps take
/// no time. The page cache holds 140 MB of the 400 MB.
const MACHINE: &str = r#"
[cluster]
nodes = 2
[cluster.node]
cores = 8
[cluster.node.page_cache]
capacity = "140 MB"
[storage.s.local-disk]
bandwidth = "100 MB/s"
access = "cold"
"#;

const CACHE: &str = "cluster.node.page_cache";

fn scenario() -> String {
    reader(30, MACHINE, (4000, "100 kB"), "storage = \"s\"")
}

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&written(&scenario(), changes))
}

/// Returns the miss ratio after the tenth epoch.
fn steady_misses(changes: &[(&str, &str)]) -> f64 {
    misses(&outcome(changes).jobs[0].cache[10..])
}

#[test]
fn steady_miss_ratios_of_the_page_cache_match_closed_forms() {
    // System: a fresh permutation every epoch, a cache for a share x of the files. Expectation: closed forms of
    // the policies, to 0.01.
    for (x, capacity) in [(0.35_f64, "\"140 MB\""), (0.65, "\"260 MB\""), (0.9, "\"360 MB\"")] {
        for (policy, expected) in
            [("minio", 1.0 - x), ("lru", least_recently_used(x)), ("random", random_replacement(x))]
        {
            let policy = format!("\"{policy}\"");
            let changes =
                [(&*format!("{CACHE}.capacity"), capacity), (&*format!("{CACHE}.policy"), &policy)];
            assert_near(&policy, steady_misses(&changes), expected, 0.01);
        }
    }
}

#[test]
fn the_default_eviction_policy_reproduces_measured_page_cache_misses() {
    // Measured: Mohan et al., VLDB 2021, section 4.3: 85 % of the files missed where 35 % fit, 53 %
    // where 65 % fit.
    assert_near("35 %", steady_misses(&[]), 0.85, 0.03);
    let larger = [(&*format!("{CACHE}.capacity"), "\"260 MB\"")];
    assert_near("65 %", steady_misses(&larger), 0.53, 0.03);
}

#[test]
fn the_page_cache_evicts_least_recently_used_shards() {
    // System: shards of 50 files in requests of 1 MB, half of them fit. Expectation: the closed form of LRU
    // with a shard as its unit, to 0.03; the measured miss ratio is 91 %.
    let changes = [SHARDS, (&*format!("{CACHE}.capacity"), "\"200 MB\"")];
    assert_near("shards", steady_misses(&changes), 0.847, 0.03);
}

#[test]
fn page_cache_reads_miss_in_the_first_epoch_and_hit_in_later_epochs() {
    let all = outcome(&[("run.epochs", "3"), (&*format!("{CACHE}.capacity"), "\"400 MB\"")]);
    let cache = &all.jobs[0].cache;
    assert_eq!(cache[0], CacheRequests { hits: 0, misses: 4000 });
    assert_eq!(cache[1], CacheRequests { hits: 4000, misses: 0 });
    // 400 MB at 100 MB/s in the first epoch, no time in later ones.
    assert_near("makespan", all.makespan, 4.0, 0.02);
}

#[test]
fn cached_files_are_read_at_the_rate_of_the_cache() {
    // System: all files fit, and are read at 1 GB/s in the second epoch. Expectation: 4 s and 0.4 s.
    let all = outcome(&[
        ("run.epochs", "2"),
        (&*format!("{CACHE}.capacity"), "\"400 MB\""),
        (&*format!("{CACHE}.bandwidth"), "\"1 GB/s\""),
    ]);
    assert_near("makespan", all.makespan, 4.4, 0.02);
    assert_near("served", served(&all, "node.page-cache"), 400e6, 1.0);
}

#[test]
fn a_run_that_begins_after_some_epochs_finds_in_caches_what_a_run_from_the_start_finds_then() {
    // System: files or shards, read by one node, or by two in turn; page caches that hold a third of the data under each policy, half of
    // it, or all. Expectation: the miss ratio in the third epoch is that of the run from the start, to 0.02.
    let policies = ["minio", "lru", "fifo", "random"].map(|policy| format!("\"{policy}\""));
    let key = format!("{CACHE}.policy");
    let kept = format!("{CACHE}.capacity");
    let mut cases: Vec<Vec<(&str, &str)>> =
        policies.iter().map(|policy| vec![(&*key, &**policy)]).collect();
    cases.push(vec![(&*kept, "\"400 MB\"")]);
    cases.push(vec![SHARDS, (&*kept, "\"200 MB\"")]);
    cases.push(vec![("job.nodes", "2"), (&*kept, "\"400 MB\"")]);
    for changes in cases {
        let changes = [&[("run.epochs", "3")][..], &changes].concat();
        let scenario = written(&scenario(), &changes);
        let later = Options { epochs_before: &[2.0], ..Options::default() };
        let later = sim::run(&scenario, 0, &later);
        let [from_start, later] =
            [simulate(&scenario), later].map(|outcome| misses(&outcome.jobs[0].cache[2..3]));
        assert_near(&format!("{changes:?}"), later, from_start, 0.02);
    }
}

#[test]
fn a_run_that_begins_after_some_epochs_reads_the_same_samples_as_one_from_the_start() {
    // System: one thread reads files, or shards, of drawn sizes without a cache, and a step takes no time. Expectation: the steps of
    // the second epoch take the same time in both runs, to 1e-6, but for the first one, for which the thread works ahead.
    let sizes =
        ("dataset.d.sample_size", "{ lognormal = { median = \"100 kB\", p99 = \"300 kB\" } }");
    for layout in [("run.epochs", "2"), SHARDS] {
        let changes = [("run.epochs", "2"), sizes, ("cluster.node.page_cache", "\"none\""), layout];
        let scenario = written(&scenario(), &changes);
        let later = Options { epochs_before: &[1.0], ..Options::default() };
        let ends = |outcome: &Outcome| -> Vec<f64> {
            outcome.jobs[0].steps.iter().map(|step| step.end).collect()
        };
        let (all, later) = (ends(&simulate(&scenario)), ends(&sim::run(&scenario, 0, &later)));
        let epoch = all.len() / 2;
        for step in 2..epoch {
            let [a, b] = [all[epoch + step] - all[epoch + 1], later[step] - later[1]];
            assert!((a / b - 1.0).abs() < 1e-6, "{layout:?}, step {step}: {a} {b}");
        }
    }
}

#[test]
fn jobs_on_a_node_share_its_page_cache() {
    // System: two job copies read the same files on one node, the second 10 s later; all files fit in the page cache.
    // Expectation: the second copy hits every file; on nodes of their own both read all files from the storage.
    let shared = [
        ("run.epochs", "1"),
        ("job.copies", "2"),
        ("job.stagger", "\"10 s\""),
        ("cluster.share_nodes", "true"),
        (&*format!("{CACHE}.capacity"), "\"400 MB\""),
    ];
    let together = outcome(&shared);
    assert_eq!(together.jobs[1].cache, [CacheRequests { hits: 4000, misses: 0 }]);
    let apart = outcome(&[&shared[..3], &shared[4..]].concat());
    assert_eq!(apart.jobs[1].cache, [CacheRequests { hits: 0, misses: 4000 }]);
}

#[test]
fn direct_reads_bypass_the_page_cache() {
    let direct = outcome(&[("run.epochs", "2"), ("storage.s.local-disk.access", "\"direct\"")]);
    assert!(direct.jobs[0].cache.is_empty());
    assert_near("makespan", direct.makespan, 8.0, 0.02);
}

#[test]
fn memory_of_workers_and_buffers_reduces_the_page_cache() {
    // System: a node of 240 MB, all of which the page cache may use, without eviction. Expectation: the page
    // cache has the memory that four workers of 10 MB each and a queue of 100 kB samples leave.
    let base = [
        ("run.epochs", "2"),
        ("cluster.node.memory", "\"240 MB\""),
        (CACHE, "{ policy = \"minio\" }"),
        ("job.loader.tf-queue.threads", "4"),
    ];
    let second =
        |changes: &[(&str, &str)]| misses(&outcome(&[&base, changes].concat()).jobs[0].cache[1..]);
    let workers = ("job.worker_memory", "\"10 MB\"");
    let queue = ("job.loader.tf-queue.capacity", "\"840 samples\"");
    assert_near("queue of 4 MB", second(&[]), 1.0 - 236.0 / 400.0, 1e-9);
    assert_near("workers", second(&[workers]), 1.0 - 196.0 / 400.0, 1e-9);
    assert_near("queue of 84 MB", second(&[queue]), 1.0 - 156.0 / 400.0, 1e-9);
    assert_near("both", second(&[workers, queue]), 1.0 - 116.0 / 400.0, 1e-9);
    // Each copy of the job on the node takes as much memory; a small capacity that fits beside them is
    // unchanged.
    let copies = [workers, ("job.copies", "2"), ("cluster.share_nodes", "true")];
    assert_near("copies", second(&copies), 1.0 - 152.0 / 400.0, 0.2);
    let small = (&*format!("{CACHE}.capacity"), "\"100 MB\"");
    assert_near("small", second(&[small, workers]), 0.75, 1e-9);
}

/// A job that reads for 1 ms and decodes for 3 ms a sample, in one thread; decoded samples are five times as large.
const DECODED: [(&str, &str); 5] = [
    ("run.epochs", "3"),
    ("cluster.node", "{ cores = 8 }"),
    ("dataset.d.decoded_size", "\"500 kB\""),
    ("job.loader.tf-queue.decode", "\"3 ms\""),
    ("job.decoded_cache", "{ capacity = \"700 MB\" }"),
];

#[test]
fn cached_decoded_samples_are_neither_read_nor_decoded_again() {
    // System: 35 % of 4,000 samples fit decoded. Expectation: 16 s in the first epoch, then 65 % of this time.
    let found = outcome(&DECODED);
    let shares: Vec<f64> =
        found.jobs[0].decoded.iter().map(|epoch| misses(std::slice::from_ref(epoch))).collect();
    assert_eq!(shares, [1.0, 0.65, 0.65]);
    assert_near("makespan", found.makespan, 16.0 * 2.3, 0.05);
    assert_near("disk", served(&found, "s.bandwidth"), 400e6 * 2.3, 1.0);
    let lru = outcome(&[&DECODED[..], &[("job.decoded_cache.policy", "\"lru\"")]].concat());
    assert!(lru.makespan > 16.0 * 2.6, "{}", lru.makespan);
    // Each of two nodes keeps its own samples; all loaders of a node share one cache.
    let all = ("job.decoded_cache.capacity", "\"2 GB\"");
    let gpus = ("cluster.node.gpus", "2");
    let ranks = ("job.parallel.data", "{ copies_per_node = 2, loaders = \"per-rank\" }");
    let per_rank = outcome(&[&DECODED[..], &[all, gpus, ranks]].concat());
    assert_eq!(per_rank.jobs[0].decoded[1], CacheRequests { hits: 4000, misses: 0 });
}

#[test]
fn invalid_settings_of_the_decoded_sample_cache_are_refused() {
    let file = ScenarioFile::parse("test.toml", scenario()).expect("a scenario");
    let read_apart = "job.loader={ stages = [{ name = \"read\", workers = 1, per_sample = [\"read\"], \
                      buffer = 40 }, { name = \"decode\", workers = 1, per_sample = [{ compute = \
                      \"1 ms\" }], buffer = 40 }] }";
    for (set, says) in [
        ("dataset.d.layout={ shards = { samples = 50 } }", "even if they are cached decoded"),
        (read_apart, "do not decode them"),
        ("job.queue=\"circular\"", "from the cache take them no time"),
        ("job.decoded_cache={}", "`capacity` is missing"),
        ("cluster.node.memory=\"500 MB\"", "the buffers need"),
    ] {
        let sets = ["job.decoded_cache={ capacity = \"700 MB\" }", set];
        let sets = sets.map(|set| set.parse().expect("an override"));
        let problems = file.resolve(&sets).expect_err(set);
        assert!(problems.to_string().contains(says), "{set}: {problems}");
    }
}

#[test]
fn invalid_page_cache_settings_are_refused() {
    let file = ScenarioFile::parse("test.toml", scenario()).expect("a scenario");
    for (set, says) in [
        ("cluster.node.memory=\"100 MB\"", "larger than the node's memory"),
        ("dataset.d.samples=2000000000", "track 2000000000 files"),
        ("cluster.node.page_cache={ policy = \"mru\" }", "`lru`"),
        ("cluster.node.page_cache={}", "write `capacity"),
        // Once all samples are in the cache, nothing limits the loader.
        ("job.queue=\"circular\"", "makes samples in no time"),
    ] {
        let problems = file.resolve(&[set.parse().expect("an override")]).expect_err(set);
        assert!(problems.to_string().contains(says), "{set}: {problems}");
    }
}
