//! Cases about checkpoints that are being transferred: at the end of a run, beside those of other jobs, and while steps end.

use forebay::report::JobOutcome;

use super::super::runs::{simulate, written};
use super::report_of;

/// Two jobs with steps of 1 s that write a checkpoint of 1 GB after each step.
const TWO: &str = r#"
name = "t"
run = { steps = 60, warm_up = "off", replications = 1 }
cluster = { nodes = 2, node = { gpus = 2, cores = 4 }, network.nic = "10 GB/s" }
storage.m.memory = {}
storage.s.file-server = { bandwidth = "1 GB/s" }
dataset.d = { samples = 100_000, sample_size = "1 kB" }
[[job]]
name = "a"
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model.step = "1 s"
checkpoint = { steps = 1, bytes = "1 GB", storage = "s", asynchronous = true }
[[job]]
name = "b"
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model.step = "1 s"
checkpoint = { steps = 1, bytes = "1 GB", storage = "s", asynchronous = true }
"#;

/// Returns the time for which each job transferred checkpoints, and the part in which the other one did too [s].
fn transfers(changes: &[(&str, &str)]) -> Vec<(f64, f64)> {
    let times = |job: &JobOutcome| {
        let of = job.recovery.as_ref().expect("checkpoints");
        (of.transfer_seconds, of.overlap_seconds)
    };
    simulate(&written(TWO, changes)).jobs.iter().map(times).collect()
}

#[track_caller]
fn near(found: (f64, f64), expected: (f64, f64), what: &str) {
    let equal = |a: f64, b: f64| (a - b).abs() < 1e-3;
    assert!(
        equal(found.0, expected.0) && equal(found.1, expected.1),
        "{what}: {found:?}, not {expected:?}"
    );
}

#[test]
fn transfers_in_progress_when_the_run_ends_are_counted() {
    // System: each job begins more checkpoints than are written. Expectation: both transfer from the first step's end on, to the
    // end of the last step or to the end of the run, and all the time together.
    for (busy, stop, seconds) in [
        ("queue", ("run.steps", "60"), 59.0),
        ("together", ("run.steps", "60"), 59.0),
        ("queue", ("run", "{ duration = \"40.4 s\", warm_up = \"off\", replications = 1 }"), 39.4),
    ] {
        let changes =
            [stop, ("job.a.checkpoint.when_busy", busy), ("job.b.checkpoint.when_busy", busy)];
        for found in transfers(&changes) {
            near(found, (seconds, seconds), busy);
        }
    }
}

#[test]
fn jobs_that_share_a_disk_see_that_they_write_together() {
    // System: two jobs that write to the disk of the node that they share, to that of a node of their own, or one to each of two.
    // Expectation: only on the same disk do both write for 2 s a step, and always together.
    let disk = ("storage.s", "{ local-disk = { bandwidth = \"1 GB/s\" } }");
    let shared = [disk, ("cluster.share_nodes", "true"), ("cluster.nodes", "1")];
    for (transferred, together) in transfers(&shared) {
        assert!(transferred > 100.0, "{transferred}");
        near((transferred, together), (transferred, transferred), "the same disk");
    }
    for found in transfers(&[disk]) {
        near(found, (0.0, 0.0), "disks of their own");
    }
}

/// Learners on three nodes that average models while they train on; a checkpoint is due after each step.
const AVERAGES: &str = r#"
name = "f"
run = { steps = 30, warm_up = "off", replications = 1 }
cluster = { nodes = 3, node = { cores = 8, gpus = 1, memory = "500 GB", gpu_memory_bandwidth = "1 GB/s" }, network = { nic = "5 GB/s", latency = "0 us" } }
storage.m.memory = {}
storage.s.file-server = { bandwidth = "1 GB/s" }
dataset.d = { samples = 30_000, sample_size = "10 kB" }
[[job]]
name = "j"
nodes = 3
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model = { step = "0.2 s", jitter.gamma.cv = 0.3 }
sync.model-averaging = { parameters = "100 MB", period = 3, overlap = true, latency = "20 ms" }
checkpoint = { steps = 1, bytes = "2 GB", storage = "s", writers = "first", asynchronous = true }
failures = { at = ["8.07 s", "8.72 s", "14.05 s", "26.80 s"], restart = "2 s", read_back = true, node = "restarted" }
"#;

#[test]
fn computing_and_stalls_add_up_after_failures_where_steps_end_while_checkpoints_wait() {
    // System: a checkpoint that is due waits for the one before, and then contains steps that have ended meanwhile; failures set
    // the job back to it. Expectation: the accelerators compute or stall at each moment, and not both.
    for seed in 0..100 {
        let report = report_of(&written(AVERAGES, &[("run.seed", &seed.to_string())]));
        let figures = &report.jobs[0].figures;
        let busy = figures.accelerator_utilisation.mean.expect("steps");
        let sum = busy + figures.stall.total.mean.expect("steps");
        assert!((sum - 1.0).abs() < 1e-6, "seed {seed}: {sum}");
    }
}
