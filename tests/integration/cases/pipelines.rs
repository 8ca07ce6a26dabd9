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

#[test]
fn weight_gradients_longer_than_input_gradients_fill_bubbles_only_up_to_these() {
    // System: four equal stages under ZB-H1, eight micro-batches of 9.375 ms forward, 5.625 ms for gradients of inputs and
    // 13.125 ms for those of weights. Expectation: bubbles of (p − 1) (TF + max(TB − TW, 0)).
    let report = report_of(&case("turn3/zb", &[]));
    let found = report.jobs[0].figures.step_time.mean.expect("steps");
    let pass = 0.9 / 4.0 / 8.0;
    let expected = 8.0 * pass + 3.0 * pass / 3.0;
    assert!((found / expected - 1.0).abs() < 1e-3, "{found}, not {expected}");
    let told = report.jobs[0].parallel.expect("stages").bubble;
    assert!((told - 1.0 / 9.0).abs() < 1e-3, "{told}");
}
