//! Verdicts on jobs whose nodes fail at random times.

use forebay::report::Verdict;
use forebay::sim;
use forebay::verdict;

use super::{judged, long_step};
use crate::runs::written;

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
samples = 1000000
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

fn failing(mtbf: &str, seed: &str) -> forebay::scenario::Scenario {
    let failures = format!("{{ mtbf = \"{mtbf}\", restart = \"100 ms\" }}");
    written(FAILING, &[("job.failures", &failures), ("run.seed", seed)])
}

fn after(verdict: &Verdict, lever: &str) -> Option<(f64, [f64; 2])> {
    let limit = verdict.limits.iter().find(|limit| limit.lever == lever)?;
    Some((limit.after, limit.after_interval))
}

#[test]
fn failures_that_never_happen_leave_the_verdict_as_it_is() {
    // System: nodes that fail every hundred hours, in a run of half a minute. Expectation: the same advice as without failures.
    let (_, without) = judged(&written(FAILING, &[]));
    let (_, with) = judged(&failing("100 h", "1"));
    assert!(after(&without, "bandwidth").is_some(), "{}", without.text);
    assert_eq!(after(&without, "bandwidth"), after(&with, "bandwidth"), "{}", with.text);
}

#[test]
fn promises_to_a_job_that_fails_hold_in_a_long_run() {
    // System: failures every 300 ms or every second, which destroy the work of up to 20 steps. Expectation: the step time with twice
    // the bandwidth, or with half of the failures, is inside its interval in a run ten times as long. Faster steps lose less work.
    for (mtbf, seed) in [("300 ms", "1"), ("300 ms", "3"), ("1 s", "1"), ("1 s", "2")] {
        let scenario = failing(mtbf, seed);
        let (_, verdict) = judged(&scenario);
        assert!(after(&verdict, "bandwidth").is_some(), "{}", verdict.text);
        for limit in
            verdict.limits.iter().filter(|of| ["bandwidth", "failures"].contains(&&*of.lever))
        {
            let then = verdict::lifted(&scenario, limit).expect("it was lifted");
            let (step, [low, high]) = (long_step(&then, 10), limit.after_interval);
            assert!(
                (low * 0.97..=high * 1.03).contains(&step),
                "{mtbf}, {seed}: {step}, {limit:?}"
            );
            assert!(limit.after > 0.004, "less than computing takes: {limit:?}");
        }
    }
}

#[test]
fn a_job_that_fails_seldom_is_told_that_nothing_against_failures_was_tried() {
    // System: five failures in the run, which destroy many steps. Expectation: no lever against failures is named, not even as
    // untried for want of events, and the verdict says why.
    let scenario = failing("8 s", "1");
    let outcome = sim::run(&scenario, 0, &sim::Options::default());
    let failures = outcome.jobs[0].recovery.expect("failures").failures;
    assert!((1..10).contains(&failures), "{failures}");
    let often = [("job.checkpoint.steps", "300")];
    let keys = [("job.failures", "{ mtbf = \"8 s\", restart = \"100 ms\" }"), often[0]];
    let (_, verdict) = judged(&written(FAILING, &keys));
    assert!(verdict.text.contains("failures were fewer than 10"), "{}", verdict.text);
    let named = verdict.not_tried.iter().chain(&verdict.uncertain);
    assert!(!named.into_iter().any(|name| name.contains("failures")), "{verdict:?}");
}
