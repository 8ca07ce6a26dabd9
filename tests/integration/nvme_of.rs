//! NVMe over fabrics: queues of limited depth and bandwidth to a target that nodes share, compared with
//! calculations by hand.

use super::base::changed;
use super::runs::{simulate, steady};
use forebay::report::Outcome;

/// Returns a target of 10 GB/s with further keys.
fn target(more: &str) -> String {
    format!("{{ nvme-of = {{ bandwidth = \"10 GB/s\", access = \"direct\", {more} }} }}")
}

/// Returns the outcome with `readers` readers of files of 1 MB on each node, in batches of one.
fn run(storage: &str, readers: u32, more: &[(&str, &str)]) -> Outcome {
    let loader = format!(
        "{{ tf-queue = {{ threads = {readers}, capacity = \"{readers} samples\", decode = \"0 s\" }} }}"
    );
    let changes = [
        ("storage.s", storage),
        ("dataset.d.sample_size", "\"1 MB\""),
        ("cluster.node.cores", "16"),
        ("cluster.network", "{ nic = \"100 GB/s\" }"),
        ("job.batch", "1"),
        ("job.loader", loader.as_str()),
        ("job.model.step", "\"1 us\""),
        ("run.steps", "400"),
    ];
    simulate(&changed(&[&changes[..], more].concat()))
}

/// Returns the mean step time; in each step a node takes one file [s].
fn step(storage: &str, readers: u32, more: &[(&str, &str)]) -> f64 {
    steady(&run(storage, readers, more), 80).step
}

fn near(what: &str, found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found}, not {expected}");
}

#[test]
fn readers_of_an_io_queue_share_its_bandwidth() {
    // System: 100 MB/s for each queue. Expectation: as many files are read at once, in 10 ms each, as there are
    // queues with a reader.
    let queues = |queues: u32, readers: u32| {
        step(&target(&format!("queues = {queues}, queue_bandwidth = \"100 MB/s\"")), readers, &[])
    };
    near("one of one", queues(1, 1), 10e-3);
    near("four of one", queues(1, 4), 10e-3);
    near("four of two", queues(2, 4), 5e-3);
    near("four of four", queues(4, 4), 2.5e-3);
    near("four of nine", queues(9, 4), 2.5e-3);
}

#[test]
fn all_io_queues_share_the_bandwidth_of_the_nvme_of_target_and_the_nic() {
    // System: nodes of four readers and queues each; 200 MB/s for the target, or 50 MB/s for each NIC.
    // Expectation: the slower of the two limits, whatever the queues could carry.
    let many = "queues = 4, queue_bandwidth = \"1 GB/s\"";
    let shared = target(many).replace("10 GB/s", "200 MB/s");
    let nodes = |number: &'static str| [("cluster.nodes", number), ("job.nodes", number)];
    near("one node", step(&shared, 4, &[]), 5e-3);
    near("four nodes", step(&shared, 4, &nodes("4")), 20e-3);
    near("NIC", step(&shared, 4, &[("cluster.network.nic", "\"50 MB/s\"")]), 20e-3);
}

#[test]
fn an_io_queue_has_at_most_its_depth_of_requests_in_progress() {
    // System: 9 ms to the first byte, 1 ms for the bytes in one queue at 1 GB/s. Expectation: with one slot 10
    // ms a file; with two, whose transfers share the queue, 11 ms for two files; with eight slots, 17 ms for
    // eight files.
    let depth = |depth: u32| {
        let keys = format!(
            "queues = 1, queue_depth = {depth}, queue_bandwidth = \"1 GB/s\", latency = \"9 ms\""
        );
        step(&target(&keys), 8, &[])
    };
    near("one slot", depth(1), 10e-3);
    near("two slots", depth(2), 5.5e-3);
    near("enough", depth(8), 17e-3 / 8.0);
    near("more than enough", depth(128), 17e-3 / 8.0);
    // Each of two queues has slots of its own.
    let two =
        target("queues = 2, queue_depth = 1, queue_bandwidth = \"1 GB/s\", latency = \"9 ms\"");
    near("two queues", step(&two, 8, &[]), 5e-3);
}

