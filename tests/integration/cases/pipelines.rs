//! Cases about pipelines.

use forebay::scenario::OverrideText;

use super::{case, kept, report_of};
use crate::verdicts::{find, judged};

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

#[test]
fn other_schedules_are_advised_where_bubbles_bind_and_bring_what_is_said() {
    // System: eight stages under 1F1B with 32 micro-batches. Expectation: a schedule that fills bubbles and chunks are both
    // advised, and following the advice as `--set` does gives the step time that it names: (6 m + p − 1) ÷ 6 m and
    // (2 m + p − 1) ÷ 2 m of the time without bubbles.
    let now = kept("turn3/zb-21", &[]);
    let (_, said) = judged(&now);
    let without = 3.821 / 8.0;
    for (changes, expected) in [
        (&["schedule=\"zb-v\""][..], without * 199.0 / 192.0),
        (&["schedule=\"interleaved-1f1b\"", "chunks=2"], without * 71.0 / 64.0),
    ] {
        let changes: Vec<_> = changes
            .iter()
            .map(|change| OverrideText::Set(format!("job.gpt.parallel.pipeline.{change}")))
            .collect();
        let limit = said.limits.iter().find(|limit| limit.changes == changes);
        let limit = limit.unwrap_or_else(|| panic!("{changes:?}: {}", said.text));
        assert!((limit.after / expected - 1.0).abs() < 0.02, "{changes:?}: {}", limit.after);
        let then = report_of(&now.followed(&changes).scenario);
        let then = then.jobs[0].figures.step_time.mean.expect("steps");
        assert!((then / limit.after - 1.0).abs() < 0.02, "{then}, not {}", limit.after);
    }
    // What the file would be refused with is not advised.
    let odd = [("job.batch", "36"), ("job.parallel.pipeline.micro_batches", "36")];
    let (_, odd) = judged(&kept("turn3/zb-21", &odd));
    assert!(find(&odd, "pipeline.chunks").is_none(), "{}", odd.text);
}
