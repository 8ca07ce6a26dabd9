//! Tests of errors against values computed by hand.

use super::{
    Bound, Naive, Observed, Point, Prediction, Use, Verdict, naive, simulate, with_errors,
    with_noise,
};
use crate::profile::Profile;
use crate::scenario::ScenarioFile;

fn run(rate: f64) -> Observed {
    Observed {
        samples_per_second: rate,
        step_time: 32.0 / rate,
        stall: 0.5,
        causes: [("decode".to_owned(), 0.5)].into(),
        occupancy: 10.0,
        unblocked_rate: rate,
        unstalled_rate: 1.2 * rate,
    }
}

fn point(name: &str, used: Use, predicted: [f64; 3], measured: &[f64]) -> Point {
    let [low, median, high] = predicted;
    let prediction = Prediction { median: run(median), interval: [low, high] };
    let mut point = Point::new(name, used, prediction, 0.04);
    point.runs = measured.iter().map(|rate| run(*rate)).collect();
    point.naive = Some(Naive { fetch: 300.0, prepare: 120.0, compute: 149.0 });
    point
}

#[test]
fn prediction_errors_are_relative_to_the_median_of_the_measured_runs() {
    let point = point("a", Use::HeldOut, [90.0, 104.0, 118.0], &[99.0, 100.0, 101.0]);
    let error = point.error(|run| run.samples_per_second).expect("an error");
    assert!((error - 0.04).abs() < 1e-12);
    assert!((point.naive_error().expect("an error") - 0.2).abs() < 1e-12);
    assert!((point.noise().expect("three runs") - 0.01).abs() < 1e-12);
    assert!((point.half_width() - 14.0 / 104.0).abs() < 1e-12);
    assert_eq!((point.inside(), point.counts()), (3, true));
}

#[test]
fn validation_points_with_disagreeing_measurement_attempts_are_not_counted() {
    // System: runs within 1 % of each other, after a first attempt that was 8 % off and too noisy. Expectation: the noise is
    // the standard deviation between the medians of both attempts, 5.4 %, so the point does not count.
    let mut point = point("a", Use::HeldOut, [90.0, 104.0, 118.0], &[99.0, 100.0, 101.0]);
    point.before = vec![108.0];
    let expected = 32.0_f64.sqrt() / 104.0;
    assert!((point.noise().expect("runs") - expected).abs() < 1e-12 && !point.counts());
    point.before = vec![102.0];
    assert!(point.counts());
}

#[test]
fn the_validation_verdict_covers_only_held_out_points_with_low_noise() {
    let mut worst = point("worst", Use::HeldOut, [80.0, 90.0, 95.0], &[100.0, 100.0, 100.0]);
    worst.predicted.median.causes = [("decode".to_owned(), 0.1), ("open".to_owned(), 0.4)].into();
    let points = [
        point("good", Use::HeldOut, [97.0, 102.0, 107.0], &[96.0, 100.0, 102.0]),
        worst,
        point("noisy", Use::HeldOut, [10.0, 20.0, 30.0], &[80.0, 100.0, 120.0]),
        point("fit", Use::Fit, [10.0, 20.0, 30.0], &[100.0, 100.0]),
    ];
    let verdict = Verdict::from_points(&points).expect("points that count");
    assert_eq!((verdict.points, verdict.too_noisy), (2, 1));
    assert!((verdict.mean_error - 0.06).abs() < 1e-12);
    assert_eq!(verdict.worst.0, "worst");
    assert!((verdict.worst.1 - 0.1).abs() < 1e-12);
    // Both causes differ by 0.4: the first one in the order of causes is named.
    assert_eq!(verdict.worst_cause, Some(("open".to_owned(), 0.4, 0.0)));
    assert!((verdict.coverage - 2.0 / 6.0).abs() < 1e-12, "{}", verdict.coverage);
    let crossing = verdict.classes.iter().find(|class| class.bound == Bound::Crossover);
    let crossing = crossing.expect("all classes");
    assert_eq!((crossing.points, crossing.share(2)), (2, Some(("at least a quarter", true))));
    assert!(verdict.classes.iter().all(|class| class.points == 0 || class.worst == Some(0.1)));
    assert_eq!(Verdict::from_points(&points[2..]), None);
}

