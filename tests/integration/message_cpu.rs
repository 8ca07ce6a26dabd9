//! Messages of collectives that need time on the nodes' cores, for which they compete with decoding.

use super::runs::{near, run, simulate, step, written};
use forebay::collective::{Algorithm, Collective, Cost, Operation, closed_form};
use forebay::report::JobOutcome;

/// Core-seconds of each message [s], and of each of its bytes [s/B].
const CPU: [f64; 2] = [300e-6, 50e-12];

/// Returns a job on `nodes` nodes with `copies` model copies each that reduces 1 MB by messages of 300 us at
/// each end, and 50 ps for each byte.
fn text(nodes: u32, copies: u32, node: &str, sync: &str) -> String {
    format!(
        r#"# What do messages cost cores?
name = "message-cpu"
[run]
steps = 6
warm_up = "off"
[cluster]
nodes = {nodes}
node = {{ gpus = 8, intra = {{ kind = "switch", bandwidth = "20 GB/s" }}, {node} }}
network = {{ nic = "1 GB/s", latency = "10 us" }}
[storage.memory.memory]
[dataset.d]
samples = 100000
sample_size = "100 kB"
[[job]]
name = "j"
nodes = {nodes}
dataset = "d"
storage = "memory"
batch = 1
model.step = "1 ms"
parallel.data.copies_per_node = {copies}
loader.in-memory = {{}}
[job.sync.allreduce]
gradients = "1 MB"
{sync}
transport.tcp.cpu = {{ per_message = "300 us", per_byte = "50 ps" }}
"#
    )
}

#[test]
fn allreduce_time_on_idle_cores_includes_the_core_time_of_each_message() {
    // System: one rank on each of n nodes with idle cores, shared or in slots. Expectation: the closed form
    // with the costs of both ends for each message and byte, as flows or by formula.
    let [message, byte] = CPU;
    let cost = Cost { alpha: 10e-6 + 2.0 * message, beta: 1e-9 + 2.0 * byte, gamma: 0.0 };
    for algorithm in [Algorithm::Ring, Algorithm::HalvingDoubling, Algorithm::BinomialTree] {
        for ranks in [2, 4, 8] {
            let whole = Collective::new(Operation::Allreduce, algorithm, ranks, 1_000_000);
            let expected = 1e-3 + closed_form(&whole, &cost, &cost).expect("known");
            for fidelity in ["flow", "analytic"] {
                for scheduling in ["shared", "fifo"] {
                    let name = algorithm.name();
                    let sync = format!("algorithm = \"{name}\"\nfidelity = \"{fidelity}\"");
                    let node = format!("cores = 8, scheduling = \"{scheduling}\"");
                    let found = step(&run(&text(ranks, 1, &node, &sync)));
                    near(found, expected, &format!("{name} of {ranks}, {fidelity}, {scheduling}"));
                }
            }
        }
    }
}

#[test]
fn ranks_on_one_node_share_its_cores_for_processing_messages() {
    // System: rings of four on one node: 6 phases in which all ranks send and receive 250 kB at once through
    // ports of 20 GB/s. Expectation: with a core for each rank, the cost of one message; on one core four times
    // that, shared or in FIFO order; with half a core as quota eight times; with cores that slow each other,
    // correspondingly more. Flows and the formula agree.
    let message = CPU[0] + CPU[1] * 250e3;
    let of = |cores: f64| 1e-3 + 6.0 * (2.0 * message / cores + 250e3 / 20e9);
    let times = |node: &str, job: &str| {
        ["flow", "analytic"].map(|fidelity| {
            let sync = format!("algorithm = \"ring\"\nfidelity = \"{fidelity}\"");
            step(&run(&text(1, 4, node, &sync).replace("batch = 1", &format!("batch = 1{job}"))))
        })
    };
    let both = |node: &str, job: &str, expected: f64| {
        times(node, job).map(|found| near(found, expected, &format!("{node}{job}")))
    };
    both("cores = 8", "", of(1.0));
    both("cores = 4", "", of(1.0));
    both("cores = 1", "", of(0.25));
    both("cores = 4", "\ncpu_quota = 0.5\ncpu_period = \"0 s\"", of(0.125));
    both("cores = 4, core_speed = [1.0, 0.9, 0.8, 0.7]", "", of(0.7));
    let [flow, analytic] = times("cores = 1, scheduling = \"fifo\"", "");
    near(flow, analytic, "in order");
    assert!(flow > of(1.0) && flow <= of(0.25), "{flow}");
}

