//! Verdicts on jobs that write checkpoints or fail.

use forebay::report::{Report, Verdict, text};

use super::{find, judged, limit};
use crate::cases::report_of;
use crate::runs::{Case, near, written};

/// A job on four nodes with steps of 1 s. Every 60 s it waits until its first node has written 10 GB to one of 16 targets of
/// 1 GB/s.
const SAVING: &str = r#"
name = "saving"
[run]
steps = 600
warm_up = "off"
replications = 1
[cluster]
nodes = 4
node = { gpus = 1, cores = 8 }
network.nic = "100 GB/s"
[storage.ram.memory]
[storage.s.parallel-fs]
targets = 16
target_bandwidth = "1 GB/s"
stripe_count = 1
[dataset.d]
samples = 100000000
sample_size = "1 kB"
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "ram"
batch = 16
loader.in-memory = {}
model.step = "1 s"
checkpoint = { interval = "60 s", bytes = "10 GB", storage = "s" }
"#;

fn found(changes: &[(&str, &str)]) -> (Report, Verdict) {
    judged(&Case::written(SAVING, changes))
}

#[test]
fn a_job_that_waits_for_checkpoints_is_told_what_each_setting_of_them_saves() {
    // System: 60 steps of 1 s, then 10 s of writing. Expectation: written aside, checkpoints cost nothing; written by four nodes, 2.5
    // s; with two stripes, or targets twice as fast, 5 s; every 120 s, half as often.
    let (_, verdict) = found(&[]);
    for (lever, after) in [
        ("checkpoint.asynchronous", 1.0),
        ("checkpoint.writers", 1.0 + 2.5 / 60.0),
        ("stripe_count", 1.0 + 5.0 / 60.0),
        ("target_bandwidth", 1.0 + 5.0 / 60.0),
        ("checkpoint.interval", 1.0 + 10.0 / 120.0),
    ] {
        let limit = limit(&verdict, lever);
        assert!(
            (limit.after / after - 1.0).abs() < 0.02,
            "{lever}: {} {}",
            limit.after,
            verdict.text
        );
    }
    assert_eq!(verdict.limits[0].key, "job.j.checkpoint.asynchronous");
    assert!(find(&verdict, "nic").is_none(), "{}", verdict.text);
}

#[test]
fn checkpoints_that_wait_for_the_nic_or_the_write_bandwidth_name_it() {
    // System: the writing node sends 500 MB/s; or the server takes 500 MB/s of writes. Expectation: this limit is named, with half the
    // time for 10 GB.
    let server = "{ file-server = { bandwidth = \"10 GB/s\", write_bandwidth = \"500 MB/s\" } }";
    for (key, value, lever) in
        [("cluster.network.nic", "\"500 MB/s\"", "nic"), ("storage.s", server, "write_bandwidth")]
    {
        let (_, verdict) = found(
            &[(key, value), ("storage.s.parallel-fs.stripe_count", "16")]
                [..if lever == "nic" { 2 } else { 1 }],
        );
        let limit = limit(&verdict, lever);
        assert!((limit.after / (1.0 + 10.0 / 60.0) - 1.0).abs() < 0.02, "{lever}: {}", limit.after);
    }
}

#[test]
fn the_best_interval_in_steps_counts_with_the_step_time() {
    // System: a checkpoint of 1 s after every 100 steps of 1 s. Expectation: the interval is 100 steps of 1.01 s and their lost work, the
    // best one as for an interval in time, and the key in advice is that of steps.
    let changes = [
        ("run.steps", "4000"),
        ("job.checkpoint", "{ steps = 100, bytes = \"10 GB\", storage = \"s\" }"),
        ("job.failures", "{ mtbf = \"4000 s\", restart = \"5 s\" }"),
    ];
    let (report, verdict) = found(&changes);
    let job = &report.jobs[0];
    let of = job.recovery.as_ref().expect("failures");
    near(
        of.interval.expect("an interval"),
        100.0 * job.figures.step_time.mean.expect("steps"),
        "interval",
    );
    assert!(of.best_interval.is_some());
    let keys: Vec<&str> = verdict.limits.iter().map(|limit| &*limit.key).collect();
    assert!(!keys.contains(&"job.j.checkpoint.interval"), "{keys:?}");
}

#[test]
fn the_report_says_why_there_is_no_best_interval() {
    // System: checkpoints written aside without a pause; and failures that come in bursts. Expectation: no interval, and the reason in
    // the report; with a pause there is a best interval.
    let aside = "{ interval = \"60 s\", bytes = \"10 GB\", storage = \"s\", asynchronous = true }";
    let failures = "{ mtbf = \"400 s\", restart = \"5 s\" }";
    let of = |checkpoint: &str, failures: &str| {
        let report = report_of(&written(
            SAVING,
            &[("run.steps", "2000"), ("job.checkpoint", checkpoint), ("job.failures", failures)],
        ));
        let recovery = report.jobs[0].recovery.clone().expect("failures");
        (recovery, text::render(&report, 4000, false))
    };
    let (recovery, page) = of(aside, failures);
    assert_eq!(recovery.best_interval, None);
    let said = "training waits for no checkpoint, so the shorter the interval, the less work is lost; it is bounded only by the 10 s that";
    assert!(page.contains(said), "{page}");
    let (recovery, page) = of(aside, "{ mtbf = \"400 s\", restart = \"5 s\", shape = 0.5 }");
    assert_eq!(recovery.best_interval, None);
    assert!(page.contains("holds only for failures at a constant rate"), "{page}");
    let (recovery, _) = of(&aside.replace("true", "true, pause = \"1 s\""), failures);
    assert!(recovery.best_interval.is_some() && recovery.no_best_interval.is_none());
}
