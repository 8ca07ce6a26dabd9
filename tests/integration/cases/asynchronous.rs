//! Asynchronous checkpoints: training stops while GPUs copy their state into the memory of their nodes.

use super::super::runs::{Draws, simulate, written};
use super::judged;
use super::{case, report_of};
use crate::verdicts::limit;

/// A job that writes 8 GB to a disk of 1 GB/s after every ten of 40 steps of 1 s, on a GPU that copies 16 GB/s.
const COPIED: [(&str, &str); 2] = [
    ("cluster.node.pcie", "\"16 GB/s\""),
    ("job.checkpoint", "{ steps = 10, bytes = \"8 GB\", asynchronous = true }"),
];

#[test]
fn training_stops_while_a_gpu_copies_its_state_unless_the_pause_is_written() {
    // System: three checkpoints of 8 GB in 40 steps of 1 s. Expectation: each stops training for 8 GB ÷ 16 GB/s = 0.5 s, or for the
    // written pause; and not at all where threads on cores train.
    let end = |changes: &[(&str, &str)]| {
        simulate(&case("turn3/f10-async-interval", &[&COPIED, changes].concat())).makespan
    };
    assert!((end(&[]) - 41.5).abs() < 1e-3, "{}", end(&[]));
    for (pause, expected) in [("\"0 s\"", 40.0), ("\"2 s\"", 46.0)] {
        let found = end(&[("job.checkpoint.pause", pause)]);
        assert!((found - expected).abs() < 1e-3, "{pause}: {found}");
    }
    let on_cores = end(&[("job.model", "{ step = \"1 s\", device.cpu = {} }")]);
    assert!((on_cores - 40.0).abs() < 1e-3, "{on_cores}");
}

#[test]
fn a_note_says_that_copying_takes_no_time_without_the_bandwidth_of_the_gpus_link() {
    let notes = |changes: &[(&str, &str)]| {
        let report = report_of(&case("turn3/f10-async-interval", changes));
        report.notes.into_iter().filter(|note| note.contains("copied aside in no time")).count()
    };
    assert_eq!(notes(&[]), 1);
    assert_eq!(notes(&[("job.checkpoint.pause", "\"0 s\"")]), 0);
    assert_eq!(notes(&COPIED), 0);
}

#[test]
fn each_gpu_copies_what_it_holds_of_the_state() {
    // System: 200 random splits. Expectation: tensor ranks divide the state of a model copy, and with stage 3 of ZeRO all ranks do; the
    // pause is that part ÷ the bandwidth of the link.
    let mut draws = Draws(31);
    for _ in 0..200 {
        let [tensor, copies, nodes] = [draws.below(3), draws.below(3), draws.below(4)];
        let (tensor, copies, nodes) = (1 << tensor, 1 << copies, nodes + 1);
        let sharded = draws.below(2) == 0;
        let bytes = (1 + draws.below(900)) as f64 * 1e8;
        let pcie = (1 + draws.below(64)) as f64 * 1e9;
        let zero = if sharded { "zero.stage = 3\n" } else { "" };
        let text = format!(
            r#"
name = "copied"
run.steps = 2
[cluster]
nodes = {nodes}
node = {{ gpus = 16, cores = 8, pcie = "{pcie} B/s", intra = {{ kind = "switch", bandwidth = "300 GB/s" }} }}
network.nic = "100 GB/s"
[storage.memory.memory]
[storage.fast.file-server]
bandwidth = "1 TB/s"
[dataset.d]
samples = 10000
sample_size = "1 kB"
[[job]]
name = "j"
nodes = {nodes}
dataset = "d"
storage = "memory"
batch = 4
loader.in-memory = {{}}
model.step = "1 s"
sync.allreduce.gradients = "1 GB"
checkpoint = {{ steps = 1, bytes = "{bytes} B", storage = "fast", asynchronous = true }}
[job.parallel]
data.copies_per_node = {copies}
tensor = {{ ranks = {tensor}, allreduces = 2, activations = "1 MB" }}
{zero}"#
        );
        let found = written(&text, &[]).jobs[0].checkpoint.as_ref().expect("written").pause;
        let parts = tensor * if sharded { copies * nodes } else { 1 };
        let expected = bytes / parts as f64 / pcie;
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, not {expected}:\n{text}");
    }
}

#[test]
fn the_verdict_on_synchronous_checkpoints_counts_the_copy_of_asynchronous_ones() {
    // System: checkpoints that take 8 s after every ten steps of 1 s. Expectation: written aside, a step takes 1.05 s on average, and
    // the verdict says what a run with the key shows.
    let changes =
        [COPIED[0], ("job.checkpoint", "{ steps = 10, bytes = \"8 GB\" }"), ("run.steps", "400")];
    let (_, verdict) = judged("turn3/f10-async-interval", &changes);
    let limit = limit(&verdict, "checkpoint.asynchronous");
    assert!((limit.after / 1.05 - 1.0).abs() < 0.01, "{}: {}", limit.after, verdict.text);
}
