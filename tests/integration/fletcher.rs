//! Fletcher's results (2018): the shipped scenarios reproduce his measurements, for the reasons that he gives.
//! `crates/sim/tests/independent.rs` compares them with an independent calculation.

use super::runs::{Steady, shipped, simulate, steady};

const SCENARIO: &str = "fletcher-lenet";

/// Runs the scenario with a batch interval and a number of threads, for as many steps as `batches` batches
/// need.
fn run(threads: u32, interval: u32, batches: u32) -> Steady {
    let (skip, steps) = (interval * batches / 4, interval * batches);
    let changes = [
        ("job.loader.tf-queue.threads", threads.to_string()),
        ("job.batch_interval", interval.to_string()),
        ("run.steps", steps.to_string()),
    ];
    let changes: Vec<(&str, &str)> = changes.iter().map(|(k, v)| (*k, v.as_str())).collect();
    steady(&simulate(&shipped(SCENARIO, &changes)), skip.max(1) as usize)
}

fn in_memory() -> f64 {
    steady(&simulate(&shipped("fletcher-in-memory", &[("run.steps", "60")])), 10).step
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {value} instead of {expected} ({error:+.3})");
}

#[test]
fn lenet_step_times_and_starvation_threshold_match_published_measurements() {
    let (starved, memory) = (run(8, 1, 48).step, in_memory());
    assert_near("step time with the queue exhausted", starved, 50e-3, 0.20);
    assert_near("step time in memory", memory, 3e-3, 0.20);
    assert_near("their ratio", starved / memory, 16.7, 0.10);
    // The knee is the interval k at which t·k = constant meets t = compute.
    let below = [2, 4, 8].map(|k| run(8, k, 48).step * k as f64);
    let constant = below.iter().sum::<f64>() / below.len() as f64;
    assert_near("the knee", constant / memory, 16.7, 0.15);
    let beyond = run(8, 32, 40).step;
    assert!(beyond < 1.08 * memory, "beyond the knee a step takes as long as the model: {beyond}");
}

#[test]
fn starved_step_time_is_inversely_proportional_to_the_batch_interval() {
    // System: a fixed number of threads, k = 1, 2, 4, 8. Expectation: t·k and fresh samples per second are
    // constant, because the input is the bottleneck whatever the trainer does with its samples.
    let runs = [1, 2, 4, 8].map(|k| (k as f64, run(8, k, 64)));
    for (k, steady) in runs {
        assert_near("step time × k", steady.step * k, runs[0].1.step, 0.02);
        assert_near("fresh samples per second", steady.fresh, runs[0].1.fresh, 0.02);
    }
}

#[test]
fn a_starved_step_takes_the_time_of_its_samples_at_the_enqueue_rate() {
    // System: k fixed, number of threads varies. Expectation: step time × enqueue rate = 256 samples.
    for threads in [1, 2, 4, 8] {
        let steady = run(threads, 4, 32);
        let product = steady.step * 4.0 * steady.unblocked_enqueue;
        assert_near("step time × enqueue rate", product, 256.0, 0.02);
    }
    // More threads shorten starved steps.
    let steps = [1, 2, 4, 8].map(|threads| run(threads, 1, 16).step);
    assert!(steps.windows(2).all(|pair| pair[1] < pair[0]), "{steps:?}");
}

#[test]
fn the_net_enqueue_rate_changes_sign_at_the_starvation_threshold() {
    let net = |k| {
        let steady = run(8, k, 40);
        steady.unblocked_enqueue - steady.unstalled_dequeue
    };
    let (below, beyond) = (net(14), net(20));
    assert!(below < 0.0 && beyond > 0.0, "net rate {below} at 14 and {beyond} at 20");
}

#[test]
fn the_net_enqueue_rate_predicts_when_a_full_queue_runs_empty() {
    // System: a queue of 20,000 samples, k = 8. Expectation: it lasts for 20,000 ÷ −net, and longer with more
    // threads.
    let mut before = 0.0;
    for threads in ["2", "4", "8"] {
        let changes =
            [("job.loader.tf-queue.threads", threads), ("run.steps", "1600"), ("job.copies", "4")];
        let outcome = simulate(&shipped("time-to-exhaustion", &changes));
        let lasted = outcome.jobs.iter().map(|job| job.queue.exhaustions[0].start).sum::<f64>()
            / outcome.jobs.len() as f64;
        let steady = steady(&outcome, 1000);
        let predicted = 20_000.0 / (steady.unstalled_dequeue - steady.unblocked_enqueue);
        assert_near("time to exhaustion", lasted, predicted, 0.05);
        assert!(lasted > before, "more threads delay exhaustion");
        before = lasted;
    }
}

#[test]
fn epochs_per_second_fall_only_beyond_the_starvation_threshold() {
    let fresh = [1, 8, 32, 64].map(|k| run(8, k, 40).fresh);
    assert_near("at k = 8 as at k = 1", fresh[1], fresh[0], 0.02);
    assert!(fresh[2] < 0.6 * fresh[0], "at k = 32 the trainer asks for less: {fresh:?}");
    assert_near("half again at twice the interval", fresh[3], fresh[2] / 2.0, 0.05);
}
