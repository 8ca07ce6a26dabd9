//! Caches on tiers, and reads between nodes: miss ratios, bytes and times, compared with calculations by hand.

use forebay::report::{Outcome, TierRequests, summarise, text};
use forebay::scenario::ScenarioFile;
use forebay::sim::{self, Options};

use super::kept::{SHARDS, assert_near, least_recently_used, random_replacement, reader, served};
use super::runs::{simulate, written};

/// 4,000 files of 100 kB, or shards of 50 samples, in an object store of 100 MB/s, with a cache of 140 MB on a
/// disk of 1 GB/s in the node, for a trainer whose steps take no time.
const MACHINE: &str = r#"
[cluster]
nodes = 4
[cluster.node]
cores = 8
[storage.blob.object-store]
bandwidth = "100 MB/s"
cache = { on = "nvme", capacity = "140 MB" }
[storage.nvme.local-disk]
bandwidth = "1 GB/s"
capacity = "1 GB"
"#;

const CACHE: &str = "storage.blob.object-store.cache";
const NIC: (&str, &str) = ("cluster.network.nic", "\"10 GB/s\"");

fn scenario() -> String {
    reader(30, MACHINE, (4000, "100 kB"), "storage = \"blob\"")
}

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&written(&scenario(), changes))
}

/// Returns the miss ratio, and the share of requests that other nodes served.
fn shares(requests: &[TierRequests]) -> (f64, f64) {
    let sum = |of: fn(&TierRequests) -> u64| requests.iter().map(of).sum::<u64>() as f64;
    let all = sum(|r| r.hits + r.peers + r.misses);
    (sum(|r| r.misses) / all, sum(|r| r.peers) / all)
}

/// Returns the miss ratio after the tenth epoch.
fn steady_misses(changes: &[(&str, &str)]) -> f64 {
    shares(&outcome(changes).jobs[0].tiers[10..]).0
}

#[test]
fn steady_miss_ratios_of_tiers_match_closed_forms() {
    // System: a fresh permutation every epoch, capacity for a share x of the files. Expectation: closed forms
    // of the policies, to 0.01; LRU is the default.
    for (x, capacity) in [(0.35, "\"140 MB\""), (0.65, "\"260 MB\"")] {
        let capacity = (&*format!("{CACHE}.capacity"), capacity);
        for (policy, expected) in
            [("minio", 1.0 - x), ("lru", least_recently_used(x)), ("random", random_replacement(x))]
        {
            let written = format!("\"{policy}\"");
            let found = steady_misses(&[capacity, (&*format!("{CACHE}.policy"), &written)]);
            assert_near(policy, found, expected, 0.01);
        }
        assert_near("default", steady_misses(&[capacity]), least_recently_used(x), 0.01);
    }
}

#[test]
fn storage_tiers_cache_shards_as_whole_files_or_request_by_request() {
    // System: 80 shards of 5 MB, 28 of which fit. Expectation: the exact miss ratio of MinIO, that of LRU to
    // 0.03; with whole files each shard is requested once, otherwise each of its five requests.
    let minio = (&*format!("{CACHE}.policy"), "\"minio\"");
    let page = (&*format!("{CACHE}.unit"), "\"page\"");
    assert_near("minio", steady_misses(&[SHARDS, minio]), 0.65, 1e-9);
    assert_near("lru", steady_misses(&[SHARDS]), least_recently_used(0.35), 0.03);
    assert_near("pages", steady_misses(&[SHARDS, minio, page]), 0.65, 1e-9);
    let asked = |changes: &[(&str, &str)]| outcome(changes).jobs[0].tiers[0].misses;
    assert_eq!((asked(&[SHARDS]), asked(&[SHARDS, page])), (80, 400));
}

