//! Reading a checkpoint back after a failure, before the job trains again.

use super::base::changed;
use super::recovery::{assert_near, assert_whole};
use super::runs::simulate;
use forebay::report::JobOutcome;

/// Steps of 1 s without stalls. After each 50 steps the job writes a checkpoint of 500 MB to a server of 100 MB/s, which takes 5 s.
/// So the third checkpoint is complete after 165 s. A node fails after 180 s, and the restart takes 20 s.
const BASE: [(&str, &str); 8] = [
    ("storage.s", "{ memory = {} }"),
    ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
    ("job.loader.tf-queue.decode", "\"0 s\""),
    ("job.model.step", "\"1 s\""),
    ("run.steps", "300"),
    ("job.checkpoint", "{ steps = 50, bytes = \"500 MB\", storage = \"c\" }"),
    (FAILURES, "{ at = [\"180 s\"], restart = \"20 s\", read_back = true }"),
    ("cluster.network.nic", "\"10 GB/s\""),
];
const FAILURES: &str = "job.failures";
const READ_BACK: &str = "job.failures.read_back";

fn run(changes: &[(&str, &str)]) -> JobOutcome {
    let job = simulate(&changed(&[&BASE[..], changes].concat())).jobs.remove(0);
    assert_whole(&job);
    assert_eq!(job.steps.len(), 300);
    job
}

/// Returns the time for which the job was down [s].
fn down(changes: &[(&str, &str)]) -> f64 {
    run(changes).recovery.expect("failures").down_seconds
}

#[test]
fn a_failed_job_reads_its_checkpoint_at_the_bandwidth_of_the_storage() {
    // Expectation: 20 s, and 500 MB at 100 MB/s; without `read_back` only 20 s.
    assert_near(down(&[]), 25.0, 1e-9);
    assert_near(down(&[(READ_BACK, "false")]), 20.0, 1e-9);
    let (with, without) = (run(&[]), run(&[(READ_BACK, "false")]));
    let ends = |job: &JobOutcome| job.steps[299].end;
    assert_near(ends(&with) - ends(&without), 5.0, 1e-9);
}

#[test]
fn each_node_of_replicas_reads_the_whole_checkpoint() {
    // System: two and four nodes with a model copy each. Expectation: they read 500 MB each, and share the server.
    for (nodes, number) in [("2", 2.0), ("4", 4.0)] {
        let found = down(&[("cluster.nodes", nodes), ("job.nodes", nodes)]);
        assert_near(found, 20.0 + number * 5.0, 1e-9);
    }
    // The node's NIC may be the limit.
    assert_near(down(&[("cluster.network.nic", "\"25 MB/s\"")]), 20.0 + 20.0, 1e-9);
}

#[test]
fn replicas_read_the_one_file_that_the_first_node_wrote_from_its_targets() {
    // System: a parallel file system of four targets of 100 MB/s, four replicas on nodes. Expectation: a file on one target
    // is read at 100 MB/s by all four; on all targets at 400 MB/s.
    let of = |stripe: &str| {
        let storage = format!(
            "{{ parallel-fs = {{ targets = 4, target_bandwidth = \"100 MB/s\", stripe_count = {stripe} }} }}"
        );
        down(&[("storage.c", &storage), ("cluster.nodes", "4"), ("job.nodes", "4")])
    };
    assert_near(of("1"), 20.0 + 4.0 * 5.0, 1e-6);
    assert_near(of("4"), 20.0 + 5.0, 1e-6);
}

#[test]
fn a_mean_time_between_failures_may_be_longer_than_any_run() {
    // System: ten years between failures. Expectation: no failure, and no error.
    let rare = "{ mtbf = \"3650 d\", restart = \"20 s\" }";
    assert_eq!(run(&[(FAILURES, rare)]).recovery.expect("checkpoints").failures, 0);
}

#[test]
fn failures_at_the_same_time_read_the_checkpoint_back_once() {
    let twice =
        "{ at = [\"180 s\", \"180.0000000000001 s\"], restart = \"20 s\", read_back = true }";
    assert_near(down(&[(FAILURES, twice)]), 25.0, 1e-9);
}

#[test]
fn nodes_read_only_the_shards_that_their_gpus_hold() {
    // System: two nodes whose GPUs shard all states among each other (ZeRO's stage 3). Expectation: each reads a half.
    let shared = [
        ("cluster.nodes", "2"),
        ("job.nodes", "2"),
        ("job.sync", "{ allreduce = { gradients = \"1 B\" } }"),
        ("job.parallel.zero.stage", "3"),
    ];
    assert_near(down(&shared), 20.0 + 5.0, 1e-6);
}

#[test]
fn parameter_servers_read_the_checkpoint_for_all_replicas() {
    // System: two replicas and a parameter server on a node of its own. Expectation: the server alone reads 500 MB.
    let servers = [
        ("cluster.nodes", "2"),
        ("job.nodes", "2"),
        ("job.sync", "{ parameter-server = { parameters = \"1 B\", servers = 1 } }"),
    ];
    assert_near(down(&servers), 20.0 + 5.0, 1e-6);
    // A server is a client: at most 50 MB/s to read, and 25 MB/s to write.
    let limited = "{ file-server = { bandwidth = \"100 MB/s\", per_client = \"50 MB/s\", write_per_client = \"25 MB/s\" } }";
    let limited = [&servers[..], &[("storage.c", limited)]].concat();
    assert_near(down(&limited), 20.0 + 10.0, 1e-6);
    let of = run(&limited).recovery.expect("checkpoints");
    assert_near(of.writing_seconds / of.checkpoints as f64, 20.0, 1e-6);
}

#[test]
fn a_failure_while_the_checkpoint_is_read_begins_the_restart_again() {
    // System: a second failure after 20 s of restart and 3 s of reading. Expectation: the job is down for these 23 s, and then
    // for 25 s more.
    let twice = "{ at = [\"180 s\", \"203 s\"], restart = \"20 s\", read_back = true }";
    assert_near(down(&[(FAILURES, twice)]), 48.0, 1e-9);
}

#[test]
fn nothing_is_read_before_the_first_checkpoint() {
    let early = "{ at = [\"30 s\"], restart = \"20 s\", read_back = true }";
    assert_near(down(&[(FAILURES, early)]), 20.0, 1e-9);
}

#[test]
fn reading_back_without_checkpoints_is_remarked_as_ineffective() {
    let all = [&BASE[..5], &BASE[6..]].concat();
    let remarks = changed(&all).remarks;
    assert!(remarks.iter().any(|of| of.contains("read_back` has no effect")), "{remarks:?}");
}
