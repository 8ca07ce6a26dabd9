//! Verdicts on scenarios from a seeded generator, checked by brute force.

use super::{broken, judged, long_step};
use crate::runs::{Case, Draws};

/// Number of scenarios of each kind, and the largest number of wrong verdicts on them.
const SCENARIOS: u64 = 12;
const MOST_WRONG: usize = 1;
/// Length of a checking run, relative to the run.
const TIMES: u64 = 3;
/// Largest difference of gains that count as equal.
const EQUAL: f64 = 0.03;
/// Start of the table of a loader whose workers make whole batches.
const OF_BATCHES: &str = "[job.loader.pytorch]\nworkers";
/// Start of the table of a loader whose threads put samples into a queue.
const OF_SAMPLES: &str = "[job.loader.tf-queue]\ncapacity = \"10000 samples\"\nthreads";

/// The limits of a job that reads from a server, any of which may be the bottleneck.
#[derive(Debug, Clone)]
struct Limits {
    batch: u32,
    cores: u32,
    workers: u32,
    /// Bandwidths of the NIC, of the server and of one stream [B/s].
    nic: f64,
    bandwidth: f64,
    stream: f64,
    /// Operations of the server [/s].
    operations: f64,
    /// Latency of the server, decoding of a sample, and a step [s].
    latency: f64,
    decode: f64,
    step: f64,
}

impl Limits {
    fn drawn(seed: u64) -> Limits {
        let mut draw = Draws(seed);
        Limits {
            cores: draw.one_of(&[2, 4, 16]),
            nic: draw.log_uniform(1e8, 4e9),
            bandwidth: draw.log_uniform(1e8, 4e9),
            operations: draw.log_uniform(1e3, 4e4),
            latency: draw.log_uniform(1e-4, 2e-3),
            stream: draw.log_uniform(5e7, 1e9),
            batch: draw.one_of(&[8, 16, 32]),
            step: draw.log_uniform(5e-4, 1e-2),
            workers: draw.one_of(&[4, 8, 16, 32]),
            decode: draw.log_uniform(1e-4, 3e-3),
        }
    }

    /// Returns, with their names, the limits with each of them changed in turn: twice the amount or half the time.
    fn changed(&self) -> Vec<(&'static str, Limits)> {
        let now = || self.clone();
        vec![
            ("cores", Limits { cores: 2 * self.cores, ..now() }),
            ("workers", Limits { workers: 2 * self.workers, ..now() }),
            ("nic", Limits { nic: 2.0 * self.nic, ..now() }),
            ("bandwidth", Limits { bandwidth: 2.0 * self.bandwidth, ..now() }),
            ("stream", Limits { stream: 2.0 * self.stream, ..now() }),
            ("operations", Limits { operations: 2.0 * self.operations, ..now() }),
            ("latency", Limits { latency: self.latency / 2.0, ..now() }),
            ("decode", Limits { decode: self.decode / 2.0, ..now() }),
            ("step", Limits { step: self.step / 2.0, ..now() }),
        ]
    }

    /// Returns the scenario with these limits; `loader` is the start of the loader's table.
    fn case(&self, loader: &str, changes: &[(&str, &str)]) -> Case {
        let Limits { batch, cores, workers, nic, bandwidth, stream, operations, .. } = self;
        let Limits { latency, decode, step, .. } = self;
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
        Case::written(&text, changes)
    }
}

/// Returns an error message if the verdict on the run of a scenario with `changes` is wrong for the long runs of the same system with the
/// changes `lasting` alone, and `None` otherwise.
fn wrong(
    limits: &Limits,
    loader: &str,
    changes: &[(&str, &str)],
    lasting: &[(&str, &str)],
) -> Option<String> {
    let (_, verdict) = judged(&limits.case(loader, changes));
    let lasting_case = limits.case(loader, lasting);
    let step = |case: &Case| long_step(&case.scenario, TIMES);
    let now = step(&lasting_case);
    let gains = limits.changed().into_iter().map(|(name, then)| {
        let then = then.case(loader, lasting);
        (name, 1.0 - step(&then) / now)
    });
    let (best, most) = gains.max_by(|a, b| a.1.total_cmp(&b.1)).expect("something");
    let first = verdict.limits.first();
    let gain = first.map(|first| 1.0 - step(&lasting_case.followed(&first.changes)) / now);
    // Where changing a single limit does not help, the verdict may name none.
    if gain.unwrap_or(0.0) <= most - EQUAL {
        let named = first.map_or("nothing", |first| first.lever.as_str());
        return Some(format!("{named} ({gain:?}), not {best} ({most:.3}): {}", verdict.text));
    }
    broken(&lasting_case, &verdict)
}

/// Returns the error messages of wrong verdicts on scenarios with random limits: on the runs with `changes`, about long runs with
/// `lasting`.
fn all_wrong(
    number: u64,
    loader: &str,
    changes: &[(&str, &str)],
    lasting: &[(&str, &str)],
) -> Vec<String> {
    let one = |seed| {
        let error = wrong(&Limits::drawn(seed), loader, changes, lasting)?;
        Some(format!("{seed}: {error}"))
    };
    (1..=number).filter_map(one).collect()
}

#[test]
fn verdicts_on_random_scenarios_name_the_bottleneck_found_by_exhaustive_runs() {
    // System: a job that reads from a server, with several limits that may be the bottleneck. Expectation: the
    // verdict names first the limit that saves most time when each is changed in a run three times as long, with
    // the saving as predicted.
    let found = all_wrong(SCENARIOS, OF_BATCHES, &[], &[]);
    assert!(found.len() <= MOST_WRONG, "{} of {SCENARIOS}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn verdicts_on_random_runs_that_only_drain_full_queues_hold_for_long_runs() {
    // System: such jobs, whose queue holds more samples at the start than the run takes. Expectation: the verdict names the limit that
    // saves most time in long runs from an empty queue, with the saving as predicted.
    let changes = [("job.j.prefill", "\"full\"")];
    let found = all_wrong(SCENARIOS / 3, OF_SAMPLES, &changes, &[]);
    assert!(found.len() <= MOST_WRONG, "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn verdicts_on_random_jobs_whose_node_caches_half_of_the_data_hold_for_later_epochs() {
    // System: the jobs of the first test, with 4,000 samples of which a page cache holds half. Expectation: the verdict names the limit that
    // saves most time in long runs, mostly the cache, with the saving as predicted.
    let changes = [
        ("dataset.d.samples", "4000"),
        ("cluster.node.page_cache.capacity", "\"200 MB\""),
        ("run.steps", "1500"),
    ];
    let number = 4;
    let found = all_wrong(number, OF_BATCHES, &changes, &changes);
    assert!(found.len() <= MOST_WRONG, "{} of {number}:\n{}", found.len(), found.join("\n"));
}