#[test]
fn the_prediction_interval_covers_ninety_percent_of_predicted_runs() {
    let runs: Vec<Observed> = (0..=100).map(|i| run(100.0 + f64::from(i))).collect();
    let quiet = [run(140.0), run(145.0), run(170.0)];
    let prediction = Prediction::from_runs(&quiet, &runs).expect("runs");
    assert_eq!(prediction.interval, [105.0, 195.0]);
    assert_eq!(prediction.median.samples_per_second, 145.0);
    assert_eq!(Prediction::from_runs(&[], &[]), None);
}

#[test]
fn a_slowdown_factor_lowers_throughput_and_raises_the_stall_share() {
    let slow = run(100.0).slowed(1.25);
    assert_eq!(slow.samples_per_second, 80.0);
    assert!((slow.stall - 0.6).abs() < 1e-12, "half of the time computes, which takes 0.4 now");
}

#[test]
fn run_to_run_noise_is_pooled_over_groups_of_repeated_runs() {
    let groups = [vec![run(99.0), run(101.0)], vec![run(198.0), run(202.0)], vec![run(5.0)]];
    let noisy = with_noise(&Profile::default(), &groups);
    let spread = noisy.noise.and_then(|fit| fit.value("run_to_run")).expect("a spread");
    // Two degrees of freedom: Student's t is 4.303, the normal percentile 1.960.
    assert!((spread / (0.0002_f64.sqrt() * 4.302_653 / 1.959_964) - 1.0).abs() < 1e-5, "{spread}");
    assert_eq!(with_noise(&Profile::default(), &[vec![run(5.0)]]), Profile::default());
}

#[test]
fn noise_makes_no_run_faster_than_the_step_that_the_scenario_prescribes() {
    // System: a loader with room to spare, and steps of 10 ms for 8 samples; runs differ by 20 %. Expectation: the interval ends at the
    // 800 samples/s of the steps, and begins far below. With steps on the machine's own cores, it goes on above.
    let text = r#"
name = "steps"
run.steps = 20
run.warm_up = 4
cluster = { nodes = 1, node.cores = 4 }
storage.disk.local-disk = { bandwidth = "1 GB/s", access = "direct" }
dataset.d = { samples = 1000, sample_size = "10 kB" }
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = 8
loader.tf-queue = { threads = 2, capacity = "64 samples", decode = "1 ms" }
model.step = "10 ms"
"#;
    let file = ScenarioFile::parse("steps.toml", text.to_owned()).expect("a scenario");
    let profile = with_noise(&Profile::default(), &[vec![run(80.0), run(100.0), run(120.0)]]);
    let interval = |set: &[&str]| {
        let set: Vec<_> = set.iter().map(|set| set.parse().expect("a change")).collect();
        let simulated = simulate(&file, &set, &profile, 40, None, 0.0).expect("a simulation");
        simulated.predict(&profile).expect("a prediction").interval
    };
    let [low, high] = interval(&[]);
    assert!(low < 700.0 && (799.0..801.0).contains(&high), "{low} to {high}");
    let [_, high] = interval(&["job.model.device={ cpu = { threads = 1 } }"]);
    assert!(high > 900.0, "{high}");
}

#[test]
fn systematic_prediction_errors_are_counted_as_run_to_run_noise() {
    // System: two runs of 110 where 100 were predicted, and two runs exactly as predicted. Expectation: the root of the mean
    // square error, 10 % over the root of 2, enlarged because there are only four runs.
    let (off, right) = ([run(110.0), run(110.0)], [run(50.0), run(50.0)]);
    let noisy = with_errors(&Profile::default(), &[(100.0, &off), (50.0, &right)]);
    let spread = noisy.noise.and_then(|fit| fit.value("run_to_run")).expect("a spread");
    let few = 2.776_445 / 1.959_964;
    assert!((spread / (0.005_f64.sqrt() * few) - 1.0).abs() < 1e-5, "{spread}");
    assert_eq!(with_errors(&Profile::default(), &[(100.0, &off[..1])]), Profile::default());
}

