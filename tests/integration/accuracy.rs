//! Time to accuracy: assumed epochs at the simulated throughput.

use forebay::report::{AccuracyReport, Report, summarise};
use forebay::scenario::{Override, Scenario, ScenarioFile};
use forebay::sim::{Options, run};

use super::base::{base, changed};
use super::runs::{shipped, simulate};

/// Data in memory and no decoding: each step of 16 samples takes 1 ms.
const MEMORY: (&str, &str) = ("storage.s", "{ memory = {} }");
const IDLE: (&str, &str) = ("job.loader.tf-queue.decode", "\"0 s\"");

fn report(scenario: &Scenario) -> Report {
    let replications = 0..scenario.run.replications;
    let outcomes: Vec<_> = replications.map(|r| run(scenario, r, &Options::default())).collect();
    summarise(scenario, &outcomes, 0.0)
}

fn accuracy(scenario: &Scenario) -> AccuracyReport {
    report(scenario).jobs.remove(0).time_to_accuracy.expect("it says how much training it takes")
}

/// Returns the time to accuracy of the base scenario with 1,000 samples in memory and these changes.
fn fed(changes: &[(&str, &str)]) -> AccuracyReport {
    accuracy(&changed(&[&[MEMORY, IDLE], changes].concat()))
}

fn time(of: &AccuracyReport) -> f64 {
    of.time.mean.expect("a time")
}

#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} instead of {expected}");
}

#[test]
fn time_to_accuracy_is_epochs_times_samples_over_throughput() {
    // System: 16 samples in 1 ms, 1,000 samples in an epoch. Expectation: epochs · 62.5 ms, for each way to
    // specify the epochs.
    let cases = [
        ("{ epochs = 90 }", 90.0),
        ("{ least_epochs = 20, critical_batch = 64 }", 25.0),
        ("{ least_epochs = 20, critical_batch = 16 }", 40.0),
        ("{ table = { batches = [8, 24], epochs = [30, 50] } }", 40.0),
        ("{ epochs = 90, factor = 1.5 }", 135.0),
    ];
    for (written, epochs) in cases {
        let found = fed(&[("job.accuracy", written)]);
        assert_near(found.epochs, epochs, 1e-12);
        assert_near(time(&found), epochs * 62.5e-3, 1e-6);
        assert_near(found.samples.mean.expect("samples"), epochs * 1000.0, 1e-9);
    }
}

#[test]
fn epochs_to_accuracy_depend_on_global_or_per_model_copy_batch_as_configured() {
    // System: two nodes of two model copies, batch 16 each. Expectation: the epochs at batch 64 (global) or at
    // batch 16 (model copy).
    let cluster = [("job.nodes", "2"), ("job.parallel.data.copies_per_node", "2")];
    let law = "{ least_epochs = 10, critical_batch = 64, batch = \"model-copy\" }";
    let global = law.replace("model-copy", "global");
    let of = |law: &str| fed(&[&cluster[..], &[("job.accuracy", law)]].concat());
    assert_eq!((of(&global).batch, of(law).batch), (64, 16));
    assert_near(of(&global).epochs, 20.0, 1e-12);
    assert_near(of(law).epochs, 12.5, 1e-12);
    assert_near(of(&global).statistical_efficiency.mean.expect("a worth"), 0.5, 1e-12);
}

#[test]
fn a_run_that_reaches_the_accuracy_target_reports_the_observed_time() {
    // System: 60 steps of 16 samples; 0.5 epochs are 31.25 steps. Expectation: 31.25 ms; the report says that
    // this time was observed, not extrapolated.
    let reached = fed(&[("job.accuracy", "{ epochs = 0.5 }")]);
    assert_near(time(&reached), 31.25e-3, 1e-9);
    assert_near(reached.observed, 1.0, 1e-12);
    assert!(reached.measured.contains("up to the target"), "{}", reached.measured);
    let further = fed(&[("job.accuracy", "{ epochs = 4 }")]);
    assert_near(further.observed, 960.0 / 4000.0, 1e-9);
    assert!(further.measured.contains("24.0 %"), "{}", further.measured);
}

