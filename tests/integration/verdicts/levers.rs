//! Keys that a verdict does not change, because there is nothing to gain or the change is another training.

use super::{find, judged};
use crate::cases::report_of;
use crate::runs::Case;

/// A job on one node; `{loader}` stands for its loader.
const JOB: &str = r#"
name = "levers"
[run]
steps = 60
replications = 1
[cluster]
nodes = 1
node = { gpus = 1, cores = 8, pcie = "1 GB/s" }
[storage.s.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 1000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 8
model.step = "10 ms"
loader = {loader}
"#;

#[test]
fn a_lock_is_no_limit_where_there_is_none() {
    // System: threads that hold no lock; a generator, whose processes would repeat each other's samples; a loader without workers.
    // Expectation: no verdict advises processes in place of threads, or more prefetched batches for the loader without workers.
    let decode = "decode = \"20 ms\"";
    for (loader, key) in [
        (
            "pytorch = { workers = 4, worker_kind = \"thread\", ipc = \"1 GB/s\", {decode} }",
            "worker_kind",
        ),
        ("keras = { workers = 4, gil = 1.0, generator = {}, {decode} }", "use_multiprocessing"),
        ("pytorch = { workers = 0, {decode} }", "prefetch_factor"),
    ] {
        let loader = format!("{{ {} }}", loader.replace("{decode}", decode));
        let (_, verdict) = judged(&Case::written(&JOB.replace("{loader}", &loader), &[]));
        assert!(!verdict.limits.is_empty(), "{loader}: {}", verdict.text);
        assert!(find(&verdict, key).is_none(), "{loader}: {}", verdict.text);
    }
}

#[test]
fn changes_of_a_verdict_are_what_the_user_would_paste() {
    // System: a loader whose threads hold the interpreter's lock. Expectation: the text has, behind each step time, the options that make
    // the changes, and a run with them takes that time.
    let loader = "{ pytorch = { workers = 4, worker_kind = \"thread\", gil = 1.0, decode = { gamma = { mean = \"2 ms\", cv = 0.3 } } } }";
    let case = Case::written(&JOB.replace("{loader}", loader), &[("run.steps", "200")]);
    let (_, verdict) = judged(&case);
    assert!(verdict.text.contains("--set job.j.loader.pytorch.worker_kind=process"), "{verdict:?}");
    for limit in verdict.limits.iter().filter(|of| of.lever != "job.batch_interval") {
        let report = report_of(&case.followed(&limit.changes).scenario);
        let step = report.jobs[0].figures.step_time.mean.expect("steps");
        let [low, high] = limit.after_interval;
        assert!((low..=high).contains(&step), "{step}: {limit:?}");
    }
}
