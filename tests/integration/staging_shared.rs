//! Staging to a storage that a job's nodes share: once for all nodes, file by file.

use forebay::scenario::ScenarioFile;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};

use super::kept::served;
use super::staging::{CONVERSION, assert_near, outcome, scenario, seconds};

/// A server of 200 MB/s that all nodes share, to which the data set is copied for one epoch.
const SHARED: [(&str, &str); 3] = [
    ("storage.scratch", "{ file-server = { bandwidth = \"200 MB/s\" } }"),
    ("job.j.copy.to", "\"scratch\""),
    ("run.epochs", "1"),
];
const SCRATCH: &str = "storage.scratch.file-server";

#[test]
fn staging_time_to_a_shared_storage_is_the_sum_of_read_and_write_times() {
    // System: a stream takes 10 ms to read a file and 5 ms to write it. Expectation: 400 times that, or longer
    // where something slows the writes.
    let per_stream = (&*format!("{SCRATCH}.per_stream"), "\"50 MB/s\"");
    let latency = (&*format!("{SCRATCH}.latency"), "\"10 ms\"");
    let operations = (&*format!("{SCRATCH}.operations"), "\"50 /s\"");
    let write = (&*format!("{SCRATCH}.write_bandwidth"), "\"40 MB/s\"");
    let targets = "{ parallel-fs = { targets = 4, target_bandwidth = \"100 MB/s\" } }";
    let store = "{ object-store = { per_connection = \"20 MB/s\" } }";
    for (what, change, expected) in [
        ("as it is", None, 400.0 * 0.015),
        ("one stream", Some(per_stream), 400.0 * 0.030),
        ("latency", Some(latency), 400.0 * 0.025),
        ("files that are created", Some(operations), 400.0 * 0.035),
        ("writes", Some(write), 400.0 * 0.035),
        ("the NIC, in and out", Some(("cluster.network.nic", "\"50 MB/s\"")), 400.0 * 0.040),
        ("a target", Some(("storage.scratch", targets)), 400.0 * 0.020),
        ("a connection", Some(("storage.scratch", store)), 400.0 * 0.060),
    ] {
        let found = seconds(&[&SHARED[..], &change.into_iter().collect::<Vec<_>>()].concat());
        assert!((found / expected - 1.0).abs() < 0.02, "{what}: {found} instead of {expected}");
    }
    // Four streams read together, and then write together, at the full rate of the servers.
    let four = [per_stream, ("job.j.copy.streams", "4")];
    assert_near("four streams", seconds(&[&SHARED[..], &four].concat()), 400.0 * 0.015);
}

#[test]
fn each_node_stages_an_equal_part_of_a_data_set_to_a_shared_storage() {
    // System: four nodes. Expectation: each copies a quarter; the server writes each byte once and reads it
    // once in the epoch; training begins when all nodes are done.
    let nic = ("cluster.network.nic", "\"1 GB/s\"");
    let all = outcome(&[&SHARED[..], &[("job.j.nodes", "4"), nic]].concat());
    let job = &all.jobs[0];
    job.staging.iter().for_each(|node| assert_near("a node", node.bytes, 100e6));
    assert_eq!(job.staging.len(), 4);
    let last = job.staging.iter().map(|node| node.seconds).fold(0.0, f64::max);
    assert_near("start", job.start, last);
    // Four streams are never faster than the servers, nor slower than one stream.
    assert!((4.0..6.001).contains(&last), "{last}");
    assert_near("from the server", served(&all, "s.bandwidth"), 400e6);
    assert_near("to and from scratch", served(&all, "scratch.bandwidth"), 800e6);
    assert_near("out", served(&all, "node.nic.out"), 400e6);
    assert_near("in", served(&all, "node.nic"), 800e6);
    // Each copy of a job stages its own data set.
    let copies = outcome(&[&SHARED[..], &[("job.j.copies", "2")]].concat());
    assert_near("copies", served(&copies, "scratch.bandwidth"), 1600e6);
}

#[test]
fn converting_to_a_shared_storage_pays_for_creating_its_files() {
    // System: 400 images become ten shards, or ten shards become 400 images; a second to create a file.
    // Expectation: the time to read, compute and write everything, plus a second for each new file.
    let operations = (&*format!("{SCRATCH}.operations"), "\"1 /s\"");
    let to_shards = [&CONVERSION[..], &SHARED, &[operations]].concat();
    let found = outcome(&to_shards);
    assert_near("shards", found.jobs[0].staging[0].seconds, 400.0 * 0.04 + 10.0);
    assert_near("bytes", found.jobs[0].staging[0].bytes, 800e6);
    assert_near("cores", served(&found, "node.cores"), 400.0 * 0.02);
    let jpegs = "{ samples = 400, sample_size = \"1 MB\", layout.shards = { samples = 40 } }";
    let to_files = [
        &to_shards[..],
        &[("dataset.jpegs", jpegs), ("dataset.d.layout", "{ file-per-sample = {} }")],
    ];
    let found = outcome(&to_files.concat());
    assert_near("files", found.jobs[0].staging[0].seconds, 400.0 * 0.04 + 400.0);
    // In place: the server alternates between reads and writes.
    let there = outcome(&[&CONVERSION[..], &SHARED, &[("job.j.storage", "\"scratch\"")]].concat());
    assert_near("in place", there.jobs[0].staging[0].seconds, 400.0 * 0.035);
    assert_near("server in place", served(&there, "scratch.bandwidth"), 400e6 + 800e6 + 800e6);
}

