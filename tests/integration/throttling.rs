//! CPU quotas that hold in periods, as control groups hold them, compared with closed forms.

use forebay::report::{Cause, Outcome, StallCause, summarise};
use forebay::scenario::ScenarioFile;

use super::base::{base, changed, outcome};
use super::cpu::refusal;
use super::runs::{simulate, steady};

/// Batches of 8 samples in memory, decoded in 1 ms of core time each by eight threads on four cores; the trainer takes no time.
const WORKERS: [(&str, &str); 7] = [
    ("storage.s", "{ memory = {} }"),
    ("dataset.d.samples", "1000000"),
    ("cluster.node.cores", "4"),
    ("job.batch", "8"),
    ("job.loader", "{ tf-queue = { threads = 8, capacity = \"64 samples\", decode = \"1 ms\" } }"),
    ("job.model.step", "\"1 us\""),
    ("run.steps", "2000"),
];

/// Returns the outcome with more keys changed.
fn run(changes: &[(&str, &str)]) -> Outcome {
    outcome(&[&WORKERS[..], changes].concat())
}

/// Returns the share of all time for which devices wait for `cause`.
fn share(outcome: &Outcome, cause: Cause) -> f64 {
    let of = outcome.jobs[0].stalls.iter().filter(|of| of.cause == StallCause::own(cause));
    of.map(|stall| stall.seconds).sum::<f64>() / outcome.makespan
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{what}: {value} instead of {expected}");
}

#[test]
fn a_quota_with_periods_gives_its_cores_on_average_and_stops_threads_for_the_rest_of_a_period() {
    // System: four cores under quotas of q, for which nothing else is needed. Expectation: q samples per millisecond whatever the
    // period; for 1 − q ÷ 4 of the time the threads are stopped, and the device waits for that. Where the quota holds at every
    // instant, nothing is throttled.
    for quota in ["1", "2.5"] {
        let q: f64 = quota.parse().expect("a number");
        for period in ["100 ms", "10 ms", "0 s"] {
            let text = format!("{period:?}");
            let found = run(&[("job.cpu_quota", quota), ("job.cpu_period", &text)]);
            let what = format!("{quota} cores, {period}");
            assert_near(&what, 8e-3 / steady(&found, 100).step, q, 0.02 * q);
            let throttled = if period == "0 s" { 0.0 } else { 1.0 - q / 4.0 };
            assert_near(&what, share(&found, Cause::Throttled), throttled, 0.03);
        }
    }
    let unset = run(&[("job.cpu_quota", "1")]);
    let set = run(&[("job.cpu_quota", "1"), ("job.cpu_period", "\"100 ms\"")]);
    assert_eq!(unset.makespan, set.makespan, "the kernel's period is the default");
}

#[test]
fn a_quota_that_a_loader_uses_up_stops_the_trainer_too() {
    // System: a trainer that launches kernels for 2 ms of each step, without overlap, beside loader threads that use the rest of a
    // quota of 1 of 4 cores. Expectation: its device waits for the quota, which a report says and whose raise it advises.
    let keys = [
        ("job.cpu_quota", "1"),
        (
            "job.loader",
            "{ tf-queue = { threads = 8, capacity = \"80000 samples\", decode = \"1 ms\" } }",
        ),
        ("job.model.launch", "{ work = \"2 ms\", overlap = false }"),
    ];
    let scenario = changed(&[&WORKERS[..], &keys].concat());
    let found = simulate(&scenario);
    assert!(share(&found, Cause::Throttled) > 0.4, "{}", share(&found, Cause::Throttled));
    let report = summarise(&scenario, &[found], 0.0);
    let limit = report.bottleneck.expect("a bottleneck");
    assert_eq!((limit.cause.as_str(), limit.resource.as_str()), ("throttled", "j.cpu-quota"));
    assert!(limit.text.contains("a larger quota"), "{}", limit.text);
}

#[test]
fn two_nodes_under_quotas_get_as_much_done_as_one() {
    // System: a job on one node or on two, which wait for each other after each step, with queues of two batches. Expectation: what a
    // node has left of a period it uses when the other goes on, so that waiting for each other costs nothing.
    let step = |nodes: &str| {
        let loader = "{ tf-queue = { threads = 4, capacity = \"16 samples\", decode = \"1 ms\" } }";
        let keys = [("job.nodes", nodes), ("cluster.nodes", nodes), ("job.loader", loader)];
        let of = [("job.cpu_quota", "2"), ("job.sync.allreduce.gradients", "\"1 B\"")];
        steady(&run(&[&keys[..], &of].concat()), 200).step
    };
    let [one, two] = ["1", "2"].map(step);
    assert_near("two nodes", two / one, 1.0, 0.02);
}

#[test]
fn periods_are_those_that_the_kernel_takes_and_belong_to_a_quota() {
    for (period, said) in [("2 s", "1 ms to 1 s"), ("10 us", "1 ms to 1 s")] {
        let text = format!("{period:?}");
        let refused = refusal(&[("job.cpu_quota", "2"), ("job.cpu_period", &text)]);
        assert!(refused.contains(said) && refused.contains("job.cpu_period"), "{refused}");
    }
    let file = ScenarioFile::parse("test.toml", base()).expect("TOML");
    let period = "job.cpu_period=10 ms".parse().expect("an override");
    let scenario = file.resolve(&[period]).expect("a scenario");
    assert!(scenario.remarks.iter().any(|of| of.contains("`cpu_quota` is not set")));
}
