//! Runs of default length give the throughput of runs thirty times as long, in random scenarios.
//!
//! The suite runs a few scenarios; `FOREBAY_DEFAULT_LENGTH=100 cargo test --release --locked --test integration
//! default_length` runs a hundred, which takes some minutes.

use forebay::report;
use forebay::scenario::Scenario;
use forebay::sim;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rayon::prelude::*;

use super::runs::written;

/// Default number of scenarios.
const FEW: u64 = 3;
/// Length of the run that gives the true throughput, relative to the default length. Its random error is a fifth of that of the
/// default length, which is to be within 1 %.
const LONGER: f64 = 30.0;

/// Returns one of the choices at random.
fn one<'a>(generator: &mut Xoshiro256PlusPlus, choices: &[&'a str]) -> &'a str {
    choices[generator.random_range(0..choices.len())]
}

/// Returns a random scenario without settings of its length.
fn random(seed: u64) -> String {
    let generator = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let copies = generator.random_range(1..=4);
    let workers = generator.random_range(1..=8);
    let median = generator.random_range(0.1..3.0);
    let tail = generator.random_range(2.0..10.0);
    let decode = generator.random_range(0.0..4.0);
    let step = 10f64.powf(generator.random_range(0.0..1.7));
    let batch = one(generator, &["4", "8", "16", "32"]);
    let size = one(generator, &["10 kB", "100 kB", "400 kB"]);
    let bandwidth = one(generator, &["100 MB/s", "400 MB/s", "2 GB/s"]);
    let operations = one(generator, &["", "operations = \"1000 /s\"", "operations = \"20000 /s\""]);
    let jitter =
        one(generator, &["", ", jitter.lognormal.cv = 0.1", ", jitter.lognormal.cv = 0.5"]);
    let loader = match generator.random_range(0..4) {
        0 => format!(
            "tf-queue = {{ threads = {workers}, capacity = \"256 samples\", decode = \"{decode} ms\" }}"
        ),
        1 => format!("pytorch = {{ workers = {workers}, decode = \"{decode} ms\" }}"),
        2 => format!(
            "pytorch = {{ workers = {workers}, decode = \"{decode} ms\", in_order = false }}"
        ),
        _ => format!(
            "tf-data = {{ parallel_calls = {workers}, prefetch = 2, decode = \"{decode} ms\" }}"
        ),
    };
    format!(
        r#"# How fast does it train?
name = "random {seed}"
[cluster]
nodes = {copies}
[cluster.node]
cores = 4
gpus = 1
[cluster.network]
nic = "10 Gbit/s"
[storage.s.file-server]
bandwidth = "{bandwidth}"
latency = {{ lognormal = {{ median = "{median} ms", p99 = "{} ms" }} }}
{operations}
[dataset.d]
samples = 100000000
sample_size = {{ lognormal = {{ mean = "{size}", cv = 0.5 }} }}
[[job]]
name = "j"
copies = {copies}
dataset = "d"
storage = "s"
batch = {batch}
loader = {{ {loader} }}
model = {{ step = "{step} ms"{jitter} }}
"#,
        median * tail
    )
}

/// Returns the throughput of the first job [samples/s], and the number of steps of each copy.
fn rate(scenario: &Scenario) -> (f64, f64) {
    let outcome = sim::run(scenario, 0, &sim::Options::default());
    let report = report::summarise(scenario, &[outcome], 0.0);
    let job = &report.jobs[0];
    let steps = job.figures.steps.mean.unwrap_or(0.0) + job.warm_up_steps;
    (job.figures.samples_per_second.mean.unwrap_or(f64::NAN), steps)
}

#[test]
fn throughput_of_a_default_length_run_matches_a_run_thirty_times_as_long() {
    let asked = std::env::var("FOREBAY_DEFAULT_LENGTH").ok().and_then(|n| n.parse().ok());
    let wrong: Vec<String> = (0..asked.unwrap_or(FEW))
        .into_par_iter()
        .filter_map(|seed| {
            let (found, steps) = rate(&written(&random(seed), &[]));
            let longer = format!("{:.0}", LONGER * steps);
            let (truth, _) = rate(&written(&random(seed), &[("run.steps", &longer)]));
            let error = found / truth - 1.0;
            let is_wrong = error.is_nan() || error.abs() > 0.01;
            is_wrong.then(|| {
                format!("{seed}: {found} of {truth} samples/s, {error:+.4}, in {steps} steps")
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
