//! GPUs at switches below a root: which transfers share which links.

use super::runs::{near, simulate, written};
use forebay::report::Outcome;
use forebay::scenario::ScenarioFile;

/// Returns four GPUs of a node, two at each switch, that reduce 100 MB after steps of 100 ms.
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

/// Returns the time that gradients add to a step [s].
fn added(intra: &str, sync: &str) -> f64 {
    let steps = &run(intra, sync).jobs[0].steps;
    (steps[3].end - steps[0].end) / 3.0 - 0.1
}

#[test]
fn a_ring_over_two_pcie_switches_crosses_the_root_complex_twice() {
    // System: a ring of four, 6 messages of 25 MB, GPUs in order below their switches. Expectation: 15 ms at 10
    // GB/s; two of its four transfers cross the root, one out of each switch: with uplinks of 5 GB/s, or a root
    // of 10 GB/s for both, twice the time; below one switch the root does not matter; with a switch for each
    // GPU all four transfers cross it.
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
    // Three GPUs at the first switch, one at the second: two transfers cross as well.
    near(ring("switch = 3, uplink = \"5 GB/s\""), 0.03, "uneven switches");
}

#[test]
fn exchanges_below_one_pcie_switch_do_not_use_the_root_complex() {
    // System: recursive doubling: pairs below the same switch exchange 100 MB, then pairs across. Expectation:
    // the first exchange takes 10 ms, whatever the root; in the second, two transfers share each uplink, and
    // four the root.
    let pairs = |intra: &str| added(intra, "algorithm = \"recursive-doubling\"");
    near(pairs("switch = 2"), 0.01 + 0.02, "two share an uplink");
    near(pairs("switch = 2, uplink = \"20 GB/s\""), 0.01 + 0.01, "wide uplinks");
    near(pairs("switch = 2, root = \"10 GB/s\""), 0.01 + 0.04, "four share the root");
    near(pairs("switch = 4, root = \"10 GB/s\""), 0.02, "below one switch");
}