#[test]
fn time_to_accuracy_is_extrapolated_from_throughput_after_the_warm_up() {
    // System: starved at first because the queue is empty, or 0.1 s of staging first. Expectation: the time of
    // the run itself, plus the remaining samples at the rate after the warm-up.
    let changes = [("job.accuracy", "{ epochs = 100 }"), ("run.warm_up", "30")];
    let scenario = changed(&changes);
    let steps = simulate(&scenario).jobs.remove(0).steps;
    let (middle, end) = (steps[29].end, steps[59].end);
    let rate = 30.0 * 16.0 / (end - middle);
    assert_near(time(&accuracy(&scenario)), end + (100_000.0 - 960.0) / rate, 1e-9);
}

#[test]
fn the_confidence_interval_of_time_to_accuracy_follows_from_throughput() {
    // System: steps that vary. Expectation: the time's relative uncertainty is about that of the rate, over
    // replications as over batches within one replication; four times as many replications halve it.
    let jitter = ("job.model.jitter", "{ lognormal = { cv = 0.5 } }");
    let of = |replications: &str| {
        let changes = [jitter, ("job.accuracy.epochs", "1000"), ("run.replications", replications)];
        let found = fed(&[&changes[..], &[("run.steps", "400")]].concat());
        let [low, high] = found.time.ci95.expect("an interval");
        assert!(low < time(&found) && time(&found) < high);
        (high - low) / 2.0 / time(&found)
    };
    // 0.5 ÷ √400 = 2.5 % is the standard deviation of one mean; times t(19) = 2.09, or t(9)/√10, t(39)/√40.
    assert_near(of("1"), 0.0523, 0.5);
    assert_near(of("10"), 0.0179, 0.5);
    assert_near(of("40"), 0.0080, 0.4);
}

#[test]
fn time_to_accuracy_has_its_minimum_at_an_intermediate_batch_size() {
    // System: t(B) = 4 ms + 61 µs · B, E(B) = 60 (1 + B ÷ 1000). Expectation: 50,000 · E(B) · t(B) ÷ B, whose
    // minimum among powers of two is at √(4 ms · 1000 ÷ 61 µs) = 256, though throughput always grows with the
    // batch.
    let mut times = Vec::new();
    for batch in [32.0, 64.0, 128.0, 256.0, 512.0, 1024.0_f64] {
        let changes = [
            ("job.batch", format!("{batch}")),
            ("job.model.jitter", "{ lognormal = { cv = 0.001 } }".to_owned()),
            ("run.replications", "1".to_owned()),
        ];
        let changes: Vec<_> = changes.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let found = accuracy(&shipped("time-to-accuracy", &changes));
        let expected = 50_000.0 * 60.0 * (1.0 + batch / 1000.0) * (4e-3 + 61e-6 * batch) / batch;
        assert_near(time(&found), expected, 1e-3);
        times.push(time(&found));
    }
    let best = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b]));
    assert_eq!(best, Some(3), "256: {times:?}");
}

/// Returns the report of the shipped scenario of data echoing with this batch interval and usefulness.
fn echoing(interval: u32, usefulness: &str) -> Report {
    let interval = interval.to_string();
    let changes = [
        ("job.batch_interval", interval.as_str()),
        ("job.accuracy.usefulness", usefulness),
        ("run.replications", "1"),
    ];
    report(&shipped("data-echoing", &changes))
}

#[test]
fn epoch_time_with_data_echoing_is_the_larger_of_loading_and_training_time() {
    // System: a batch is loaded in 600 ms, one training step on it takes 100 ms. Expectation: an epoch takes
    // max(600, k · 100 ms) for each batch that is used k times.
    for interval in [1, 2, 4, 6, 8, 12, 16] {
        let job = echoing(interval, "0.5").jobs.remove(0);
        let batches = 1_281_167.0 / 64.0;
        let expected = batches * f64::from(interval * 100).max(600.0) / 1e3;
        assert_near(job.figures.epoch_time.mean.expect("a time"), expected, 0.01);
    }
}

