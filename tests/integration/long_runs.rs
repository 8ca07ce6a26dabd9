//! Where a report calls a run long enough, its interval of the step time holds the mean of a run ten times as long.
//!
//! The suite runs a few random scenarios; `FOREBAY_LONG_RUNS=300 cargo test --locked --test integration long_runs` runs three
//! hundred, which takes some minutes.

use forebay::report::{self, JobOutcome, Report};
use forebay::scenario::Scenario;
use forebay::sim;
use rayon::prelude::*;
use std::io::Write;

use super::runs::{Draws, written};

/// Default number of scenarios.
const FEW: u64 = 30;

/// Number of scenarios from which on the share of intervals that hold the mean is precise enough to be required.
const MANY: u64 = 200;

/// Relative difference of two means up to which they count as equal, a tenth of the default precision: an interval of constant steps
/// has no width.
const EQUAL: f64 = 5e-4;

fn one<'a>(draws: &mut Draws, choices: &[&'a str]) -> &'a str {
    choices[draws.below(choices.len() as u64) as usize]
}

/// Returns the text of a random loader that works on batches of `batch` samples.
fn loader(draws: &mut Draws, batch: u64) -> String {
    let workers = 1 + draws.below(6);
    let decode = one(
        draws,
        &[
            "",
            ", decode = \"0.2 ms\"",
            ", decode = { lognormal = { mean = \"1 ms\", cv = 0.5 } }",
            ", decode = { gamma = { mean = \"0.5 ms\", cv = 0.3 } }",
        ],
    );
    let start = one(draws, &["", ", start = \"50 ms\"", ", start = \"300 ms\""]);
    match draws.below(7) {
        0 => format!("pytorch = {{ workers = {workers}, persistent_workers = true{decode} }}"),
        1 => format!("pytorch = {{ workers = {workers}, in_order = false{decode}{start} }}"),
        2 => format!("pytorch = {{ workers = {workers}{decode}{start} }}"),
        3 => format!("keras = {{ workers = {workers}{decode} }}"),
        4 => format!("tf-data = {{ parallel_calls = {workers}, prefetch = 2{decode} }}"),
        5 => {
            let capacity = batch * (2 + draws.below(30));
            format!(
                "tf-queue = {{ threads = {workers}, capacity = \"{capacity} samples\"{decode} }}"
            )
        }
        _ => "in-memory = {}".to_owned(),
    }
}

/// Returns the text of a random job.
fn job(draws: &mut Draws, number: u64) -> String {
    let batch = [4, 8, 16, 32][draws.below(4) as usize];
    let step = one(draws, &["2 ms", "5 ms", "10 ms", "20 ms", "40 ms"]);
    let jitter = one(draws, &["", ", jitter.lognormal.cv = 0.1", ", jitter.gamma.cv = 0.3"]);
    let nodes = 1 + draws.below(2);
    let sync = match draws.below(5) {
        _ if nodes == 1 => "",
        0 => "sync.allreduce = { gradients = \"5 MB\" }",
        1 => "accumulation = 4\nsync.allreduce = { gradients = \"20 MB\" }",
        2 => "sync.allreduce = { gradients = \"20 MB\", period = 10 }",
        3 => {
            "sync.elastic-averaging = { parameters = \"10 MB\", period = 8, server.placement = \"with-workers\" }"
        }
        _ => "",
    };
    let checkpoint = one(
        draws,
        &[
            "",
            "",
            "",
            "checkpoint = { interval = \"3 s\", bytes = \"50 MB\" }",
            "checkpoint = { steps = 30, bytes = \"20 MB\", asynchronous = true }",
        ],
    );
    format!(
        "[[job]]\nname = \"j{number}\"\nnodes = {nodes}\ndataset = \"d{number}\"\nstorage = \"s\"\nbatch = {batch}\n\
         loader.{}\nmodel = {{ step = \"{step}\"{jitter} }}\n{sync}\n{checkpoint}\n\
         [dataset.d{number}]\nsamples = {}\nsample_size = {}\n",
        loader(draws, batch),
        batch * nodes * (20 + draws.below(381)),
        one(draws, &["\"10 kB\"", "\"100 kB\"", "{ lognormal = { mean = \"50 kB\", cv = 0.5 } }"])
    )
}

/// Length of a random run.
#[derive(Debug, Clone, Copy)]
enum Length {
    Steps(u64),
    Epochs(u64),
    Seconds(f64),
    Automatic,
}

impl Length {
    fn random(draws: &mut Draws) -> Length {
        match draws.below(6) {
            0 => Length::Steps(60 + draws.below(540)),
            1 => Length::Epochs(1 + draws.below(4)),
            2 => Length::Seconds(2.0 + draws.below(20) as f64),
            _ => Length::Automatic,
        }
    }

    /// Returns a length ten times as long; a run of automatic length took `seconds`.
    fn longer(self, seconds: f64) -> Length {
        match self {
            Length::Steps(steps) => Length::Steps(10 * steps),
            Length::Epochs(epochs) => Length::Epochs(10 * epochs),
            Length::Seconds(seconds) => Length::Seconds(10.0 * seconds),
            Length::Automatic => Length::Seconds(10.0 * seconds),
        }
    }

    /// Returns the table `run` with this length.
    fn run(self, seed: u64) -> String {
        match self {
            Length::Steps(steps) => format!("{{ seed = {seed}, steps = {steps} }}"),
            Length::Epochs(epochs) => format!("{{ seed = {seed}, epochs = {epochs} }}"),
            Length::Seconds(seconds) => format!("{{ seed = {seed}, duration = \"{seconds} s\" }}"),
            Length::Automatic => format!("{{ seed = {seed}, most = 300000, precision = 0.02 }}"),
        }
    }
}