#[test]
fn bytes_across_the_pcie_root_complex_are_accounted_for() {
    // System: four steps of a ring of four. Expectation: each rank sends 150 MB in a step; two of the ranks
    // send across the root.
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
fn switch_settings_are_required_in_a_pcie_tree_and_ineffective_elsewhere() {
    let file = ScenarioFile::parse("x.toml", text("latency = \"0 s\"", ""));
    let problems = file.and_then(|file| file.resolve(&[])).expect_err("no switch").to_string();
    assert!(problems.contains("the key `switch` is missing"), "{problems}");
    let keys = "switch = 2, uplink = \"1 GB/s\", root = \"1 GB/s\", nics = \"root\"";
    let other = text(keys, "");
    let remarks = written(&other.replace("\"tree\"", "\"switch\""), &[]).remarks.join("\n");
    for key in ["switch", "uplink", "root", "nics"] {
        assert!(remarks.contains(&format!("intra.{key}` has no effect")), "{key}: {remarks}");
    }
}

#[test]
fn traffic_to_other_nodes_crosses_pcie_uplinks_if_nics_are_at_the_pcie_root() {
    // System: two nodes of a GPU that exchange 100 MB by recursive doubling over NICs of 10 GB/s, ports of 10
    // GB/s, uplinks of 5 GB/s, and a root of 4 GB/s for both directions. Expectation: 10 ms with NICs outside
    // the tree or at switches; with NICs at the root 20 ms over uplinks, or 50 ms over the root. Two GPUs on
    // each node, of which only one sends to the other node, take the same time, plus the reductions inside
    // nodes before and after.
    let two = |keys: &str, copies: u32, sync: &str| {
        let text = text(keys, sync)
            .replace("nodes = 1\n", "nodes = 2\nnetwork.nic = \"10 GB/s\"\n")
            .replace("name = \"j\"", "name = \"j\"\nnodes = 2")
            .replace("copies_per_node = 4", &format!("copies_per_node = {copies}"));
        let outcome = simulate(&written(&text, &[]));
        let steps = &outcome.jobs[0].steps;
        ((steps[3].end - steps[0].end) / 3.0 - 0.1, outcome)
    };
    let uplink = "switch = 2, uplink = \"5 GB/s\", nics = ";
    let root = "switch = 2, uplink = \"20 GB/s\", root = \"4 GB/s\", nics = ";
    for fidelity in ["flow", "analytic"] {
        let sync = format!("algorithm = \"recursive-doubling\"\nfidelity = \"{fidelity}\"");
        for (keys, nics, expected) in [
            (uplink, "apart", 0.01),
            (uplink, "switches", 0.01),
            (uplink, "root", 0.02),
            (root, "switches", 0.01),
            (root, "root", 0.05),
        ] {
            let (found, _) = two(&format!("{keys}\"{nics}\""), 1, &sync);
            near(found, expected, &format!("{fidelity}: {keys}{nics}"));
        }
    }
    // With NICs at switches, traffic to other nodes passes the GPU's port: slow ports are the bottleneck.
    let thin = |nics: &str| {
        let keys = format!("switch = 2, nics = \"{nics}\"");
        let text = text(&keys, "algorithm = \"ring\"").replace("\"10 GB/s\"", "\"2 GB/s\"");
        let text = text
            .replace("nodes = 1\n", "nodes = 2\nnetwork.nic = \"10 GB/s\"\n")
            .replace("name = \"j\"", "name = \"j\"\nnodes = 2")
            .replace("copies_per_node = 4", "copies_per_node = 1");
        let steps = simulate(&written(&text, &[])).jobs.remove(0).steps;
        (steps[3].end - steps[0].end) / 3.0 - 0.1
    };
    near(thin("apart"), 0.01, "ring of two, apart");
    near(thin("switches"), 0.05, "ring of two, through thin ports");
    // All bytes that nodes send go up once, and down once on the other node.
    let (_, found) = two(&format!("{uplink}\"root\""), 1, "algorithm = \"recursive-doubling\"");
    let served = |name: &str| {
        found.resources.iter().filter(|r| r.name == name).map(|r| r.served).sum::<f64>()
    };
    for name in ["node.intra", "node.intra.up", "node.intra.down", "node.intra.in"] {
        near(served(name), 2.0 * 4.0 * 100e6, name);
    }
}

/// Returns the outcome of two jobs on a node, the second of which reduces 100 MB around a ring of `copies` GPUs
/// and has the other keys `keys`.
fn beside(first: &str, copies: u32, keys: &str) -> Outcome {
    let text = text("switch = 2, root = \"2 GB/s\"", "")
        .replace("nodes = 1\n", "nodes = 1\nshare_nodes = true\n");
    let job = text.find("[[job]]").expect("a job");
    let sync = text.find("[job.sync").expect("gradients");
    let second = text[job..]
        .replace("name = \"j\"", &format!("name = \"k\"\n{keys}"))
        .replace("copies_per_node = 4", &format!("copies_per_node = {copies}"));
    let first = text[..sync].replace("parallel.data.copies_per_node = 4", first);
    simulate(&written(&(first + &second + "algorithm = \"ring\"\n"), &[]))
}

#[test]
fn each_job_gets_the_first_gpus_that_are_free_at_its_start() {
    // System: rings of two beside a job of three model copies, after it, and beside one copy of two stages;
    // below one switch they take 10 ms, and 50 ms over a root of 2 GB/s for both directions. Expectation: GPUs
    // 3 and then 0 are at two switches; 0 and 1, and 2 and 3, are at one switch.
    let last = |outcome: &Outcome| {
        let steps = &outcome.jobs[1].steps;
        (steps[3].end - steps[0].end) / 3.0 - 0.1
    };
    let three = "parallel.data.copies_per_node = 3";
    near(last(&beside(three, 2, "")), 0.1, "beside three");
    near(last(&beside(three, 2, "after = [\"j\"]")), 0.01, "after three");
    near(last(&beside("parallel.pipeline.stages = 2", 2, "")), 0.01, "beside two stages");
    // System: a ring of four beside a job of three. Expectation: it gets GPU 3 and then 0, 1 and 2, at the same
    // two switches.
    let four = beside(three, 4, "");
    let up = four.resources.iter().find(|r| r.name == "node.intra.up").expect("uplinks");
    assert_eq!(up.count, 2);
}