#[test]
fn a_shared_object_store_that_refuses_requests_delays_writing() {
    // System: an object store that serves 20 requests per second. Expectation: 400 requests take 20 s, less the
    // initial burst.
    let store = "{ object-store = { requests = \"20 /s\", retry = { most = \"1 s\" } } }";
    let changes = [("storage.scratch", store), ("job.j.copy.streams", "40")];
    let all = outcome(&[&SHARED[..], &changes].concat());
    let staged = &all.jobs[0].staging[0];
    assert!((19.0..23.0).contains(&staged.seconds), "{}", staged.seconds);
    assert_near("bytes", staged.bytes, 400e6);
}

#[test]
fn a_shared_storage_must_have_capacity_for_staged_data() {
    let with = |more: &[(&str, &str)]| {
        let file = ScenarioFile::parse("test.toml", scenario()).expect("a scenario");
        let sets = SHARED.iter().chain(more).map(|(key, value)| format!("{key}={value}"));
        file.resolve(&sets.map(|set| set.parse().expect("an override")).collect::<Vec<_>>())
    };
    let capacity = |size: &str, copies: &str| {
        with(&[(&*format!("{SCRATCH}.capacity"), size), ("job.j.copies", copies)])
    };
    assert!(capacity("\"400 MB\"", "1").is_ok() && capacity("\"800 MB\"", "2").is_ok());
    for (size, copies) in [("\"399 MB\"", "1"), ("\"799 MB\"", "2")] {
        let said = capacity(size, copies).expect_err("too much").to_string();
        assert!(said.contains("do not fit into a tier"), "{said}");
    }
    let shared = with(&[("job.j.nodes", "2"), ("job.j.copy.share", "\"part\"")]).expect("right");
    let said = shared.remarks.join("\n");
    assert!(said.contains("copy.share` has no effect: all nodes share the storage"), "{said}");
    let slow = with(&[(&*format!("{SCRATCH}.bandwidth"), "\"10 B/s\"")]).expect_err("too slow");
    assert!(slow.to_string().contains("copying the data set to a node takes 40000004 s"), "{slow}");
    let table = "{ measured = { remote = true, sizes = [\"1 MB\"], requests = [1], \
                 throughput = [[\"1 GB/s\"]] } }";
    let measured = with(&[("storage.scratch", table)]).expect_err("a table");
    assert!(
        measured.to_string().contains("on a storage with a table of throughput are not simulated"),
        "{measured}"
    );
}

/// Returns a strategy for layouts of 400 samples, with their number of files.
fn layouts() -> impl Strategy<Value = (String, u64)> {
    prop_oneof![
        Just(("{ file-per-sample = {} }".to_owned(), 400)),
        (1..401_u64)
            .prop_map(|n| (format!("{{ shards = {{ samples = {n} }} }}"), 400_u64.div_ceil(n))),
    ]
}

#[test]
fn conversions_between_any_layouts_read_and_write_each_byte_once() {
    // System: conversions between random layouts, on different numbers of nodes. Expectation: each byte of the
    // old data set is read once, each byte of the new one is written once; each new file is created once, and
    // opened about once in the epoch.
    let config = Config {
        cases: 60,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(3),
        ..Config::default()
    };
    let cases = (layouts(), layouts(), 1..5_u32, 1..9_u32);
    let result = TestRunner::new(config).run(&cases, |((from, _), (to, files), nodes, streams)| {
        let jpegs = format!("{{ samples = 400, sample_size = \"1 MB\", layout = {from} }}");
        let (nodes, streams) = (nodes.to_string(), streams.to_string());
        let changes = [
            ("dataset.jpegs", jpegs.as_str()),
            ("dataset.d.layout", to.as_str()),
            ("job.j.copy.streams", streams.as_str()),
            ("job.nodes", nodes.as_str()),
            (&*format!("{SCRATCH}.operations"), "\"1e6 /s\""),
            ("job.batch", "1"),
        ];
        let found = outcome(&[&CONVERSION[..], &SHARED, &changes].concat());
        let staged: f64 = found.jobs[0].staging.iter().map(|node| node.bytes).sum();
        assert_near("staged", staged, 800e6);
        assert_near("from the server", served(&found, "s.bandwidth"), 400e6);
        let created = served(&found, "scratch.operations");
        prop_assert!(created >= files as f64 - 1e-6, "{created} of {files}");
        prop_assert!(created <= 2.0 * files as f64 + 8.0, "{created} of {files}");
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
