//! The PCIe link between a node's memory and its GPU: batches and gradients that pass through the host share
//! it.

use super::runs::{near, simulate, step, written};
use forebay::report::{JobOutcome, summarise};

/// Returns two nodes whose GPUs reduce 100 MB around a ring, over fast NICs and PCIe of 1 GB/s, while one
/// thread always copies samples of 10 MB to the GPU for `duration`.
fn text(transport: &str, duration: &str) -> String {
    format!(
        r#"# Do batches and gradients share PCIe?
name = "pcie"
[run]
duration = "{duration}"
warm_up = "off"
[cluster]
nodes = 2
node = {{ cores = 8, gpus = 2, pcie = "1 GB/s" }}
network = {{ nic = "100 GB/s", latency = "0 s" }}
[storage.memory.memory]
[dataset.d]
samples = 100000
sample_size = "10 MB"
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "memory"
batch = 100
prefill = "full"
model.step = "1 us"
[job.loader]
stages = [
  {{ name = "read", workers = 2, per_sample = ["read"], buffer = 4 }},
  {{ name = "copy", workers = 1, per_item = ["copy"], buffer = 100000000 }},
]
[job.sync.allreduce]
gradients = "100 MB"
algorithm = "ring"
transport.{transport} = {{ latency = "0 s" }}
"#
    )
}

fn run(text: &str) -> Vec<JobOutcome> {
    simulate(&written(text, &[])).jobs
}

#[test]
fn batches_and_gradients_share_the_pcie_link_into_a_gpu() {
    // System: two phases with 50 MB from the host into each GPU, and as many out of it. Expectation: alone 50
    // ms for each phase; beside a copy they get half of the link into the GPU, 100 ms for each phase, and the
    // free direction out of the GPU does not matter: as one link for both directions, three transfers would
    // share it. The link into the GPU is always full, so that copies get the rest. With GPU-to-GPU transport,
    // gradients do not use this link.
    let job = run(&text("tcp", "20 s")).remove(0);
    near(step(&job), 0.2 + 1e-6, "beside copies");
    let last = &job.steps[job.steps.len() - 1];
    let copied = last.queue.enqueued as f64 / 2.0 * 10e6;
    let moved = copied + 100e6 * job.steps.len() as f64;
    assert!((moved / 1e9 - last.end).abs() < 11e-3, "{moved} B in {} s", last.end);
    let idle = text("tcp", "20 s").replace("per_item = [\"copy\"]", "per_item = []");
    near(step(&run(&idle)[0]), 0.1 + 1e-6, "without copies");
    near(step(&run(&text("nccl", "20 s"))[0]), 2.0 * 50e6 / 100e9 + 1e-6, "from GPU to GPU");
}

#[test]
fn each_gpu_has_a_pcie_link_of_its_own() {
    // System: two jobs on the same nodes, each on a GPU of its own, one of which copies and the other reduces
    // gradients. Expectation: neither slows the other.
    let first =
        text("nccl", "20 s").replace("nodes = 2\nnode", "nodes = 2\nshare_nodes = true\nnode");
    let whole = text("tcp", "20 s");
    let second = whole[whole.find("[[job]]").expect("a job")..]
        .replace("name = \"j\"", "name = \"k\"")
        .replace("per_item = [\"copy\"]", "per_item = []");
    let jobs = run(&(first + &second));
    near(step(&jobs[1]), 0.1 + 1e-6, "gradients");
    let last = &jobs[0].steps[jobs[0].steps.len() - 1];
    let copied = last.queue.enqueued as f64 / 2.0 * 10e6;
    assert!((copied / 1e9 - last.end).abs() < 11e-3, "{copied} B in {} s", last.end);
}

#[test]
fn a_pcie_link_used_only_by_gradients_is_not_reported_as_ineffective() {
    let warned = |transport: &str| {
        let whole = text(transport, "1 s").replace("per_item = [\"copy\"]", "per_item = []");
        let scenario = written(&whole, &[]);
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        report.warnings.iter().any(|warning| warning.contains("`cluster.node.pcie` has no effect"))
    };
    assert!(!warned("gloo"));
    assert!(warned("nccl"));
}
