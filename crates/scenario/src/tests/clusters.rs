//! Tests of scenarios that take network, shared storage and nodes from the profile of a cluster.

use super::*;
use crate::storage::Bandwidth;

/// Four nodes: `c` has half of the cores and `d` a NIC of 70 %. The storage gives 400 MB/s, 120 MB/s to one node.
const PROFILE: &str = r#"
[provenance]
machine = "m"
forebay = "0"
date = "2026-01-01"
plan = "cluster"
samples = ""
[host]
cores = 8
memory = 1e10
[network.nic]
samples = 1
residual = 0
parameters.bandwidth = { value = 1e8, unit = "B/s" }
parameters.latency = { value = 5e-5, unit = "s" }
[network.uplink]
samples = 1
residual = 0
parameters.bandwidth = { value = 3e8, unit = "B/s" }
parameters.nodes = { value = 2, unit = "nodes" }
[storage.direct]
samples = 1
residual = 0
parameters.latency = { value = 2e-3, unit = "s" }
parameters.per_stream = { value = 5e7, unit = "B/s" }
parameters.per_client = { value = 1.2e8, unit = "B/s" }
parameters.bandwidth = { value = 4e8, unit = "B/s" }
parameters.operations = { value = 1000, unit = "1/s" }
[storage.write]
samples = 1
residual = 0
parameters.bandwidth = { value = 1.5e8, unit = "B/s" }
[node.a]
cores = 8
memory = 1e10
values = { send = { value = 1e8, unit = "B/s" }, receive = { value = 1e8, unit = "B/s" }, core = { value = 1, unit = "1" } }
[node.b]
cores = 8
memory = 1e10
values = { send = { value = 1e8, unit = "B/s" }, receive = { value = 1e8, unit = "B/s" }, core = { value = 1, unit = "1" } }
[node.c]
cores = 4
memory = 1e10
values = { send = { value = 1e8, unit = "B/s" }, receive = { value = 1e8, unit = "B/s" }, core = { value = 0.8, unit = "1" } }
[node.d]
cores = 8
memory = 1e10
values = { send = { value = 0.7e8, unit = "B/s" }, receive = { value = 1e8, unit = "B/s" }, core = { value = 1, unit = "1" } }
"#;

const SCENARIO: &str = r#"
name = "x"
profile = "p.toml"
run.steps = 10
storage.s.file-server = {}
dataset.d = { samples = 1000, sample_size = "50 kB" }
[cluster]
nodes = 2
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "s"
batch = 8
loader.tf-queue = { threads = 2, capacity = "64 samples" }
model.step = "1 ms"
"#;

fn resolve(changes: &[&str], profile: &str) -> Result<Scenario, String> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("p.toml"), profile).expect("written");
    let path = directory.path().join("a.toml").display().to_string();
    let changes: Result<Vec<_>, _> = changes.iter().map(|change| change.parse()).collect();
    let changes = changes.map_err(|problems: Problems| problems.to_string())?;
    let file = ScenarioFile::parse(&path, SCENARIO.to_owned()).map_err(|all| all.to_string())?;
    file.resolve(&changes).map_err(|problems| problems.to_string())
}

fn right(changes: &[&str]) -> Scenario {
    resolve(changes, PROFILE).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn network_and_shared_storage_are_those_of_the_profile_unless_they_are_written() {
    let scenario = right(&[]);
    let cluster = &scenario.cluster;
    assert_eq!((cluster.nic, cluster.latency, cluster.node.cores), (1e8, 5e-5, 8));
    let racks = cluster.racks.expect("racks");
    assert_eq!((racks.nodes, racks.uplink), (2, 3e8));
    let path = &scenario.storage[0].path;
    assert_eq!((path.per_stream, path.per_client, path.operations), (5e7, 1.2e8, 1000.0));
    assert_eq!(path.bandwidth, Bandwidth::Fixed(4e8));
    // The measured 2 ms include 1 ms for the operation and 0.1 ms on the network.
    assert!((path.latency.mean() - 0.9e-3).abs() < 1e-12, "{:?}", path.latency);
    assert_eq!(scenario.storage[0].tier.expect("a tier").write, Some(1.5e8));
    assert_eq!(scenario.remarks, [""; 0]);
    let written = right(&[
        "cluster.network={ nic = \"1 GB/s\", latency = \"1 us\", racks = { nodes = 1, uplink = \"1 GB/s\" } }",
        "storage.s.file-server={ bandwidth = \"1 GB/s\", per_client = \"2 GB/s\", latency = \"1 ms\", operations = \"7 /s\" }",
    ]);
    let path = &written.storage[0].path;
    assert_eq!((written.cluster.nic, written.cluster.latency), (1e9, 1e-6));
    assert_eq!((path.per_client, path.operations, path.latency.mean()), (2e9, 7.0, 1e-3));
    assert_eq!((path.bandwidth.most(), path.per_stream), (1e9, 5e7));
}

/// System: two nodes whose job reads from shared storage, with and without all-reduce; a profile in which all-reduce beside reads has 18 % of
/// its equal share, or 95 %. Expectation: one remark where both use one NIC and do not share it equally.
#[test]
fn reads_and_collectives_that_do_not_share_a_nic_equally_are_remarked() {
    let of = |rings: f64| {
        format!(
            "[beside]\nsamples = 6\nresidual = 0\nparameters.reads = {{ value = 1.09, unit = \"1\" }}\n\
             parameters.allreduce = {{ value = {rings}, unit = \"1\" }}\n{PROFILE}"
        )
    };
    let remarks = |rings: f64, changes: &[&str]| {
        let scenario = resolve(changes, &of(rings)).unwrap_or_else(|all| panic!("{all}"));
        let said = |remark: &&String| remark.contains("share NICs equally");
        scenario.remarks.iter().filter(said).cloned().collect::<Vec<_>>()
    };
    let sync = "job.sync={ allreduce = { gradients = \"1 MB\" } }";
    let found = remarks(0.18, &[sync]);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("reads have 109 % and all-reduce 18 %"), "{}", found[0]);
    assert_eq!(remarks(0.95, &[sync]), [""; 0]);
    assert_eq!(remarks(0.18, &[]), [""; 0]);
    assert_eq!(remarks(0.18, &[sync, "cluster.network.storage_nic=1 GB/s"]), [""; 0]);
    let local = "storage.s={ local-disk = { bandwidth = \"1 GB/s\" } }";
    assert_eq!(remarks(0.18, &[sync, local]), [""; 0]);
}