#[test]
fn the_first_epoch_fills_the_tier_and_later_epochs_read_from_the_tier() {
    // System: 400 MB, all of which fits. Expectation: 4 s from the store, and 0.4 s from the disk; each byte
    // comes from the store once, and is written and read once. The writes are part of the first epoch's reads:
    // at 50 MB/s they take 8 s.
    let all = [("run.epochs", "2"), (&*format!("{CACHE}.capacity"), "\"400 MB\"")];
    let found = outcome(&all);
    assert_near("makespan", found.makespan, 4.4, 0.02);
    assert_near("store", served(&found, "blob.bandwidth"), 400e6, 1.0);
    assert_near("disk", served(&found, "nvme.bandwidth"), 800e6, 1.0);
    let hits = |hits, misses| TierRequests { hits, peers: 0, misses };
    assert_eq!(found.jobs[0].tiers, [hits(0, 4000), hits(4000, 0)]);
    let slow = ("storage.nvme.local-disk.write_bandwidth", "\"50 MB/s\"");
    assert_near("slow writes", outcome(&[&all[..], &[slow]].concat()).makespan, 8.4, 0.02);
    let late = ("storage.nvme.local-disk.latency", "\"1 ms\"");
    assert_near("late reads", outcome(&[&all[..], &[late]].concat()).makespan, 8.4, 0.02);
    let whole = outcome(&[&all[..], &[SHARDS]].concat());
    assert_near("shards", whole.makespan, 4.4, 0.1);
    assert_near("bytes of shards", served(&whole, "nvme.bandwidth"), 800e6, 1.0);
}

#[test]
fn a_tier_without_eviction_writes_only_files_that_remain_cached() {
    // System: MinIO policy, a third of the files fits. Expectation: the disk writes these files once, and reads
    // them in each later epoch.
    let minio = (&*format!("{CACHE}.policy"), "\"minio\"");
    let found = outcome(&[minio, ("run.epochs", "3")]);
    assert_near("disk", served(&found, "nvme.bandwidth"), 3.0 * 140e6, 1e5);
    assert_near("store", served(&found, "blob.bandwidth"), 400e6 + 2.0 * 260e6, 1e5);
}

#[test]
fn a_file_in_the_page_cache_is_read_without_a_request_to_the_tier() {
    // System: all files fit into page cache and tier. Expectation: the tier gets requests only in the first
    // epoch.
    let page = ("cluster.node.page_cache", "{ capacity = \"400 MB\" }");
    let found =
        outcome(&[page, (&*format!("{CACHE}.capacity"), "\"400 MB\""), ("run.epochs", "3")]);
    assert_eq!(found.jobs[0].tiers, [TierRequests { hits: 0, peers: 0, misses: 4000 }]);
    assert_near("makespan", found.makespan, 4.0, 0.02);
    // A tier in memory works as well.
    let memory = [("storage.nvme", "{ memory = { capacity = \"1 GB\" } }"), ("run.epochs", "2")];
    let all = (&*format!("{CACHE}.capacity"), "\"400 MB\"");
    assert_near("memory", outcome(&[memory[0], memory[1], all]).makespan, 4.0, 0.02);
}

#[test]
fn a_file_that_misses_in_a_tier_is_fetched_as_a_whole() {
    // System: shards of 5 MB, a page cache that holds a fifth of their requests at random, and a tier for whole
    // files. Expectation: a shard that misses in the tier is fetched as a whole, whatever part the page cache
    // has, so that the store serves 5 MB for each.
    let page = ("cluster.node.page_cache", "{ capacity = \"80 MB\", policy = \"random\" }");
    for (unit, bytes) in [("\"file\"", 5e6), ("\"page\"", 1e6)] {
        for capacity in ["\"100 MB\"", "\"300 MB\""] {
            let capacity = (&*format!("{CACHE}.capacity"), capacity);
            let unit = (&*format!("{CACHE}.unit"), unit);
            let found = outcome(&[SHARDS, page, capacity, unit, ("run.epochs", "6")]);
            let job = &found.jobs[0];
            let missed = job.tiers.iter().map(|epoch| epoch.misses).sum::<u64>() as f64;
            assert!(missed > 80.0 && job.cache[1..].iter().all(|epoch| epoch.hits > 0));
            assert_near(unit.1, served(&found, "blob.bandwidth"), missed * bytes, 1.0);
            assert_near("steps", job.steps.len() as f64, 1200.0, 0.0);
        }
    }
}

#[test]
fn jobs_on_a_node_share_its_tier() {
    let shared = [
        ("run.epochs", "1"),
        ("job.copies", "2"),
        ("job.stagger", "\"10 s\""),
        ("cluster.share_nodes", "true"),
        (&*format!("{CACHE}.capacity"), "\"400 MB\""),
    ];
    let together = outcome(&shared);
    assert_eq!(together.jobs[1].tiers, [TierRequests { hits: 4000, peers: 0, misses: 0 }]);
    let apart = outcome(&[&shared[..3], &shared[4..]].concat());
    assert_eq!(apart.jobs[1].tiers, [TierRequests { hits: 0, peers: 0, misses: 4000 }]);
}

