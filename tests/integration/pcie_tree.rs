//! GPUs at switches below a root: who shares what.

use super::runs::{simulate, written};
use forebay::report::Outcome;
use forebay::scenario::ScenarioFile;

/// Four GPUs of a node, two at each switch, that add 100 MB up after steps of 100 ms.
fn text(intra: &str, sync: &str) -> String {
    format!(
        r#"# What does a tree cost?
name = "tree"
[run]
steps = 4
warm_up = "off"
[cluster]
nodes = 1
node = {{ cores = 1, gpus = 4, intra = {{ kind = "tree", bandwidth = "10 GB/s", {intra} }} }}
[storage.memory.memory]
[dataset.d]
samples = 100000
sample_size = "1 kB"
[[job]]
name = "j"
dataset = "d"
storage = "memory"
batch = 8
model.step = "100 ms"
parallel.data.copies_per_node = 4
loader.in-memory = {{}}
[job.sync.allreduce]
gradients = "100 MB"
{sync}
"#
    )
}

fn run(intra: &str, sync: &str) -> Outcome {
    simulate(&written(&text(intra, sync), &[]))
}

/// What gradients add to a step [s].
fn added(intra: &str, sync: &str) -> f64 {
    let steps = &run(intra, sync).jobs[0].steps;
    (steps[3].end - steps[0].end) / 3.0 - 0.1
}

fn near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 1e-6, "{what}: {found}, not {expected}");
}

#[test]
fn a_ring_goes_along_the_switches_and_crosses_the_root_twice() {
    // System: a ring of four, 6 parts of 25 MB, GPUs in order below their switches. Expectation: 15 ms at 10 GB/s;
    // two of its four ways cross the root, one out of each switch: uplinks of 5 GB/s, or a root of 10 GB/s
    // for both, double that; below one switch the root does not matter; with a switch for each GPU all four
    // cross it.
    let ring = |intra: &str| {
        let found = ["flow", "analytic"].map(|fidelity| {
            added(intra, &format!("algorithm = \"ring\"\nfidelity = \"{fidelity}\""))
        });
        near(found[0], found[1], intra);
        found[0]
    };
    near(ring("switch = 2"), 0.015, "as by one switch");
    near(ring("switch = 2, uplink = \"5 GB/s\""), 0.03, "over thin uplinks");
    near(ring("switch = 2, root = \"10 GB/s\""), 0.03, "through a shared root");
    near(ring("switch = 4, root = \"1 GB/s\""), 0.015, "below one switch");
    near(ring("switch = 1, root = \"10 GB/s\""), 0.06, "a switch for each");
    // Three at the first switch, one at the second: two ways cross as well.
    near(ring("switch = 3, uplink = \"5 GB/s\""), 0.03, "uneven switches");
}

#[test]
fn pairs_below_one_switch_do_not_meet_others() {
    // System: recursive doubling: pairs below the same switch exchange 100 MB, then pairs across. Expectation: the
    // first take 10 ms however busy the root could be; then two transfers share each uplink, and four the
    // root.
    let pairs = |intra: &str| added(intra, "algorithm = \"recursive-doubling\"");
    near(pairs("switch = 2"), 0.01 + 0.02, "two share an uplink");
    near(pairs("switch = 2, uplink = \"20 GB/s\""), 0.01 + 0.01, "wide uplinks");
    near(pairs("switch = 2, root = \"10 GB/s\""), 0.01 + 0.04, "four share the root");
    near(pairs("switch = 4, root = \"10 GB/s\""), 0.02, "below one switch");
}

#[test]
fn what_crosses_the_root_is_accounted_for() {
    // System: four steps of a ring of four. Expectation: each rank sends 150 MB in a step; two of them across.
    let outcome = run("switch = 2, root = \"10 GB/s\"", "algorithm = \"ring\"");
    let served = |name: &str| {
        outcome.resources.iter().filter(|r| r.name == name).map(|r| r.served).sum::<f64>()
    };
    near(served("node.intra"), 4.0 * 4.0 * 150e6, "out of GPUs");
    near(served("node.intra.root"), 4.0 * 2.0 * 150e6, "across the root");
    near(served("node.intra.up"), 4.0 * 2.0 * 150e6, "up");
    near(served("node.intra.down"), 4.0 * 2.0 * 150e6, "down");
}

#[test]
fn a_tree_says_its_switches_and_others_have_none() {
    let file = ScenarioFile::parse("x.toml", text("latency = \"0 s\"", ""));
    let problems = file.and_then(|file| file.resolve(&[])).expect_err("no switch").to_string();
    assert!(problems.contains("the key `switch` is missing"), "{problems}");
    let other = text("switch = 2, uplink = \"1 GB/s\", root = \"1 GB/s\"", "");
    let remarks = written(&other.replace("\"tree\"", "\"switch\""), &[]).remarks.join("\n");
    for key in ["switch", "uplink", "root"] {
        assert!(remarks.contains(&format!("intra.{key}` has no effect")), "{key}: {remarks}");
    }
}