#[test]
fn a_parallel_file_system_needs_no_targets_if_the_profile_says_what_all_reach() {
    let parallel = "storage.s={ parallel-fs = {} }";
    let scenario = right(&[parallel]);
    let path = &scenario.storage[0].path;
    assert_eq!((path.bandwidth.most(), path.per_client), (4e8, 1.2e8));
    let targets = path.targets.expect("targets");
    assert_eq!((targets.number, targets.bandwidth), (1, f64::INFINITY));
    let half = resolve(&["storage.s={ parallel-fs = { targets = 4 } }"], PROFILE).unwrap_err();
    assert!(half.contains("target_bandwidth"), "{half}");
    let bare = PROFILE.split("[network.nic]").next().expect("a head");
    let none = resolve(&[parallel], bare).unwrap_err();
    assert!(none.contains("targets"), "{none}");
    let server = resolve(&[], bare).unwrap_err();
    assert!(server.contains("bandwidth"), "{server}");
}

#[test]
fn nodes_by_name_have_cores_speed_and_nic_of_their_own() {
    let scenario = right(&["cluster.nodes=[\"c\", \"a\", \"d\", \"b\"]", "job.nodes=4"]);
    let cluster = &scenario.cluster;
    assert_eq!((cluster.nodes, cluster.groups.len()), (4, 2));
    assert_eq!((cluster.node.cores, cluster.nic), (8, 1e8));
    let [c, d] = &cluster.groups[..] else { panic!("two groups") };
    assert_eq!((c.name.as_str(), c.nodes, c.node.cores, c.nic), ("c", 1, 4, 1e8));
    assert_eq!(c.node.core_speed, [0.8]);
    assert_eq!((d.name.as_str(), d.node.cores, d.nic), ("d", 8, 0.7e8));
    let written = right(&[
        "cluster.nodes=[\"c\", \"a\"]",
        "cluster.node.cores=16",
        "cluster.network.nic=1 GB/s",
    ]);
    assert!(written.cluster.groups.iter().all(|group| group.node.cores == 16 && group.nic == 1e9));
    // Only unlike nodes: the first one's hardware is that of the first nodes.
    let only = right(&["cluster.nodes=[\"d\"]", "job.nodes=1"]);
    assert_eq!((only.cluster.nodes, only.cluster.nic, only.cluster.groups.len()), (1, 0.7e8, 0));
}

#[test]
fn unknown_names_and_names_without_a_profile_of_a_cluster_are_refused() {
    let refused = |value: &str| resolve(&[&format!("cluster.nodes={value}")], PROFILE).unwrap_err();
    let unknown = refused("[\"a\", \"z\"]");
    assert!(unknown.contains("no node \"z\""), "{unknown}");
    assert!(refused("[\"a\", \"a\"]").contains("named twice"));
    assert!(refused("[]").contains("names no node"));
    assert!(refused("\"a\"").contains("a list of names"));
    let bare = PROFILE.split("[network.nic]").next().expect("a head");
    let other = ["cluster.nodes=[\"a\", \"b\"]", "storage.s.file-server.bandwidth=1 GB/s"];
    let other = resolve(&other, bare).unwrap_err();
    assert!(other.contains("only in the profile of a cluster"), "{other}");
}

#[test]
fn a_profile_with_impossible_nodes_or_storage_is_refused() {
    for (from, to, what) in [
        ("send = { value = 0.7e8", "send = { value = -1", "negative"),
        ("core = { value = 0.8, unit = \"1\"", "core = { value = 0.8, unit = \"s\"", "unit"),
        ("[node.d]\ncores = 8", "[node.d]\ncores = nan", "not a number"),
        ("parameters.per_client", "parameters.per_clown", "per_client"),
        (
            "parameters.nodes = { value = 2, unit = \"nodes\" }",
            "parameters.nodes = { value = 2, unit = \"B\" }",
            "unit",
        ),
    ] {
        assert!(PROFILE.contains(from), "{from}");
        let message = resolve(&[], &PROFILE.replacen(from, to, 1)).unwrap_err();
        assert!(message.contains(what), "{to}: {message}");
    }
}
