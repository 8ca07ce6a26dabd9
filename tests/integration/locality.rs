//! Data sets of which each node has a part: what is read where it lies, and what the rest costs.

use forebay::report::Cause;
use forebay::report::{JobOutcome, Outcome, StallCause, summarise, text};
use forebay::scenario::ScenarioFile;

use super::kept::{SHARDS, assert_near, reader, served};
use super::runs::{simulate, written};

/// 4,000 files of 100 kB, or shards of 50, on the disks of four nodes, for a trainer that needs no time.
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
fn random_reads_are_local_as_often_as_a_node_has_a_file() {
    // System: r of four nodes have each file, or shard. Expectation: r ÷ 4 of the bytes are read locally where
    // who reads what is random (20,000 reads: ± 0.01; 400 of shards: ± 0.06), all of them where it is chosen.
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
    // Two loaders a node share out what lies on it.
    let ranks = ("job.parallel.data", "{ copies_per_node = 2, loaders = \"per-rank\" }");
    let changes = [ranks, LOCAL, ("cluster.node.gpus", "2"), ("job.replicas", "2")];
    assert_near("two loaders", share(&outcome(&changes).jobs[0]), 1.0, 0.0);
}

#[test]
fn each_byte_comes_from_a_disk_and_what_is_remote_over_two_nics() {
    // System: five epochs of 400 MB. Expectation: the disks give all of it, NICs what nodes do not have, as
    // the report says; what is read past the last epoch is a few files.
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
fn nics_that_bind_make_local_reads_worth_it() {
    // System: NICs of 50 MB/s, disks of 1 GB/s; an epoch is 100 MB a node. Expectation: read where it lies, an
    // epoch takes 0.1 s; at random three quarters of it pass the NIC, 1.5 s, or a half with two replicas: 1 s;
    // not more than half as much again, because at any time some NIC gives to several nodes.
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
    // System: steps that add up 20 MB of gradients over NICs of 100 MB/s while the next batches are read.
    // Expectation: with local reads gradients have the NICs to themselves, 2 · ¾ · 20 MB: 300 ms a step; remote
    // reads take their part, and the NIC carries no more than it can.
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
fn parts_that_are_copied_have_replicas_too() {
    // System: the data set comes from a server, of which each node copies what it is to have. Expectation: r
    // quarters of it to each node, and reads as of parts that lie there.
    let server = ("storage.blob", "{ file-server = { bandwidth = \"1 GB/s\" } }");
    let stage = ("job.stage", "{ to = \"nvme\", share = \"part\", streams = 8 }");
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
fn reports_say_how_much_was_local() {
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
fn what_cannot_be_is_refused() {
    let file = ScenarioFile::parse("test.toml", scenario()).expect("a scenario");
    let server = "storage.blob={ file-server = { bandwidth = \"1 GB/s\" } }";
    for (sets, says) in [
        (&["job.replicas=5"][..], "a file cannot be on 5 of 4 nodes"),
        (&["job.replicas=4", "job.sampler=\"local\""], "every node has every file"),
        (&[server, "job.storage=\"blob\""], "\"blob\" is not in the nodes"),
        (
            &[server, "job.storage=\"blob\"", "job.stage={ to = \"nvme\" }"],
            "each node copies all of the data set",
        ),
        (&["job.replicas=3", "storage.nvme.local-disk.capacity=\"250 MB\""], "do not fit"),
        (
            &[
                "job.sampler=\"local\"",
                "cluster.node.gpus=2",
                "job.parallel.data={ copies_per_node = [1, 2, 1, 1], loaders = \"per-rank\" }",
            ],
            "nodes with more model copies read more than lies on them",
        ),
        (&["dataset.d.layout={ raw = {} }"], "hold files and shards"),
    ] {
        let sets: Vec<_> = sets.iter().map(|set| set.parse().expect("an override")).collect();
        let problems = file.resolve(&sets).expect_err(says);
        assert!(problems.to_string().contains(says), "{says}: {problems}");
    }
    let whole = written(&scenario(), &[("job.replicas", "4")]);
    let remarks = whole.remarks.join("\n");
    assert!(remarks.contains("replicas` has no effect: every node has every file"), "{remarks}");
}
