//! Cases about faults of single nodes, and about checkpoints that job copies write together.

use forebay::report::Verdict;

use crate::runs::written;
use crate::verdicts::judged;

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 0.01, "{what}: {found}, not {expected}");
}

/// Four nodes whose NICs are nearly fast enough for 64 samples of 100 kB each 11 ms.
const READING: &str = r#"
name = "f"
run = { steps = 200, replications = 1, seed = 1 }
cluster = { nodes = 4, node = { cores = 16, gpus = 1, page_cache = "none" }, network.nic = "1 GB/s" }
storage.nfs.file-server = { bandwidth = "100 GB/s" }
dataset.d = { samples = 10_000_000, sample_size = "100 kB" }
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "nfs"
batch = 64
loader.pytorch = { workers = 16, decode = "1 ms" }
model.step = "11 ms"
"#;

fn needs(verdict: &Verdict) -> Vec<(String, f64)> {
    verdict.needs.iter().map(|need| (need.resource.clone(), need.needed)).collect()
}

#[test]
fn needs_beside_faults_of_several_nodes_are_those_of_the_slowest_node() {
    // System: 582 MB/s are needed, and NICs at half of 1 GB/s give 500 MB/s. Expectation: twice the bare need, whether one node or
    // two are slow, and four times if both faults are of one node.
    let need = |nodes: [u32; 2]| {
        let one = |node: u32| format!("{{ link = \"nic\", nodes = [{node}], factor = 0.5 }}");
        let faults = format!("[{}, {}]", one(nodes[0]), one(nodes[1]));
        let (_, verdict) = judged(&written(READING, &[("fault", &faults)]));
        let found = needs(&verdict).into_iter().find(|(resource, _)| resource == "node.nic");
        found.unwrap_or_else(|| panic!("{}", verdict.text)).1
    };
    let bare = 64.0 * 100e3 / 11e-3;
    near(need([0, 1]), 2.0 * bare, "two nodes");
    near(need([0, 0]), 4.0 * bare, "one node");
}

#[test]
fn faults_of_nodes_that_a_job_is_not_on_do_not_change_its_verdict() {
    // System: too few workers on nodes 0 and 1; the NIC of node 3 has a tenth of its speed. Expectation: the verdict without it.
    let changes =
        [("job.nodes", "2"), ("job.loader.pytorch.workers", "4"), ("cluster.node.cores", "8")];
    let of =
        |fault: &str| judged(&written(READING, &[&changes[..], &[("fault", fault)]].concat())).1;
    let healthy = of("[]");
    let faulty = of("[{ link = \"nic\", nodes = [3], factor = 0.1 }]");
    assert!(healthy.text.contains("workers"), "{}", healthy.text);
    assert_eq!(faulty.text, healthy.text);
    assert_eq!(needs(&faulty), needs(&healthy));
}

/// Four copies of a job that write checkpoints to one server at the same times.
const TOGETHER: &str = r#"
name = "k"
run = { steps = 1200, replications = 1, seed = 1 }
cluster = { nodes = 4, node = { cores = 8, gpus = 1 }, network.nic = "10 GB/s" }
storage.ram.memory = {}
storage.scratch.file-server = { bandwidth = "1 GB/s" }
dataset.d = { samples = 10_000_000, sample_size = "8 kB" }
[[job]]
name = "j"
copies = 4
dataset = "d"
storage = "ram"
batch = 16
loader.in-memory = {}
model.step = "1 s"
checkpoint = { interval = "60 s", bytes = "5 GB", storage = "scratch" }
"#;

#[test]
fn checkpoints_that_do_not_fit_one_after_another_are_not_said_to_cease_to_wait() {
    // System: four copies write every 60 s, at 1 GB/s together. Expectation: 5 GB each, 20 s in all, fit into the interval; 60 GB
    // each, 240 s in all, do not at any start times.
    let text = |bytes: &str| judged(&written(TOGETHER, &[("job.checkpoint.bytes", bytes)])).1.text;
    let (fit, not) = (text("5 GB"), text("60 GB"));
    let promise = "started at other times, they would not wait for each other";
    assert!(fit.contains(promise), "{fit}");
    assert!(not.contains("write theirs to `scratch`") && !not.contains(promise), "{not}");
    let lasting = "even one after another, they would not fit into their intervals";
    assert!(not.contains(lasting) && !fit.contains(lasting), "{not}\n{fit}");
}

#[test]
fn start_times_that_spread_checkpoints_are_not_a_factor() {
    let (_, verdict) = judged(&written(TOGETHER, &[]));
    let factor = |lever: &str| {
        let limit = verdict.limits.iter().find(|limit| limit.lever == lever);
        limit.unwrap_or_else(|| panic!("{lever}: {}", verdict.text)).factor
    };
    assert_eq!(factor("checkpoint-stagger"), None);
    assert_eq!(factor("bandwidth"), Some(2.0));
}