#[test]
fn each_node_processes_its_messages_on_its_own_cores() {
    // System: four ranks on each of two nodes with 8 cores, and of two with one core. Expectation: flows and
    // the formula agree on idle cores; slower than without the old nodes, faster than on old nodes only.
    let of = |first: u32, old: u32| {
        let times = ["flow", "analytic"].map(|fidelity| {
            let sync = format!("algorithm = \"halving-doubling\"\nfidelity = \"{fidelity}\"");
            let groups = format!("[cluster.group.old]\nnodes = 4\nnode.cores = {old}\n[storage");
            let text = text(4, 4, &format!("cores = {first}"), &sync).replace("[storage", &groups);
            step(&run(&text.replace("nodes = 4\nnode = ", "nodes = 2\nnode = ")))
        });
        near(times[1], times[0], &format!("{first} and {old} cores"));
        times[0]
    };
    assert!(of(8, 8) < of(8, 1) && of(8, 1) < of(1, 1));
}

/// Returns the outcome on two nodes of one core, on which a thread decodes for ten seconds, 20 ms a sample.
fn beside_decoding(scheduling: &str, cpu: &str) -> JobOutcome {
    let node = format!("cores = 1, scheduling = \"{scheduling}\"");
    let text = text(2, 1, &node, "algorithm = \"ring\"")
        .replace("loader.in-memory = {}", "loader.tf-queue = { threads = 1, capacity = \"900000 samples\", decode = \"20 ms\" }\nprefill = \"full\"")
        .replace("model.step = \"1 ms\"", "model.step = \"1 us\"")
        .replace("steps = 6", "duration = \"10 s\"")
        .replace("batch = 1", "batch = 20")
        .replace("per_message = \"300 us\", per_byte = \"50 ps\"", cpu);
    run(&text)
}

#[test]
fn messages_and_decoding_compete_for_cores() {
    // System: rings of two, whose messages take 4 ms of a core at each end, beside a thread that always
    // decodes. Expectation: on shared cores both get half of a core, so that each of four parts of a step takes
    // 8 ms. In FIFO order a message waits for the rest of the current sample, at most 20 ms. A core is always
    // busy, with samples or messages: two messages for each of two phases of a step, at both ends.
    let cpu = "per_message = \"4 ms\"";
    for scheduling in ["shared", "fifo"] {
        let job = beside_decoding(scheduling, cpu);
        let (found, last) = (step(&job), job.steps[job.steps.len() - 1]);
        let wires = 2.0 * (500e3 / 1e9 + 10e-6) + 1e-6;
        if scheduling == "shared" {
            near(found, 4.0 * 8e-3 + wires, "shared");
        } else {
            assert!(found > 4.0 * 4e-3 + wires && found < 4.0 * 24e-3 + wires, "{found}");
        }
        let decoded = last.queue.enqueued as f64 / 2.0;
        let busy = decoded * 20e-3 + job.steps.len() as f64 * 4.0 * 4e-3;
        assert!((busy - last.end).abs() < 25e-3, "{scheduling}: {busy} of {}", last.end);
    }
    // Messages without core time do not wait for cores, and take no time from decoding.
    let free = beside_decoding("shared", "per_message = \"0 s\"");
    near(step(&free), 2.0 * (500e3 / 1e9 + 10e-6) + 1e-6, "by themselves");
}

#[test]
fn each_job_pays_core_time_only_for_its_own_messages() {
    // System: two jobs of two nodes with one core each; messages of only one job need cores. Expectation: each
    // node's core is used for the message that its rank sends, and then for the one that it receives; the other
    // job is not affected.
    let alone = text(2, 1, "cores = 1", "algorithm = \"ring\"");
    let second = alone[alone.find("[[job]]").expect("a job")..]
        .replace("name = \"j\"", "name = \"k\"")
        .replace("transport.tcp.cpu = {", "transport.tcp.latency = \"10 us\"\n# {");
    let both = alone.replace("nodes = 2\nnode", "nodes = 4\nnode") + &second;
    let jobs = simulate(&written(&both, &[])).jobs;
    let (message, wire) = (CPU[0] + CPU[1] * 500e3, 500e3 / 1e9 + 10e-6);
    near(step(&jobs[0]), 1e-3 + 2.0 * (2.0 * message + wire), "with cores");
    near(step(&jobs[1]), 1e-3 + 2.0 * wire, "without");
}