#[test]
fn every_request_counts_as_an_operation_of_the_nvme_of_target() {
    // System: 100 operations a second at the target, samples of 1 MB in four requests. Expectation: 40 ms a
    // sample, whereas a file server counts only the open of a file; requests to shards count as well.
    let limited = target("queues = 2, operations = \"100 /s\"");
    let ahead =
        ("dataset.d.layout", "{ file-per-sample = { request = \"250 kB\", readahead = 4 } }");
    near("ranges", step(&limited, 2, &[ahead]), 40e-3);
    near("whole files", step(&limited, 2, &[]), 10e-3);
    let shards = ("dataset.d.layout", "{ shards = { samples = 100, request = \"250 kB\" } }");
    near("shards", step(&limited, 2, &[shards]), 40e-3);
    let server = r#"{ file-server = { bandwidth = "10 GB/s", operations = "100 /s" } }"#;
    near("opens of a file server", step(server, 2, &[ahead]), 10e-3);
}

#[test]
fn byte_range_requests_of_a_sample_wait_for_free_io_queue_slots() {
    // System: ten ranges of a file, up to ten in progress, 10 ms to the first byte of each; no other limit.
    // Expectation: a round of 10 ms for as many ranges as the queue is deep.
    let ahead =
        ("dataset.d.layout", "{ file-per-sample = { request = \"100 kB\", readahead = 10 } }");
    for (depth, rounds) in [(1, 10.0), (2, 5.0), (5, 2.0), (10, 1.0), (128, 1.0)] {
        let keys = format!("queues = 1, queue_depth = {depth}, latency = \"10 ms\"");
        let storage = target(&keys).replace("10 GB/s", "100 TB/s");
        near("rounds", step(&storage, 1, &[ahead]), rounds * 10e-3);
    }
}

#[test]
fn two_loaders_on_a_node_use_different_io_queues_if_available() {
    // System: two jobs of one reader on a node with two queues of 100 MB/s. Expectation: each uses a queue of
    // its own, 10 ms a file; one queue is shared, 20 ms.
    let copies = [("job.copies", "2"), ("cluster.node.gpus", "2"), ("cluster.share_nodes", "true")];
    let each = |queues: u32| {
        let keys = format!("queues = {queues}, queue_bandwidth = \"100 MB/s\"");
        step(&target(&keys), 1, &copies)
    };
    near("a queue each", each(2), 10e-3);
    near("one for both", each(1), 20e-3);
}

#[test]
fn a_failure_releases_io_queue_slots_to_waiting_jobs() {
    // System: two jobs on one queue with one slot, 10 ms a file or, in four requests, 37 ms; both fail three
    // times, while one of them has the slot, and restart. Expectation: both finish as if the other had not
    // failed: within the time of 40 samples each after the last failure.
    let keys = "queues = 1, queue_depth = 1, queue_bandwidth = \"1 GB/s\", latency = \"9 ms\"";
    let failing = "{ at = [\"95 ms\", \"212 ms\", \"333 ms\"], restart = \"50 ms\" }";
    for (layout, sample) in [
        ("{ file-per-sample = {} }", 10e-3),
        ("{ file-per-sample = { request = \"250 kB\", readahead = 4 } }", 37e-3),
        ("{ shards = { samples = 100, request = \"250 kB\" } }", 37e-3),
    ] {
        let more = [
            ("run.steps", "40"),
            ("job.copies", "2"),
            ("cluster.node.gpus", "2"),
            ("cluster.share_nodes", "true"),
            ("job.failures", failing),
            ("dataset.d.layout", layout),
        ];
        let outcome = run(&target(keys), 4, &more);
        let steps: Vec<usize> = outcome.jobs.iter().map(|job| job.steps.len()).collect();
        assert!(steps.iter().all(|steps| *steps >= 40), "{layout}: {steps:?}");
        let most = 0.383 + 90.0 * sample;
        assert!(outcome.makespan < most, "{layout}: {} and not {most}", outcome.makespan);
        let slots = outcome.resources.iter().find(|of| of.name == "s.queue-slots").expect("slots");
        assert!(slots.utilisation_max <= 1.0 + 1e-9, "{layout}: {}", slots.utilisation_max);
    }
}