#[test]
fn naive_throughput_is_the_slowest_of_fetch_prepare_and_compute() {
    // System: 2 readers that take 10 ms for each 1 MB, 2 threads that decode for 4 ms, steps of 32 samples in 0.1 s, each batch
    // used in two steps, and two such jobs. Expectation: fetch is 2 · 2 times 125/s, as each job has half of the 0.25 GB/s,
    // less than the 2/(10 ms) of its readers; prepare is 2 · 2 · min(2/4 ms, 2 cores ÷ 2 ÷ 4 ms); compute is 2 · 320/s.
    let text = r#"
name = "naive"
run.steps = 10
[cluster]
nodes = 2
[cluster.node]
cores = 2
[storage.disk.local-disk]
bandwidth = "0.25 GB/s"
per_stream = "0.2 GB/s"
latency = "5 ms"
[dataset.d]
samples = 100
sample_size = "1 MB"
[[job]]
name = "j"
copies = 2
dataset = "d"
storage = "disk"
batch = 32
batch_interval = 2
loader.tf-queue = { threads = 2, capacity = "64 samples", decode = "4 ms" }
model.step = "100 ms"
"#;
    let file = ScenarioFile::parse("naive.toml", text.to_owned()).expect("a scenario");
    let found = naive(&file.resolve(&[]).expect("a scenario")).expect("a naive model");
    let near =
        |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-9, "{value}");
    near(found.fetch, 2.0 * 2.0 * 125.0);
    near(found.prepare, 2.0 * 2.0 * 250.0);
    near(found.compute, 2.0 * 320.0);
    assert_eq!(found.limits().0.0, "fetch");
    near(found.samples_per_second(), 500.0);
    // A stage without work is no limit.
    let stages =
        "job.loader={ tf-data = { parallel_reads = 4, parallel_calls = 2, decode = \"4 ms\" } }";
    let scenario = file.resolve(&[stages.parse().expect("a change")]).expect("a scenario");
    near(naive(&scenario).expect("a naive model").prepare, 2.0 * 2.0 * 250.0);
}

#[test]
fn the_naive_model_splits_a_storage_as_it_serves() {
    // System: 40 MB/s for a job with one reader of 100 kB and a job with three readers of 1 MB. Expectation: half of the bytes for each if
    // the storage is fair; in order of arrival one small read with three large ones, 3.1 MB each 77.5 ms.
    let text = r#"
name = "naive"
run.steps = 10
[cluster]
nodes = 1
share_nodes = true
node = { cores = 8 }
[storage.s.file-server]
bandwidth = "40 MB/s"
[dataset.small]
samples = 100
sample_size = "100 kB"
[dataset.large]
samples = 100
sample_size = "1 MB"
[[job]]
name = "a"
dataset = "small"
storage = "s"
batch = 8
loader.tf-queue = { threads = 1, capacity = "64 samples" }
model.step = "1 ms"
[[job]]
name = "b"
dataset = "large"
storage = "s"
batch = 8
loader.tf-queue = { threads = 3, capacity = "64 samples" }
model.step = "1 ms"
"#;
    let file = ScenarioFile::parse("naive.toml", text.to_owned()).expect("a scenario");
    for (order, expected) in [("fair", 200.0 + 20.0), ("in-order", 4.0 / 77.5e-3)] {
        let change = format!("storage.s.file-server.service={order}");
        let scenario = file.resolve(&[change.parse().expect("a change")]).expect("a scenario");
        let found = naive(&scenario).expect("a naive model").fetch;
        assert!((found / expected - 1.0).abs() < 1e-9, "{order}: {found}");
    }
}
