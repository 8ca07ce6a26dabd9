//! Verdicts on jobs whose nodes fail at random times.

use forebay::report::Verdict;

use super::{find, is, judged, long_step};
use crate::runs::Case;

/// A job that reads 16 samples of 100 kB from a server of 100 MB/s in 16 ms, for a step of 4 ms.
const FAILING: &str = r#"
name = "failing"
[run]
steps = 2000
warm_up = 20
replications = 1
[cluster]
nodes = 1
node = { cores = 64, gpus = 1, page_cache = "none" }
network.nic = "10 GB/s"
[storage.s.file-server]
bandwidth = "100 MB/s"
[storage.c.file-server]
bandwidth = "1 TB/s"
[dataset.d]
samples = 100000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 16
model.step = "4 ms"
loader.pytorch = { workers = 1 }
checkpoint = { steps = 20, bytes = "1 MB", storage = "c" }
"#;

fn failing(mtbf: &str, seed: &str) -> Case {
    let failures = format!("{{ mtbf = \"{mtbf}\", restart = \"100 ms\" }}");
    Case::written(FAILING, &[("job.failures", &failures), ("run.seed", seed)])
}

fn after(verdict: &Verdict, key: &str) -> Option<(f64, [f64; 2])> {
    find(verdict, key).map(|limit| (limit.after, limit.after_interval))
}

#[test]
fn failures_that_never_happen_leave_the_verdict_as_it_is() {
    // System: nodes that fail every hundred hours, in a run of half a minute. Expectation: the same advice as without failures.
    let (_, without) = judged(&Case::written(FAILING, &[]));
    let (_, with) = judged(&failing("100 h", "1"));
    let bandwidth = "file-server.bandwidth";
    assert!(after(&without, bandwidth).is_some(), "{}", without.text);
    assert_eq!(after(&without, bandwidth), after(&with, bandwidth), "{}", with.text);
}

#[test]
fn promises_to_a_job_that_fails_hold_in_a_long_run() {
    // System: failures every 300 ms, which destroy the work of up to 20 steps. Expectation: the step time with twice the bandwidth,
    // or with half of the failures or none, is inside its interval in a run ten times as long. Faster steps lose less work.
    let case = failing("300 ms", "3");
    let (_, verdict) = judged(&case);
    assert!(after(&verdict, "file-server.bandwidth").is_some(), "{}", verdict.text);
    let keys = ["file-server.bandwidth", "failures.mtbf", "job.failures"];
    for limit in verdict.limits.iter().filter(|of| keys.iter().any(|key| is(of, key))) {
        let then = case.followed(&limit.changes).scenario;
        let (step, [low, high]) = (long_step(&then, 10), limit.after_interval);
        assert!((low * 0.97..=high * 1.03).contains(&step), "{step}, {limit:?}");
        assert!(limit.after > 0.004, "less than computing takes: {limit:?}");
    }
}