/// Returns the outcome of four nodes that cache a quarter each, for five epochs.
fn four(changes: &[(&str, &str)]) -> Outcome {
    let base = [
        NIC,
        ("run.epochs", "5"),
        ("job.nodes", "4"),
        (&*format!("{CACHE}.capacity"), "\"101 MB\""),
        (&*format!("{CACHE}.policy"), "\"minio\""),
    ];
    outcome(&[&base, changes].concat())
}

#[test]
fn nodes_with_peer_caching_read_each_byte_from_the_storage_once_in_total() {
    // System: each of four nodes keeps the files that it read first. Expectation: with peer caching the store
    // serves each byte once, and three quarters of all later bytes come from other nodes; without it, a node
    // hits only its own files.
    let peers = (&*format!("{CACHE}.peers"), "true");
    let found = four(&[peers]);
    assert_near("store", served(&found, "blob.bandwidth"), 400e6, 1.0);
    let (misses, from_others) = shares(&found.jobs[0].tiers[1..]);
    assert_near("misses", misses, 0.0, 1e-9);
    assert_near("from others", from_others, 0.75, 0.01);
    let sent = served(&found, "node.nic.out");
    assert_near("between nodes", sent / (4.0 * 400e6), 0.75, 0.01);
    assert_near("received", served(&found, "node.nic"), sent + 400e6, 1.0);
    let alone = four(&[]);
    assert!(served(&alone, "blob.bandwidth") > 3.0 * 400e6);
    assert_eq!(served(&alone, "node.nic.out"), 0.0);
    let shards = four(&[peers, SHARDS]);
    // A node may begin its next epoch before another has read its last shard of the current one.
    assert_near("store of shards", served(&shards, "blob.bandwidth"), 400e6, 10e6);
}

#[test]
fn a_run_that_begins_after_two_epochs_finds_in_tiers_what_a_run_from_the_start_finds_then() {
    // System: four nodes, each with a cache for 35 % of the data or for all of it, of files, whole shards or their requests, with and
    // without reads from each other. Expectation: the shares of misses and of reads from other nodes in the third epoch are those of
    // the run from the start, to 0.02.
    let key = |name: &str| format!("{CACHE}.{name}");
    let (peers, kept, whole) = (key("peers"), key("capacity"), key("unit"));
    let layouts = [vec![], vec![SHARDS], vec![SHARDS, (&*whole, "\"page\"")]];
    for (layout, capacity) in layouts.iter().zip(["\"140 MB\"", "\"500 MB\"", "\"140 MB\""]) {
        for with in ["false", "true"] {
            let caches = [(&*peers, with), (&*kept, capacity)];
            let four = [("job.nodes", "4"), ("run.epochs", "3"), NIC];
            let scenario = written(&scenario(), &[&four[..], &caches, layout].concat());
            let later = Options { epochs_before: &[2.0], ..Options::default() };
            let third = |outcome: Outcome| shares(&outcome.jobs[0].tiers[2..3]);
            let (from_start, later) =
                (third(simulate(&scenario)), third(sim::run(&scenario, 0, &later)));
            let what = format!("{layout:?}, {capacity}, peers {with}");
            assert_near(&what, later.0, from_start.0, 0.02);
            assert_near(&what, later.1, from_start.1, 0.02);
        }
    }
}

#[test]
fn reads_from_another_node_cross_both_nics() {
    // System: four nodes with a quarter of 400 MB each on disks, NICs of 50 MB/s; each of five epochs is 100 MB
    // for each node, three quarters of it from the others. Expectation: at least 1.5 s an epoch, and at most
    // the time of reading files one by one: 2 ms over a NIC.
    let part = [
        ("cluster.network.nic", "\"50 MB/s\""),
        ("run.epochs", "5"),
        ("job.nodes", "4"),
        ("job.j.stage", "{ to = \"nvme\", share = \"part\" }"),
        ("storage.blob", "{ object-store = { bandwidth = \"1 GB/s\" } }"),
        ("job.loader.tf-queue.threads", "8"),
    ];
    let found = outcome(&part);
    let job = &found.jobs[0];
    for node in &job.staging {
        assert_near("part of a node", node.bytes, 100e6, 1.0);
        assert_near("time of it", node.seconds, 2.0, 0.01);
    }
    let (misses, from_others) = shares(&job.tiers);
    assert_near("misses", misses, 0.0, 1e-9);
    assert_near("from others", from_others, 0.75, 0.01);
    let took = (found.makespan - job.start) / 5.0;
    assert!((1.5..2.5).contains(&took), "{took}");
    let late = outcome(&[&part[..], &[("cluster.network.latency", "\"10 ms\"")]].concat());
    assert!(late.makespan > found.makespan + 1.0, "{}", late.makespan);
    // With all data on each node, no reads from other nodes are needed.
    let all = outcome(&[&part[..], &[("job.j.stage.share", "\"all\"")]].concat());
    assert!(all.jobs[0].tiers.is_empty());
    assert_near("all of it", all.jobs[0].staging[0].bytes, 400e6, 1.0);
}

