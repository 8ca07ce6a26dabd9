//! Samples that are read in several requests, compared with calculations by hand.

use super::base::{base, changed};
use super::runs::{simulate, steady};
use forebay::report::{CacheRequests, Outcome};
use forebay::scenario::ScenarioFile;

/// A file server with 10 ms to the first byte and 100 MB/s for each transfer.
const SERVER: &str = r#"{ file-server = { bandwidth = "10 GB/s", per_stream = "100 MB/s",
    latency = "10 ms" } }"#;

/// Returns the outcome of one reader of files of 1 MB, in batches of one.
fn reader(storage: &str, layout: &str, more: &[(&str, &str)]) -> Outcome {
    let changes = [
        ("storage.s", storage),
        ("dataset.d.layout", layout),
        ("dataset.d.sample_size", "\"1 MB\""),
        ("cluster.network", "{ nic = \"10 GB/s\" }"),
        ("job.batch", "1"),
        ("job.loader", r#"{ tf-queue = { threads = 1, capacity = "1 samples", decode = "0 s" } }"#),
        ("job.model.step", "\"1 us\""),
        ("run.steps", "100"),
    ];
    simulate(&changed(&[&changes[..], more].concat()))
}

fn step(storage: &str, layout: &str) -> f64 {
    steady(&reader(storage, layout, &[]), 20).step
}

fn ahead(kind: &str, readahead: u32) -> String {
    format!("{{ {kind} = {{ request = \"100 kB\", readahead = {readahead} }} }}")
}

fn near(what: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found}, not {expected}");
}

#[test]
fn latencies_of_readahead_requests_overlap() {
    // System: ten requests of 100 kB for each sample, each with 10 ms to its first byte and 1 ms for the rest.
    // Expectation: 11 ms for each round of as many requests as are in progress at once.
    for kind in ["file-per-sample", "raw"] {
        for (readahead, rounds) in [(1, 10.0), (2, 5.0), (3, 4.0), (5, 2.0), (10, 1.0), (99, 1.0)] {
            near(kind, step(SERVER, &ahead(kind, readahead)), rounds * 11e-3);
        }
        near("one request", step(SERVER, &format!("{{ {kind} = {{}} }}")), 20e-3);
        let larger = format!("{{ {kind} = {{ request = \"1 MB\", readahead = 4 }} }}");
        near("no larger than a request", step(SERVER, &larger), 20e-3);
    }
    let shared = SERVER.replace("10 GB/s", "100 MB/s").replace("per_stream = \"100 MB/s\",", "");
    near("all share", step(&shared, &ahead("file-per-sample", 10)), 20e-3);
    near(
        "opened once",
        step(
            &SERVER.replace("latency", "operations = \"100 /s\", latency"),
            &ahead("file-per-sample", 10),
        ),
        21e-3,
    );
    // From memory without latency or bandwidth, a sample takes no time.
    let memory = "{ memory = {} }";
    assert!(step(memory, &ahead("file-per-sample", 3)) < 2e-6);
}

#[test]
fn every_readahead_request_counts_as_a_storage_request() {
    let store = r#"{ object-store = { per_connection = "100 MB/s", latency = "10 ms" } }"#;
    near("ranges of an object", step(store, &ahead("file-per-sample", 5)), 22e-3);
    // 100 requests a second, ten for each sample; a refused request is repeated soon.
    let limited = r#"{ object-store = { requests = "100 /s", burst = 1,
        retry = { first = "1 ms", most = "1 ms" } } }"#;
    let limited = step(limited, &ahead("file-per-sample", 4));
    assert!((0.1..0.11).contains(&limited), "{limited}");
    // Stripes of 100 kB on four targets: four at a time, 4 + 4 + 2.
    let striped = r#"{ parallel-fs = { targets = 4, target_bandwidth = "100 MB/s",
        stripe_count = 4, stripe_size = "100 kB" } }"#;
    near("stripe by stripe", step(striped, &ahead("file-per-sample", 1)), 10e-3);
    near("stripes at once", step(striped, &ahead("file-per-sample", 4)), 3e-3);
    near("of an array", step(striped, &ahead("raw", 4)), 3e-3);
    // The measured throughput of 64 KiB requests, four at once.
    let table = r#"{ measured = { sizes = ["64 KiB"], requests = [1, 4],
        throughput = [["80 MB/s", "200 MB/s"]] } }"#;
    let layout = "{ file-per-sample = { request = \"64 KiB\", readahead = 4 } }";
    let measured = reader(table, layout, &[("dataset.d.sample_size", "\"1 MiB\"")]);
    near("measured", steady(&measured, 20).step, 1_048_576.0 / 200e6);
    // A millisecond of a core for each request, within its latency.
    let cpu = SERVER.replace("latency", "cpu = { fixed = \"1 ms\" }, latency");
    let cores = |layout: &str| {
        let outcome = reader(&cpu, layout, &[]);
        let cores = outcome.resources.iter().find(|r| r.name == "node.cores").expect("there");
        cores.served / outcome.jobs[0].samples.enqueued as f64
    };
    near("core of one", cores("{ file-per-sample = {} }"), 1e-3);
    near("core of ten", cores(&ahead("file-per-sample", 5)), 10e-3);
}