/// Returns a random scenario without its length, and the length.
fn random(seed: u64) -> (String, Length) {
    let draws = &mut Draws(seed);
    let length = Length::random(draws);
    let cache = match draws.below(3) {
        0 => "page_cache.capacity = \"1 GB\"".to_owned(),
        1 => format!("page_cache.capacity = \"{} MB\"", 5 + draws.below(100)),
        _ => "page_cache = \"none\"".to_owned(),
    };
    let latency = one(
        draws,
        &[
            "\"0.5 ms\"",
            "{ lognormal = { mean = \"1 ms\", cv = 0.5 } }",
            "{ exponential.mean = \"2 ms\" }",
        ],
    );
    let bandwidth = one(draws, &["60 MB/s", "200 MB/s", "1 GB/s"]);
    let storage = match draws.below(4) {
        0 => format!("local-disk = {{ bandwidth = \"{bandwidth}\", latency = {latency} }}"),
        1 => format!(
            "file-server = {{ bandwidth = \"{bandwidth}\", latency = {latency}, operations = \"3000 /s\" }}"
        ),
        _ => format!("file-server = {{ bandwidth = \"{bandwidth}\", latency = {latency} }}"),
    };
    let jobs = 1 + draws.below(3);
    let jobs: Vec<String> = (0..jobs).map(|number| job(draws, number)).collect();
    let text = format!(
        "name = \"random {seed}\"\n[cluster]\nnodes = 6\n[cluster.node]\ncores = 4\ngpus = 1\n\
         memory = \"8 GB\"\n{cache}\n[cluster.network]\nnic = \"1 Gbit/s\"\n[storage.s]\n{storage}\n{}",
        jobs.join("\n")
    );
    (text, length)
}

fn report_of(scenario: &Scenario) -> Report {
    let run = |i| sim::run(scenario, i, &sim::Options::default());
    let outcomes: Vec<_> = (0..scenario.run.replications).map(run).collect();
    report::summarise(scenario, &outcomes, 0.0)
}

/// What the report of a scenario says about a job, and what a longer run shows.
struct Found {
    text: String,
    /// Whether the report calls the run long enough, and names nothing that it did not see.
    enough: bool,
    automatic: bool,
    held: bool,
}

/// Returns the mean step time of a copy's whole epochs after the first one [s], and the number of these steps; of nine tenths of its
/// steps if there are none.
fn mean_of_later_epochs(scenario: &Scenario, copy: &JobOutcome) -> (f64, usize) {
    let job = &scenario.jobs[copy.job];
    let samples = scenario.datasets[job.dataset].samples;
    let epoch = (samples / (job.batch * u64::from(job.nodes))) as usize;
    let steps = copy.steps.len();
    let of = (steps / epoch).saturating_sub(1) * epoch;
    let of = if of > 0 { of } else { steps * 9 / 10 };
    ((copy.steps[steps - 1].end - copy.steps[steps - of - 1].end) / of as f64, of)
}

/// Compares a random scenario's intervals with means of a run ten times as long.
fn compared(seed: u64) -> Vec<Found> {
    let (text, length) = random(seed);
    let short = report_of(&written(&text, &[("run", &length.run(seed))]));
    let longer = length.longer(short.makespan.mean.unwrap_or(1.0));
    let changes = [("run", &*longer.run(1000 + seed)), ("run.replications", "1")];
    let long = written(&text, &changes);
    let outcome = sim::run(&long, 0, &sim::Options::default());
    let automatic = matches!(length, Length::Automatic);
    let each = short.jobs.iter().zip(&outcome.jobs).map(|(job, after)| {
        let (truth, of) = mean_of_later_epochs(&long, after);
        let found = &job.figures.step_time;
        let [low, high] = found.ci95.unwrap_or([f64::NAN; 2]);
        let held = low * (1.0 - EQUAL) <= truth && truth <= high * (1.0 + EQUAL);
        let text = format!(
            "{seed} {length:?} {}: {:?} [{low:.6}, {high:.6}] and not {truth:.6}, {:?} of {} steps, {:?}",
            job.name, found.mean, job.figures.steps.mean, of, job.length
        );
        let enough = job.length.enough && job.length.unseen.is_empty() && found.ci95.is_some();
        Found { text, enough, automatic, held }
    });
    each.collect()
}

#[test]
fn intervals_of_runs_that_are_long_enough_hold_the_mean_of_longer_runs() {
    let asked = std::env::var("FOREBAY_LONG_RUNS").ok().and_then(|n| n.parse().ok());
    let number = asked.unwrap_or(FEW);
    let found: Vec<Found> = (0..number).into_par_iter().flat_map_iter(compared).collect();
    let count = |of: &dyn Fn(&Found) -> bool| found.iter().filter(|found| of(found)).count();
    let automatic = [count(&|of| of.automatic), count(&|of| of.automatic && of.enough)];
    let missed = || found.iter().filter(|of| of.enough && !of.held);
    let lines: Vec<&str> = missed().map(|of| &*of.text).collect();
    let [enough, held] = [count(&|of| of.enough), count(&|of| of.enough && of.held)];
    let table = format!(
        "{held} of {enough} intervals hold the mean; {} jobs; {} of {} runs of default length are long enough\n{}",
        found.len(),
        automatic[1],
        automatic[0],
        lines.join("\n")
    );
    let _ = writeln!(std::io::stdout(), "{table}");
    // `run.most` is small here, so that the test does not take long.
    assert!(automatic[1] as f64 >= 0.5 * automatic[0] as f64, "{table}");
    // Of few intervals, one in ten may miss by chance.
    let least = if number >= MANY { 0.92 } else { 0.85 };
    assert!(held as f64 >= least * enough as f64, "{table}");
}
