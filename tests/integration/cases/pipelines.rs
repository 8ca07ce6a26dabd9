//! Cases about pipelines.

use forebay::report::summarise;
use forebay::scenario::{OtherSchedule, Schedule};
use forebay::sim::{self, Options};
use forebay::verdict;

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

#[test]
fn other_schedules_are_advised_where_bubbles_bind_and_bring_what_is_said() {
    // System: eight stages under 1F1B with 32 micro-batches. Expectation: a schedule that fills bubbles and chunks are both
    // advised, and following the advice as `--set` does gives the step time that it names: (6 m + p − 1) ÷ 6 m and
    // (2 m + p − 1) ÷ 2 m of the time without bubbles.
    let now = case("turn3/zb-21", &[]);
    let outcomes = [sim::run(&now, 0, &Options::default())];
    let report = summarise(&now, &outcomes, 0.0);
    let said =
        verdict::find(&now, &outcomes, &report, &verdict::Options::default()).expect("steps");
    let without = 3.821 / 8.0;
    for (lever, keys, expected) in [
        ("schedule", &["schedule=\"zb-v\""][..], without * 199.0 / 192.0),
        ("chunks", &["schedule=\"interleaved-1f1b\"", "chunks=2"], without * 71.0 / 64.0),
    ] {
        let limit = said.limits.iter().find(|limit| limit.lever == lever);
        let limit = limit.unwrap_or_else(|| panic!("{lever}: {}", said.text));
        assert!((limit.after / expected - 1.0).abs() < 0.02, "{lever}: {}", limit.after);
        assert_eq!(limit.key.split(" and ").count(), keys.len(), "{}", limit.key);
        for (key, change) in limit.key.split(" and ").zip(keys) {
            let (name, value) = change.split_once('=').expect("a change");
            assert_eq!(key, format!("job.gpt.parallel.pipeline.{name}"));
            assert!(said.text.contains(value.trim_matches('"')), "{value}: {}", said.text);
        }
        let set: Vec<(String, &str)> = keys
            .iter()
            .map(|change| change.split_once('=').expect("a change"))
            .map(|(name, value)| (format!("job.gpt.parallel.pipeline.{name}"), value))
            .collect();
        let set: Vec<(&str, &str)> =
            set.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let then =
            report_of(&case("turn3/zb-21", &set)).jobs[0].figures.step_time.mean.expect("steps");
        assert!((then / limit.after - 1.0).abs() < 0.02, "{lever}: {then}, not {}", limit.after);
    }
    // What the file would be refused with is not advised.
    let odd =
        case("turn3/zb-21", &[("job.batch", "36"), ("job.parallel.pipeline.micro_batches", "36")]);
    let chunks =
        |of: &OtherSchedule| matches!(of.parallelism.schedule, Schedule::Interleaved { .. });
    assert!(now.jobs[0].other_schedules.iter().any(chunks));
    assert!(!odd.jobs[0].other_schedules.iter().any(chunks));
}
