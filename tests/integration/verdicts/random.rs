//! Verdicts on scenarios from a seeded generator, checked by brute force.

use super::{broken, judged, long_step};
use crate::runs::{Draws, written};
use forebay::scenario::Scenario;
use forebay::verdict::all_lifted;

/// Number of scenarios of each kind, and the largest number of wrong verdicts on them.
const SCENARIOS: u64 = 100;
const MOST_WRONG: usize = 4;
/// Length of a checking run, relative to the run.
const TIMES: u64 = 3;
/// Largest difference of gains that count as equal.
const EQUAL: f64 = 0.03;

/// Start of the table of a loader whose workers make whole batches.
const OF_BATCHES: &str = "[job.loader.pytorch]\nworkers";
/// Start of the table of a loader whose threads put samples into a queue.
const OF_SAMPLES: &str = "[job.loader.tf-queue]\ncapacity = \"50000 samples\"\nthreads";

/// Returns a job that reads from a server, with random limits, so that any of them may be the bottleneck. `loader` is the start of the
/// loader's table.
fn scenario(seed: u64, loader: &str, changes: &[(&str, &str)]) -> Scenario {
    let mut draw = Draws(seed);
    let (cores, nic) = (draw.one_of(&[2, 4, 16]), draw.log_uniform(1e8, 4e9));
    let (bandwidth, operations) = (draw.log_uniform(1e8, 4e9), draw.log_uniform(1e3, 4e4));
    let (latency, stream) = (draw.log_uniform(1e-4, 2e-3), draw.log_uniform(5e7, 1e9));
    let (batch, step) = (draw.one_of(&[8, 16, 32]), draw.log_uniform(5e-4, 1e-2));
    let (workers, decode) = (draw.one_of(&[4, 8, 16, 32]), draw.log_uniform(1e-4, 3e-3));
    let text = format!(
        r#"
name = "random"
[run]
steps = 300
warm_up = 30
replications = 1
[cluster]
nodes = 1
[cluster.node]
cores = {cores}
gpus = 1
[cluster.network]
nic = "{nic} B/s"
[storage.s.file-server]
bandwidth = "{bandwidth} B/s"
operations = "{operations} /s"
per_stream = "{stream} B/s"
latency = {{ exponential = {{ mean = "{latency} s" }} }}
[dataset.d]
samples = 1000000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = {batch}
model.step = "{step} s"
{loader} = {workers}
decode = {{ gamma = {{ mean = "{decode} s", cv = 0.5 }} }}
"#
    );
    written(&text, changes)
}

/// Returns an error message if the verdict on the run of `scenario` is wrong for the long runs of `lasting`, the same system without
/// what makes short runs differ from long ones, and `None` otherwise.
fn wrong(scenario: &Scenario, lasting: &Scenario) -> Option<String> {
    let (report, verdict) = judged(scenario);
    let now = long_step(lasting, TIMES);
    // Between a resource and the work on it, the resource counts as the bottleneck; compute counts only where
    // GPUs do little else.
    let busy = report.jobs[0].figures.accelerator_utilisation.mean.unwrap_or(0.0) >= 0.9;
    let counts = |lever: &str| lever != "decode" && (busy || lever != "compute");
    let gains: Vec<(&str, f64)> = all_lifted(lasting)
        .iter()
        .filter(|lifted| counts(lifted.lever))
        .map(|lifted| (lifted.lever, 1.0 - long_step(&lifted.scenario, TIMES) / now))
        .collect();
    let (best, most) = *gains.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("something");
    let named = verdict.limits.first().map_or("nothing", |limit| limit.lever.as_str());
    let gain = gains.iter().find(|(lever, _)| *lever == named).map(|(_, gain)| *gain);
    // Where lifting a single limit does not help, the verdict may name none; where it helps little, it may name two together.
    let right = match gain {
        Some(gain) => gain > most - EQUAL,
        None => most < EQUAL || named.split('+').any(|lever| lever == best),
    };
    if !right {
        return Some(format!("{named} ({gain:?}), not {best} ({most:.3}): {}", verdict.text));
    }
    broken(lasting, &verdict)
}

/// Returns the error messages of wrong verdicts on scenarios with random limits: on the runs with `changes`, about long runs without
/// them.
fn all_wrong(loader: &str, changes: &[(&str, &str)]) -> Vec<String> {
    let one = |seed| {
        let error = wrong(&scenario(seed, loader, changes), &scenario(seed, loader, &[]))?;
        Some(format!("{seed}: {error}"))
    };
    (1..=SCENARIOS).filter_map(one).collect()
}

#[test]
fn verdicts_on_random_scenarios_name_the_bottleneck_found_by_exhaustive_runs() {
    // System: a job that reads from a server, with several limits that may be the bottleneck. Expectation: the
    // verdict names first the limit that saves most time when each is lifted in a run three times as long, with
    // the saving as predicted.
    let found = all_wrong(OF_BATCHES, &[]);
    assert!(found.len() <= MOST_WRONG, "{} of {SCENARIOS}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn verdicts_on_random_runs_that_only_drain_full_queues_hold_for_long_runs() {
    // System: such jobs, whose queue holds more samples at the start than the run takes. Expectation: the verdict names the limit that
    // saves most time in long runs from an empty queue, with the saving as predicted.
    let found = all_wrong(OF_SAMPLES, &[("job.j.prefill", "\"full\""), ("run.steps", "1500")]);
    assert!(found.len() <= MOST_WRONG, "{} of {SCENARIOS}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn verdicts_on_random_jobs_whose_node_caches_half_of_the_data_hold_for_later_epochs() {
    // System: the jobs of the first test, with 4,000 samples of which a page cache holds half. Expectation: three of four verdicts name the
    // limit that saves most time in long runs, mostly the cache, with the saving as predicted. More verdicts are wrong than
    // without caches, because each trial begins with a cold epoch, so that the budget suffices for few trials.
    let changes = [
        ("dataset.d.samples", "4000"),
        ("cluster.node.page_cache.capacity", "\"200 MB\""),
        ("run.steps", "1500"),
    ];
    let one = |seed| {
        let scenario = scenario(seed, OF_BATCHES, &changes);
        Some(format!("{seed}: {}", wrong(&scenario, &scenario)?))
    };
    let found: Vec<String> = (1..=24).filter_map(one).collect();
    assert!(found.len() <= 6, "{}:\n{}", found.len(), found.join("\n"));
}