#[test]
fn data_echoing_matches_the_published_speed_up_with_one_fitted_parameter() {
    // Choi et al., Faster Neural Network Training with Data Echoing, 2019, arXiv 1907.05550: ResNet-50 on
    // ImageNet over a network, input 6 times as long as training, each batch used 5 times, wall time to the
    // target 3.25 times as short. Here the four repetitions are worth 0.5625 of a fresh batch each.
    const PUBLISHED: f64 = 3.25;
    let of = |interval, usefulness| {
        let found = echoing(interval, usefulness).jobs.remove(0).time_to_accuracy;
        time(&found.expect("it says how much training it takes"))
    };
    let plain = of(1, "0.5625");
    assert_near(plain / of(5, "0.5625"), PUBLISHED, 0.01);
    // Bounds: useless repetitions gain nothing; repetitions as useful as fresh batches gain a factor of 5;
    // beyond the ratio the gain falls.
    assert_near(plain / of(5, "0"), 1.0, 0.01);
    assert_near(plain / of(5, "1"), 5.0, 0.01);
    let gain = |interval| plain / of(interval, "0.5625");
    assert!(gain(4) < gain(5) && gain(5) < gain(6), "free repetitions pay");
    assert!(gain(12) < gain(6), "paid ones are worth less than fresh batches");
    assert_near(gain(12), (1.0 + 11.0 * 0.5625) * 0.5, 0.01);
}

#[test]
fn a_repeated_sample_counts_as_the_configured_fraction_of_a_fresh_sample() {
    // System: the trainer reads 16 samples each 1 ms and 3,101 samples a second are fresh. Expectation: each
    // other sample counts for half of a fresh one.
    let scenario = changed(&[
        ("job.queue", "\"circular\""),
        ("run.steps", "2000"),
        ("run.warm_up", "200"),
        ("job.accuracy", "{ epochs = 100, usefulness = 0.5 }"),
    ]);
    let (fresh, all) = (4.0 / 1.29e-3, 16e3);
    let rate = accuracy(&scenario).useful_samples_per_second.mean.expect("a rate");
    assert_near(rate, fresh + 0.5 * (all - fresh), 0.01);
}

#[test]
fn invalid_accuracy_settings_are_reported() {
    let cases = [
        (&[("job.accuracy", "{}")][..], "one of the keys `epochs`, `least_epochs`, `table`"),
        (&[("job.accuracy", "{ least_epochs = 9 }")], "`critical_batch` is missing"),
        (&[("job.accuracy", "{ epochs = 9, least_epochs = 9 }")], "contradict each other"),
        (&[("job.accuracy", "{ epochs = 0 }")], "0 is out of range"),
        (&[("job.accuracy", "{ epochs = 9, usefulness = 2 }")], "2 is out of range"),
        (
            &[("job.accuracy", "{ epochs = 9 }"), ("job.batch_interval", "2")],
            "the key `usefulness` is missing",
        ),
        (
            &[("job.accuracy", "{ table = { batches = [32, 64], epochs = [9, 9] } }")],
            "no epochs for a batch of 16",
        ),
        (
            &[("job.accuracy", "{ table = { batches = [64, 16], epochs = [9, 9] } }")],
            "16 is not larger than 64",
        ),
        (
            &[("job.accuracy", "{ table = { batches = [16], epochs = [9, 9] } }")],
            "1 batches and 2 numbers of epochs",
        ),
    ];
    let file = ScenarioFile::parse("test.toml", base()).expect("TOML");
    for (changes, expected) in cases {
        let overrides: Vec<Override> = changes
            .iter()
            .map(|(key, value)| format!("{key}={value}").parse().expect("an override"))
            .collect();
        let said = file.resolve(&overrides).expect_err("it is wrong").to_string();
        assert!(said.contains(expected), "{said}\ninstead of {expected}");
    }
}

#[test]
fn the_text_report_separates_assumed_epochs_from_observed_time() {
    let scenario = changed(&[MEMORY, IDLE, ("job.accuracy", "{ epochs = 90, factor = 2 }")]);
    let text = forebay::report::text::render(&report(&scenario), 2000, false);
    let line = text.lines().find(|line| line.starts_with("Time to accuracy")).expect("a line");
    assert!(line.contains("11.25 s for 180 epochs, 180,000 samples"), "{line}");
    assert!(line.contains("Assumed: 90 epochs whatever the batch, × 2"), "{line}");
    assert!(line.contains("Observed: time, simulated for 0.5 % of the way"), "{line}");
    assert!(
        !forebay::report::text::render(&report(&changed(&[])), 200, false).contains("accuracy")
    );
}