#[test]
fn bytes_of_tiers_nics_and_storage_balance_for_every_policy() {
    // System: each policy with several sizes and with or without peers, two nodes with several threads.
    // Expectation: the store serves misses, NICs carry reads from other nodes, tiers serve hits and writes; the
    // same seed gives the same outcome.
    for policy in ["lru", "random", "fifo", "minio"] {
        for (capacity, peers) in [("40 MB", true), ("130 MB", true), ("300 MB", false)] {
            let cache = format!(
                "{{ on = \"nvme\", capacity = \"{capacity}\", policy = \"{policy}\", peers = {peers} }}"
            );
            let changes = [
                NIC,
                ("run.epochs", "4"),
                ("job.nodes", "2"),
                ("job.loader.tf-queue.threads", "3"),
                (CACHE, cache.as_str()),
            ];
            let found = outcome(&changes);
            assert_eq!(found, outcome(&changes), "{cache}");
            let sum = |of: fn(&TierRequests) -> u64| {
                found.jobs[0].tiers.iter().map(of).sum::<u64>() as f64 * 1e5
            };
            let (hits, others, misses) = (sum(|r| r.hits), sum(|r| r.peers), sum(|r| r.misses));
            assert_near(&cache, hits + others + misses, 4.0 * 400e6, 1.0);
            assert_near(&cache, served(&found, "blob.bandwidth"), misses, 1.0);
            assert_near(&cache, served(&found, "node.nic.out"), others, 1.0);
            // Files that three threads were fetching when the tier became full were written in vain.
            let written = served(&found, "nvme.bandwidth") - hits - others;
            let kept =
                if policy == "minio" { written <= 2.0 * 300.4e6 } else { written > 0.99 * misses };
            assert!(kept && written <= misses + 1.0, "{cache}: {written} of {misses}");
        }
    }
}

#[test]
fn reports_state_the_share_of_first_epoch_reads_served_by_the_storage() {
    let scenario = written(&scenario(), &[("run.epochs", "3")]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    assert_near("first", report.jobs[0].tiers[0].miss, 1.0, 1e-9);
    let page = text::render(&report, 200, false);
    assert!(page.contains("100.0 % on the storage in the first epoch"), "{page}");
}

#[test]
fn invalid_tier_settings_are_refused() {
    let file = ScenarioFile::parse("test.toml", scenario()).expect("a scenario");
    for (set, says) in [
        (
            "storage.blob.object-store.cache={}",
            "name a storage of the kind `local-disk` or `memory`",
        ),
        ("storage.blob.object-store.cache.on=\"blob\"", "\"blob\" is not in the nodes"),
        ("storage.blob.object-store.cache.policy=\"mru\"", "`lru`"),
        ("storage.blob.object-store.cache.unit=\"block\"", "`page`"),
        ("storage.blob.object-store.cache.capacity=\"2 GB\"", "2.0 GB of caches do not fit"),
        ("storage.nvme.local-disk.cache={ on = \"nvme\" }", "cache"),
        ("dataset.d.samples=2000000000", "track 2000000000 files"),
    ] {
        let problems = file.resolve(&[set.parse().expect("an override")]).expect_err(set);
        assert!(problems.to_string().contains(says), "{set}: {problems}");
    }
    let scenario = written(&scenario(), &[("job.storage", "\"nvme\"")]);
    let remarks = scenario.remarks.join("\n");
    assert!(remarks.contains("The cache of `storage.blob` has no effect"), "{remarks}");
}
