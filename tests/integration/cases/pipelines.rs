//! Cases about pipelines.

use super::{case, report_of};

#[test]
fn latency_between_stages_does_not_occupy_the_link() {
    // System: five stages on nodes of their own, 12 micro-batches of 2 ms forward and 4 ms backward on each stage, GPipe; 5 ms
    // of latency and next to no bytes. Expectation: micro-batches follow each other at the pace of the stages, so that each
    // border is waited for once in each direction: (12 + 4) 6 ms + 2 · 4 · 5 ms.
    let report = report_of(&case("turn3/gpipe-latency", &[]));
    let found = report.jobs[0].figures.step_time.mean.expect("steps");
    assert!((found / 0.136 - 1.0).abs() < 1e-3, "{found}");
}
