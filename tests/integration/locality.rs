//! Data sets that are distributed over nodes: local reads, and the cost of remote reads.

use forebay::report::Cause;
use forebay::report::{JobOutcome, Outcome, StallCause, summarise, text};
use forebay::scenario::ScenarioFile;

use super::kept::{SHARDS, assert_near, reader, served};
use super::runs::{simulate, written};

/// 4,000 files of 100 kB, or shards of 50 samples, on the disks of four nodes, for a trainer whose steps take
/// no time.
const MACHINE: &str = r#"
[cluster]
nodes = 4
[cluster.node]
cores = 8
[cluster.network]
nic = "10 GB/s"
[storage.nvme.local-disk]
bandwidth = "1 GB/s"
capacity = "1 GB"
"#;

fn scenario() -> String {
    let job = "storage = \"nvme\"\nnodes = 4\nreplicas = 1";
    reader(5, MACHINE, (4000, "100 kB"), job)
}

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&written(&scenario(), changes))
}

fn share(job: &JobOutcome) -> f64 {
    job.local.own / (job.local.own + job.local.peers)
}

const LOCAL: (&str, &str) = ("job.sampler", "\"local\"");

#[test]
fn random_reads_are_local_in_proportion_to_the_replicas() {
    // System: r of four nodes have each file, or shard. Expectation: r ÷ 4 of the bytes are read locally with
    // random sampling (20,000 reads: ± 0.01; 400 of shards: ± 0.06), all of them with the local sampler.
    for (replicas, expected) in [("1", 0.25), ("2", 0.5), ("3", 0.75)] {
        let replicas = ("job.replicas", replicas);
        for (layout, tolerance) in [(None, 0.01), (Some(SHARDS), 0.06)] {
            let changes: Vec<_> = [replicas].into_iter().chain(layout).collect();
            let random = outcome(&changes).jobs.remove(0);
            assert_near("random", share(&random), expected, tolerance);
            let aware = outcome(&[&changes[..], &[LOCAL]].concat()).jobs.remove(0);
            assert_near("aware", share(&aware), 1.0, 0.0);
        }
    }
    // Two loaders on a node split the node's files.
    let ranks = ("job.parallel.data", "{ copies_per_node = 2, loaders = \"per-rank\" }");
    let changes = [ranks, LOCAL, ("cluster.node.gpus", "2"), ("job.replicas", "2")];
    assert_near("two loaders", share(&outcome(&changes).jobs[0]), 1.0, 0.0);
}

#[test]
fn remote_reads_cross_two_nics_and_local_reads_none() {
    // System: five epochs of 400 MB. Expectation: disks serve all bytes, NICs only those that nodes lack, as
    // reported; only a few files are read beyond the last epoch.
    for (sampler, replicas) in [("strided", "1"), ("strided", "2"), ("local", "1"), ("local", "3")]
    {
        let sampler = format!("\"{sampler}\"");
        let changes = [("job.sampler", sampler.as_str()), ("job.replicas", replicas)];
        let found = outcome(&changes);
        let of = found.jobs[0].local;
        assert_near("all", of.own + of.peers, 5.0 * 400e6, 4e5);
        assert_near("disks", served(&found, "nvme.bandwidth"), of.own + of.peers, 4e5);
        assert_near("out", served(&found, "node.nic.out"), of.peers, 4e5);
        assert_near("in", served(&found, "node.nic"), of.peers, 4e5);
        assert_eq!(found, outcome(&changes), "the same seed, the same outcome");
    }
}

#[test]
fn with_slow_nics_local_sampling_is_faster_than_random_sampling() {
    // System: NICs of 50 MB/s, disks of 1 GB/s; an epoch is 100 MB for each node. Expectation: with local reads
    // an epoch takes 0.1 s; at random, three quarters of it cross the NIC, 1.5 s, or half of it with two
    // replicas, 1 s; up to half as much longer, because at any time some NIC serves several nodes.
    let nic = ("cluster.network.nic", "\"50 MB/s\"");
    let threads = ("job.loader.tf-queue.threads", "8");
    let epoch =
        |changes: &[(&str, &str)]| outcome(&[&[nic, threads], changes].concat()).makespan / 5.0;
    assert_near("local", epoch(&[LOCAL]), 0.1, 0.01);
    let (one, two) = (epoch(&[]), epoch(&[("job.replicas", "2")]));
    assert!((1.45..2.25).contains(&one), "{one}");
    assert!((0.95..1.5).contains(&two), "{two}");
    let all = epoch(&[("job.replicas", "4")]);
    assert_near("all of it on each node", all, 0.1, 0.01);
}