#[test]
fn stall_causes_and_bytes_account_for_every_request_of_a_sample() {
    // System: samples of 250 kB in requests of 100 kB, one after the other. Expectation: 3 · 10 ms + 2.5 ms.
    let size = ("dataset.d.sample_size", "\"250 kB\"");
    let outcome = reader(SERVER, &ahead("file-per-sample", 1), &[size]);
    near("step", steady(&outcome, 20).step, 32.5e-3);
    let served = outcome.resources.iter().find(|r| r.name == "s.bandwidth").expect("there").served;
    near("bytes", served, outcome.jobs[0].samples.started as f64 * 250e3);
    let stalls = &outcome.jobs[0].stalls;
    let of = |name: &str| -> f64 {
        stalls.iter().filter(|s| s.cause.to_string() == name).map(|s| s.seconds).sum()
    };
    near("latency", of("latency") / of("transfer"), 30.0 / 2.5);
    // While the bytes of one request arrive, the latency of the others is not the cause of the stall.
    let both = reader(SERVER, &ahead("file-per-sample", 2), &[size]);
    let waits = both.jobs[0].stalls.iter().map(|stall| stall.seconds).sum::<f64>();
    near("all has a cause", waits, both.makespan - 100e-6);
}

#[test]
fn the_page_cache_keeps_whole_files_read_in_several_requests() {
    let all = reader(
        SERVER,
        &ahead("file-per-sample", 4),
        &[("cluster.node.page_cache", "{ capacity = \"100 MB\" }"), ("dataset.d.samples", "50")],
    );
    let expected = [CacheRequests { hits: 0, misses: 50 }, CacheRequests { hits: 50, misses: 0 }];
    assert_eq!(all.jobs[0].cache[..2], expected);
}

#[test]
fn readahead_requests_exceeding_the_limit_on_simulated_workers_are_refused() {
    let file = ScenarioFile::parse("test.toml", base()).expect("a scenario");
    let sets = [
        "dataset.d.layout={ raw = { request = \"1 kB\", readahead = 10000 } }",
        "job.copies=10000",
        "cluster.nodes=10000",
    ];
    let sets: Vec<_> = sets.iter().map(|set| set.parse().expect("an override")).collect();
    let problems = file.resolve(&sets).expect_err("refused").to_string();
    assert!(problems.contains("requests ahead"), "{problems}");
}

#[test]
fn ineffective_readahead_settings_are_reported() {
    let file = ScenarioFile::parse("test.toml", base()).expect("a scenario");
    let remarks = |layout: &str| {
        let set = format!("dataset.d.layout={layout}").parse().expect("an override");
        file.resolve(&[set]).expect("a scenario").remarks.join("\n")
    };
    let alone = remarks("{ raw = { readahead = 4 } }");
    assert!(alone.contains("readahead` has no effect"), "{alone}");
    let large = remarks("{ file-per-sample = { request = \"100 kB\" } }");
    assert!(large.contains("no sample is larger"), "{large}");
    let used = remarks("{ file-per-sample = { request = \"99 kB\", readahead = 2 } }");
    assert!(!used.contains("effect") && !used.contains("no sample"), "{used}");
}
