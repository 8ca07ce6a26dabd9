//! Settings that are reported as without effect have none: the same steps, to a billionth.

use super::runs::{simulate, written};

/// Reads and decoding with varying times, and steps that wait for them.
const SCENARIO: &str = r#"
name = "no-effect"
[run]
epochs = 2
warm_up = "off"
seed = 1
[cluster]
nodes = 1
[cluster.node]
cores = 4
gpus = 2
[storage.nvme.local-disk]
bandwidth = "1 GB/s"
[storage.s.file-server]
bandwidth = "100 MB/s"
latency = { lognormal = { median = "1 ms", p99 = "9 ms" } }
[dataset.d]
samples = 400
sample_size = "1 MB"
decoded_size = "2 MB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 8
[job.loader.pytorch]
workers = 1
decode = { gamma = { mean = "2 ms", cv = 0.5 } }
[job.model]
step = "9 ms"
launch = "1 ms"
"#;

const LOADER: &str = "job.loader.pytorch";
const FILES: &str = "storage.s.file-server.cache";

/// Returns the ends of all steps of the scenario with these changes [s], and its remarks.
fn ends(changes: &[(&str, &str)]) -> (Vec<f64>, String) {
    let scenario = written(SCENARIO, changes);
    let outcome = simulate(&scenario);
    (outcome.jobs[0].steps.iter().map(|step| step.end).collect(), scenario.remarks.join("\n"))
}

#[test]
fn settings_reported_as_ineffective_do_not_change_step_times() {
    let threads = (LOADER, r#"{ workers = 2, worker_kind = "thread", decode = "2 ms" }"#);
    let gil = r#"{ workers = 2, worker_kind = "thread", decode = "2 ms", gil = 0.5 }"#;
    let keras = ("job.loader", r#"{ keras = { workers = 0, decode = "2 ms" } }"#);
    let processes = r#"{ keras = { workers = 0, decode = "2 ms", ipc = "1 MB/s", gil = 1.0,
        use_multiprocessing = true } }"#;
    let (launch, held) = ("job.model.launch", r#"{ work = "1 ms", gil = 1.0 }"#);
    let (pages, small) = ("cluster.node.page_cache", r#"{ capacity = "0.9 MB" }"#);
    let tier = r#"{ on = "nvme", capacity = "0.9 MB" }"#;
    for (before, after) in [
        (&[][..], ("job.loader.pytorch.in_order", "false")),
        (&[][..], ("job.loader.pytorch.iterable", "true")),
        (&[][..], (launch, held)),
        (&[][..], (pages, small)),
        (&[][..], (FILES, tier)),
        (&[][..], ("job.decoded_cache", r#"{ capacity = "1.9 MB" }"#)),
        (&[threads][..], (LOADER, gil)),
        (&[keras][..], ("job.loader", processes)),
    ] {
        let (without, said_without) = ends(before);
        let (with, said) = ends(&[before, &[after]].concat());
        assert!(
            said.contains("has no effect") && !said_without.contains("has no effect"),
            "{said}"
        );
        assert!(with.len() == without.len() && with.len() > 40, "{after:?}");
        for (a, b) in with.iter().zip(&without) {
            assert!((a - b).abs() <= 1e-9 * b, "{after:?}: {a} instead of {b}");
        }
    }
}
