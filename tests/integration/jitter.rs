//! Jitter of ranks: a synchronous step takes as long as its longest rank.

use super::runs::{simulate, written};
use forebay::scenario::ScenarioFile;

/// Steps of a run.
const STEPS: usize = 20_000;

/// Returns a job of `ranks` model copies with steps of 100 ms that vary by `jitter`.
fn text(ranks: u32, jitter: &str) -> String {
    format!(
        r#"# How long does the slowest take?
name = "jitter"
[run]
steps = {STEPS}
warm_up = "off"
[cluster]
nodes = 2
node = {{ cores = 1, gpus = 16 }}
[storage.memory.memory]
[dataset.d]
samples = 100000
sample_size = "1 kB"
[[job]]
name = "j"
nodes = 1
dataset = "d"
storage = "memory"
batch = 1
model = {{ step = "100 ms", jitter = {jitter} }}
parallel.data.copies_per_node = {ranks}
loader.in-memory = {{}}
"#
    )
}

/// Returns the mean step time, and half of the width of its 99.9 % interval [s].
fn steps(text: &str) -> (f64, f64) {
    let outcome = simulate(&written(text, &[]));
    let ends = outcome.jobs[0].steps.iter().map(|step| step.end);
    let times: Vec<f64> =
        [0.0].into_iter().chain(ends.clone()).zip(ends).map(|(a, b)| b - a).collect();
    let n = times.len() as f64;
    let mean = times.iter().sum::<f64>() / n;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, 3.29 * (variance / n).sqrt())
}

fn expect(text: &str, expected: f64) {
    let (mean, half) = steps(text);
    assert!((mean - expected).abs() < half, "{mean} ± {half}, not {expected}:\n{text}");
    assert!(half < 0.03 * expected, "the interval is too wide to tell: {half}");
}

#[test]
fn step_time_with_jitter_is_that_of_the_slowest_rank() {
    // System: n ranks whose steps vary independently about 100 ms. Expectation: the mean of the largest of n
    // random times: exponential ones have H(n) times their mean (Rényi 1953), Pareto ones the least value times
    // the product of k / (k - 1/shape), uniform ones n / (n + 1) of their range.
    let half_width = 3_f64.sqrt() * 0.4;
    for n in [1_u32, 2, 8, 16] {
        let ks = || (1..=n).map(f64::from);
        let harmonic: f64 = ks().map(f64::recip).sum();
        expect(&text(n, "{ exponential = {} }"), 0.1 * harmonic);
        let shape = 4.0;
        let product: f64 = ks().map(|k| k / (k - 1.0 / shape)).product();
        expect(&text(n, "{ pareto = { shape = 4 } }"), 0.1 * (shape - 1.0) / shape * product);
        let share = f64::from(n) / f64::from(n + 1);
        let uniform = 1.0 - half_width + 2.0 * half_width * share;
        expect(&text(n, "{ uniform = { cv = 0.4 } }"), 0.1 * uniform);
    }
}

#[test]
fn ranks_on_several_nodes_have_independent_jitter() {
    // System: 2 × 4 ranks with exponential steps that reduce gradients in no time, in buckets that are ready at
    // half and at the end of a step. Expectation: H(8) times the mean, as on one node: a rank has one random
    // factor for all parts of its step.
    let sync = "\n[job.sync.allreduce]\ngradients = \"8 B\"\ntensors = 2\nbuckets = \"4 B\"\n";
    let text = text(4, "{ exponential = {} }").replace("nodes = 1\n", "nodes = 2\n") + sync;
    let harmonic: f64 = (1..=8).map(|k| 1.0 / f64::from(k)).sum();
    expect(&text, 0.1 * harmonic);
}

#[test]
fn every_jitter_distribution_keeps_the_mean_of_a_single_rank() {
    let directory = tempfile::tempdir().expect("a directory");
    let values = "step time\n10 ms\n0.02\n30 ms\n";
    std::fs::write(directory.path().join("steps.csv"), values).expect("written");
    for jitter in [
        "{ lognormal = { cv = 0.5 } }",
        "{ gamma = { cv = 0.5 } }",
        "{ normal = { cv = 0.3 } }",
        "{ uniform = { cv = 0.5 } }",
        "{ exponential = {} }",
        "{ pareto = { shape = 3 } }",
    ] {
        expect(&text(1, jitter), 0.1);
    }
    let path = directory.path().join("x.toml");
    std::fs::write(&path, text(4, "{ empirical = { file = \"steps.csv\" } }")).expect("written");
    let file = ScenarioFile::open(&path).expect("read");
    let outcome = simulate(&file.resolve(&[]).expect("right"));
    // Of four values from 50, 100 and 150 ms, the largest is the smallest value in 1 of 81 cases, and the
    // middle one in 15.
    let mean = outcome.jobs[0].steps[STEPS - 1].end / STEPS as f64;
    let expected = (1.0 * 0.05 + 15.0 * 0.1 + 65.0 * 0.15) / 81.0;
    assert!((mean / expected - 1.0).abs() < 0.005, "{mean}, not {expected}");
}

#[test]
fn jitter_with_negative_factors_or_without_a_mean_is_refused() {
    for (jitter, what) in [
        ("{ normal = { cv = 0.5 } }", "write at most 0.3, or `gamma = { cv = 0.5 }`"),
        ("{ uniform = { cv = 0.6 } }", "write at most 0.577"),
        ("{ pareto = { shape = 1 } }", "write a shape above 1.01"),
        ("{ pareto = {} }", "`shape` is missing"),
        ("{ exponential = { mean = 1 } }", "unknown key `mean`"),
        ("{ weibull = {} }", "unknown kind `weibull`"),
        ("{ empirical = { file = \"none.csv\" } }", "none.csv"),
    ] {
        let file = ScenarioFile::parse("x.toml", text(1, jitter));
        let problems = file.and_then(|file| file.resolve(&[])).expect_err(jitter).to_string();
        assert!(problems.contains(what), "{jitter}: {problems}");
    }
}
