//! Measures flow completions per CPU-second of the whole simulator, report included, on the yardstick.
//!
//! The scenario is `scenarios/yardstick.toml` with other numbers of jobs and other server speeds. Each job copy
//! reads sizes of its own, because copies that read equal sizes in the same order would move in lockstep. Sizes
//! come from a table, except in the row `shuffled`: there they are sampled at random and each copy reads them
//! in an order of its own, as in a user's run. Collectives on the NICs beside the reads are measured by
//! `benches/network.rs`.

use std::time::Duration;

use forebay::random::{Purpose, Sampler, Streams};
use forebay::report;
use forebay::scenario::{Override, SampleOrder, SampleSizes, Scenario, ScenarioFile};
use forebay::sim;

/// Least number of flows of a measurement.
const FLOWS: u64 = 1 << 20;
const BATCH: u64 = 256;
/// Attempts of each measurement. The fastest counts, because other work on a shared machine can only slow an
/// attempt down.
const ATTEMPTS: usize = 3;

fn scenario(jobs: u64, steps: u64, server: &str, shuffled: bool) -> Scenario {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/yardstick.toml");
    let file = ScenarioFile::open(path.as_ref()).unwrap_or_else(|problems| panic!("{problems}"));
    let changes: Vec<Override> = [
        format!("cluster.nodes={jobs}"),
        format!("job.copies={jobs}"),
        format!("dataset.images.samples={}", steps * BATCH),
        format!("storage.server.file-server.bandwidth=\"{server}\""),
    ]
    .iter()
    .map(|change| change.parse().expect("an override"))
    .collect();
    let mut scenario = file.resolve(&changes).unwrap_or_else(|problems| panic!("{problems}"));
    let dataset = &mut scenario.datasets[0];
    if shuffled {
        dataset.order = SampleOrder::Shuffled;
    } else {
        dataset.sizes = own_sizes(&dataset.sizes);
    }
    scenario
}

/// Returns a table of sizes sampled from the same distribution, in which the entries of different copies and
/// samples lie far apart.
fn own_sizes(drawn: &SampleSizes) -> SampleSizes {
    let SampleSizes::Drawn(distribution) = drawn else { return drawn.clone() };
    let (sampler, streams) = (Sampler::new(distribution), Streams::new(1, 0));
    let draw = |sample| sampler.draw(&mut streams.at(Purpose::SampleSize, 0, sample, 0));
    let table = (0..1 << 16).map(draw).collect();
    SampleSizes::Table { table, job_stride: 40_503, sample_stride: 25_173 }
}

/// Returns the processor time of this thread: wall time would include other work on a shared machine.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match stat.split(' ').next().and_then(|ns| ns.parse().ok()) {
        Some(ns) => Duration::from_nanos(ns),
        None => std::time::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}

/// Simulates and reports `scenario`; returns the number of flows and the processor time.
fn measure(scenario: &Scenario) -> (u64, Duration) {
    let begin = processor_time();
    let outcome = sim::run(scenario, 0, &sim::Options::default());
    let report = report::summarise(scenario, &[outcome], 0.0);
    (report.flows, processor_time().saturating_sub(begin))
}

fn show(name: &str, jobs: u64, server: &str) {
    let steps = (FLOWS / (jobs * BATCH)).max(4);
    let scenario = scenario(jobs, steps, server, name == "shuffled");
    let attempts = (0..ATTEMPTS).map(|_| measure(&scenario));
    let Some((flows, time)) = attempts.min_by_key(|(_, time)| *time) else { return };
    let seconds = time.as_secs_f64();
    let (rate, each) = (flows as f64 / seconds / 1e6, seconds / flows as f64 * 1e9);
    print(&format!("{name:<8} {jobs:>5} {steps:>6} {flows:>9} {rate:>9.2} {each:>9.0}"));
}

fn print(line: &str) {
    use std::io::Write;
    // A closed pipe is no reason to panic.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() {
    // `cargo bench NAME JOBS` runs one row of cases with that number of jobs only; cargo itself adds `--bench`.
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let (counts, names): (Vec<&String>, Vec<&String>) =
        only.iter().partition(|wanted| wanted.parse::<u64>().is_ok());
    let wants = |list: &[&String], this: &str| list.is_empty() || list.iter().any(|w| *w == this);
    print("limit     jobs  steps     flows   Mflow/s   ns/flow");
    let rows =
        [("server", 4096, 2.0), ("shuffled", 256, 2.0), ("nic", 256, 20.0), ("both", 256, 1.0)];
    for (name, most, server) in rows {
        for jobs in [16, 64, 256, 1024, 4096].into_iter().filter(|&jobs| jobs <= most) {
            let shared = matches!(name, "server" | "shuffled");
            let gigabytes = if shared { server } else { server * jobs as f64 };
            if wants(&names, name) && wants(&counts, &jobs.to_string()) {
                show(name, jobs, &format!("{gigabytes} GB/s"));
            }
        }
    }
}