#[test]
fn remote_reads_and_gradients_share_the_nics() {
    // System: steps that reduce 20 MB of gradients over NICs of 100 MB/s while the next batches are read.
    // Expectation: with local reads gradients have the NICs to themselves, 2 · ¾ · 20 MB: 300 ms a step; remote
    // reads take their share of the NIC, which carries no more than its bandwidth.
    let changes = [
        ("cluster.network.nic", "\"100 MB/s\""),
        ("job.loader.tf-queue.threads", "8"),
        ("job.batch", "100"),
        ("job.loader.tf-queue.capacity", "\"400 samples\""),
        ("job.sync", r#"{ allreduce = { gradients = "20 MB", algorithm = "ring" } }"#),
    ];
    let of = |more: &[(&str, &str)]| outcome(&[&changes[..], more].concat());
    let (local, remote) = (of(&[LOCAL]), of(&[]));
    let step = |found: &Outcome| found.makespan / found.jobs[0].steps.len() as f64;
    assert_near("alone", step(&local), 0.3, 0.003);
    let bytes = 30e6 + 0.75 * 100.0 * 1e5;
    assert!(step(&remote) >= 0.99 * bytes / 100e6, "{}", step(&remote));
    assert!(step(&remote) > 1.15 * step(&local), "{}", step(&remote));
    let waits = |found: &Outcome| {
        let of = found.jobs[0].stalls.iter();
        let of = of.filter(|stall| stall.cause == StallCause::own(Cause::Communication));
        of.map(|stall| stall.seconds).sum::<f64>()
    };
    assert!(waits(&remote) > 1.05 * waits(&local), "{} {}", waits(&remote), waits(&local));
}

#[test]
fn staging_copies_the_specified_number_of_data_set_replicas_to_nodes() {
    // System: the data set comes from a server, from which each node copies its part. Expectation: r quarters
    // of it to each node, and reads as with parts that were there from the start.
    let server = ("storage.blob", "{ file-server = { bandwidth = \"1 GB/s\" } }");
    let stage = ("job.copy", "{ to = \"nvme\", share = \"part\", streams = 8 }");
    for (replicas, bytes) in [("1", 100e6), ("2", 200e6), ("3", 300e6)] {
        let changes =
            [server, stage, ("job.storage", "\"blob\""), ("job.replicas", replicas), LOCAL];
        let found = outcome(&changes);
        for node in &found.jobs[0].staging {
            assert_near("part", node.bytes, bytes, 1.0);
        }
        assert_near("local", share(&found.jobs[0]), 1.0, 0.0);
        let random = outcome(&changes[..4]);
        assert_near("random", share(&random.jobs[0]), bytes / 400e6, 0.01);
    }
}

#[test]
fn reports_state_the_share_of_local_reads() {
    let of = |changes: &[(&str, &str)]| {
        let scenario = written(&scenario(), changes);
        summarise(&scenario, &[simulate(&scenario)], 0.0)
    };
    let report = of(&[LOCAL]);
    let share = report.jobs[0].local_share.and_then(|share| share.mean).expect("a share");
    assert_near("share", share, 1.0, 0.0);
    let page = text::render(&report, 200, false);
    assert!(page.contains("Nodes of `j` had 100.0 % of the bytes that they read"), "{page}");
    assert!(of(&[("job.replicas", "4")]).jobs[0].local_share.is_none());
}

#[test]
fn invalid_replica_settings_are_refused() {
    let file = ScenarioFile::parse("test.toml", scenario()).expect("a scenario");
    let server = "storage.blob={ file-server = { bandwidth = \"1 GB/s\" } }";
    for (sets, says) in [
        (&["job.replicas=5"][..], "a file cannot be on 5 of 4 nodes"),
        (&["job.replicas=4", "job.sampler=\"local\""], "every node has every file"),
        (&[server, "job.storage=\"blob\""], "\"blob\" is shared by all nodes"),
        (
            &[server, "job.storage=\"blob\"", "job.copy={ to = \"nvme\" }"],
            "each node copies the whole data set",
        ),
        (&["job.replicas=3", "storage.nvme.local-disk.capacity=\"250 MB\""], "do not fit"),
        (
            &[
                "job.sampler=\"local\"",
                "cluster.node.gpus=2",
                "job.parallel.data={ copies_per_node = [1, 2, 1, 1], loaders = \"per-rank\" }",
            ],
            "would read more than their own files",
        ),
        (&["dataset.d.layout={ raw = {} }"], "need files or shards"),
    ] {
        let sets: Vec<_> = sets.iter().map(|set| set.parse().expect("an override")).collect();
        let problems = file.resolve(&sets).expect_err(says);
        assert!(problems.to_string().contains(says), "{says}: {problems}");
    }
    let whole = written(&scenario(), &[("job.replicas", "4")]);
    let remarks = whole.remarks.join("\n");
    assert!(remarks.contains("replicas` has no effect: every node has every file"), "{remarks}");
}
