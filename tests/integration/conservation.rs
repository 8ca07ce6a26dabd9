//! Invariants of every run, whatever the scenario: nothing is lost, nothing is counted twice.

mod cores;
mod random;
mod resources;
mod samples;
mod times;

use forebay::report::{Outcome, summarise};
use forebay::scenario::{Distribution, Job, Operation, Scenario};
use forebay::sim::{Options, run};

use super::base::{base, changed};
use super::runs::{simulate, written};
use resources::audit_resources;
use samples::{audit_queue, audit_samples};
use times::audit_times;

/// Checks all invariants of a scenario's outcome, that the same seed gives the same outcome, and that another
/// replication of a random scenario differs; returns the outcome.
fn audit(name: &str, scenario: &Scenario) -> Outcome {
    let outcome = simulate(scenario);
    assert_eq!(outcome, simulate(scenario), "{name}: the same seed, another outcome");
    if is_random(scenario, &outcome) {
        let other = run(scenario, 1, &Options::default());
        assert_ne!(outcome, other, "{name}: another replication, the same outcome");
    }
    assert_eq!(outcome.jobs.len() as u32, scenario.jobs.iter().map(|j| j.copies).sum::<u32>());
    for job in &outcome.jobs {
        let of = &scenario.jobs[job.job];
        let name = format!("{name}, {}[{}]", of.name, job.copy);
        audit_samples(&name, scenario, of, job);
        audit_queue(&name, of, job);
        audit_times(&name, scenario, of, job);
    }
    audit_resources(name, scenario, &outcome);
    audit_report(name, scenario, &outcome);
    outcome
}

/// Returns whether the outcome depends on a random number.
fn is_random(scenario: &Scenario, outcome: &Outcome) -> bool {
    use Operation::{Compute, Delay};
    let drawn = |op: &Operation| match op {
        Compute(d) | Delay(d) => !matches!(d, Distribution::Constant(_)),
        _ => false,
    };
    outcome.jobs.iter().any(|copy| {
        let job = &scenario.jobs[copy.job];
        let mut stages = job.loader.stages.iter();
        let loader = stages.any(|s| s.per_sample.iter().chain(&s.per_item).any(drawn));
        let jitter = job.step.jitter.is_some() && !copy.steps.is_empty();
        jitter || (loader && copy.samples.enqueued > 0)
    })
}

fn models(job: &Job) -> u64 {
    u64::from(job.models())
}

/// Returns the number of steps that a job copy may have in progress at once.
fn window(job: &Job) -> u64 {
    let stages =
        job.pipeline.as_ref().map_or(1, |p| if p.overlap { p.shares.len() as u64 } else { 1 });
    job.averaging().map_or(stages, |of| 2 * of.period)
}

/// Checks that a report has no infinity or NaN, which JSON cannot represent, and that utilisation and stalls
/// add up.
fn audit_report(name: &str, scenario: &Scenario, outcome: &Outcome) {
    let report = summarise(scenario, std::slice::from_ref(outcome), 0.0);
    let text = format!("{report:?}");
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    assert!(!words.any(|word| word == "NaN" || word == "inf"), "{name}: {text}");
    if outcome.jobs.iter().all(|copy| !copy.steps.is_empty()) {
        for job in &report.jobs {
            let figures = &job.figures;
            if let (Some(busy), Some(stall)) =
                (figures.accelerator_utilisation.mean, figures.stall.total.mean)
            {
                assert!((busy + stall - 1.0).abs() < 1e-6, "{name}: {busy} + {stall}");
            }
        }
    }
}

const STAGES: &str = r#"{ stages = [
  { name = "read", workers = 3, per_sample = ["read"], buffer = 24 },
  { name = "decode", workers = 4, per_sample = [{ compute = { exponential = { mean = "300 us" } } }], order = "any", buffer = 32 },
  { name = "batch", workers = 2, unit = "batch", per_item = [{ delay = "20 us" }, "copy"], buffer = 2 },
] }"#;
const ORDERED: &str = r#"{ stages = [
  { name = "read", workers = 5, per_sample = ["read"], order = "in-order", buffer = 7 },
  { name = "decode", workers = 4, per_sample = [{ compute = { gamma = { mean = "500 us", cv = 1.5 } } }], order = "in-order", buffer = "2 batches" },
] }"#;
const WHOLE_BATCHES: &str = r#"{ stages = [
  { name = "load", workers = 3, unit = "batch", per_sample = ["read", { compute = "200 us" }], per_item = [{ compute = "1 ms" }], order = "in-order", buffer = 3 },
  { name = "copy", workers = 1, unit = "batch", per_item = ["copy"], buffer = 2 },
] }"#;

const TWO_COPIES: &str = "{ data = { copies_per_node = 2 } }";
const THREADS: &str = r#"{ pytorch = { workers = 3, worker_kind = "thread", gil = 0.4, decode = "300 us",
  pin_memory = { work = "100 us", bandwidth = "2 GB/s", gil = 0.5 }, to_device = true } }"#;
const PROCESSES: &str =
    r#"{ pytorch = { workers = 3, ipc = "1 GB/s", decode = "300 us", to_device = true } }"#;

#[test]
fn samples_bytes_and_times_are_conserved_in_scenarios_of_every_kind() {
    const LATENCY: (&str, &str) =
        ("storage.s.file-server.latency", r#"{ lognormal = { median = "400 us", p99 = "5 ms" } }"#);
    const SHARDS: (&str, &str) =
        ("dataset.d.layout", r#"{ shards = { samples = 70, request = "256 KiB" } }"#);
    const LOADER: &str = "job.loader";
    const DISK: (&str, &str) = (
        "storage.s",
        r#"{ local-disk = { bandwidth = ["300 MB/s", "500 MB/s", "400 MB/s"], latency = "80 us", operations = "9000 /s" } }"#,
    );
    const MEMORY: (&str, &str) = ("storage.s", r#"{ memory = { bandwidth = "5 GB/s" } }"#);
    const PIPELINE: (&str, &str) = ("job.parallel", "{ pipeline = { shares = [0.5, 0.3, 0.2] } }");
    const SYNC: (&str, &str) = (
        "job.sync",
        r#"{ allreduce = { gradients = "10 MB", tensors = 5, buckets = "3 MB", algorithm = "ring" } }"#,
    );
    const INTERVAL: (&str, &str) = ("job.batch_interval", "1.5");
    const PCIE: (&str, &str) = ("cluster.node.pcie", "\"1 GB/s\"");
    const FIFO: (&str, &str) = ("cluster.node.scheduling", "\"fifo\"");
    const TWO_JOBS: &str = r#"[[job]]
name = "k"
copies = 3
nodes = 2
start = "5 ms"
stagger = "3 ms"
dataset = "d"
storage = "s"
batch = 10
loader.tf-queue = { threads = 2, capacity = "30 samples", decode = "200 us" }
model.step = "2 ms"
parallel.data.copies_per_node = 2
"#;
    let cases: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("as it is", vec![]),
        ("latency with a tail", vec![LATENCY]),
        ("shards", vec![LATENCY, SHARDS]),
        ("raw", vec![LATENCY, ("dataset.d.layout", "{ raw = {} }")]),
        ("parquet", vec![LATENCY, ("dataset.d.layout", "{ parquet = { row_group = 30 } }")]),
        ("shards in order", vec![SHARDS, ("dataset.d.order", "\"sequential\"")]),
        ("local disk", vec![DISK]),
        ("local disk, shards", vec![DISK, SHARDS, ("job.copies", "3")]),
        ("memory", vec![MEMORY]),
        ("infinitely fast memory", vec![("storage.s", "{ memory = {} }")]),
        ("several nodes", vec![LATENCY, ("job.nodes", "4")]),
        ("several nodes, shards, more than an epoch", {
            vec![LATENCY, SHARDS, ("job.nodes", "3"), ("run.steps", "80")]
        }),
        ("several model copies", vec![("job.parallel", "{ data = { copies_per_node = 4 } }")]),
        ("copies that start one after the other", {
            vec![
                LATENCY,
                ("job.copies", "6"),
                ("job.start", "\"1 ms\""),
                ("job.stagger", "\"7 ms\""),
            ]
        }),
        ("pipeline that overlaps", vec![LATENCY, PIPELINE]),
        ("pipeline that does not", {
            vec![LATENCY, ("job.parallel", "{ pipeline = { stages = 3, overlap = false } }")]
        }),
        ("pipelines side by side on several nodes, with jitter", {
            let both = "{ data = { copies_per_node = 2 }, pipeline = { stages = 2 } }";
            let jitter = ("job.model.jitter", "{ gamma = { cv = 0.4 } }");
            vec![MEMORY, ("job.parallel", both), ("job.nodes", "2"), jitter]
        }),
        ("micro-batches through stages on several nodes", {
            let pipeline = r#"{ pipeline = { stages = 3, stages_per_node = 2, schedule = "1f1b",
                micro_batches = 4, activations = "1 MB" } }"#;
            let jitter = ("job.model.jitter", "{ gamma = { cv = 0.4 } }");
            vec![LATENCY, ("job.parallel", pipeline), ("job.nodes", "4"), SYNC, jitter]
        }),
        ("interleaved chunks on several nodes, with jitter", {
            let pipeline = r#"{ pipeline = { stages = 2, stages_per_node = 1, schedule = "interleaved-1f1b",
                chunks = 3, micro_batches = 4, activations = "1 MB" } }"#;
            let jitter = ("job.model.jitter", "{ gamma = { cv = 0.4 } }");
            vec![LATENCY, ("job.parallel", pipeline), ("job.nodes", "4"), SYNC, jitter]
        }),
        ("deferred gradients of sharded model copies", {
            let all = r#"{ data.copies_per_node = 2, zero.stage = 2, pipeline = { stages = 2,
                schedule = "zb-h1", micro_batches = 4, activations = "1 MB" } }"#;
            vec![LATENCY, ("job.parallel", all), ("job.nodes", "2"), SYNC]
        }),
        ("stages of split layers, side by side", {
            let all = r#"{ data.copies_per_node = 2, tensor = { ranks = 2, allreduces = 4,
                activations = "100 kB" }, zero.stage = 1, pipeline = { shares = [1.0], schedule = "gpipe",
                micro_batches = 2 } }"#;
            vec![LATENCY, ("job.parallel", all), ("job.nodes", "2"), SYNC, INTERVAL]
        }),
        ("sharded parameters and smaller batches", {
            let all = "{ data.copies_per_node = 2, zero.stage = 3 }";
            vec![LATENCY, (LOADER, PROCESSES), ("job.parallel", all), SYNC, PCIE]
        }),
        ("interval of 4", vec![("job.batch_interval", "4")]),
        ("interval of 1.5", vec![LATENCY, ("job.batch_interval", "1.5")]),
        ("adaptive interval", {
            vec![
                LATENCY,
                ("job.batch_interval", r#"{ adaptive = { level = "32 samples", max = 5 } }"#),
            ]
        }),
        ("circular", vec![LATENCY, ("job.queue", "\"circular\"")]),
        ("circular, prefilled, epochs", {
            let epochs = ("run", "{ epochs = 0.7, replications = 1 }");
            vec![LATENCY, ("job.queue", "\"circular\""), ("job.prefill", "\"full\""), epochs]
        }),
        ("circular, epochs, pipelines of two copies", {
            let run = ("run", "{ epochs = 0.3, replications = 1 }");
            vec![LATENCY, ("job.queue", "\"circular\""), run, PIPELINE, ("job.copies", "2")]
        }),
        ("epochs of an interval whose product rounds up", {
            let run = ("run", "{ epochs = 1, replications = 1 }");
            vec![run, ("dataset.d.samples", "2720"), ("job.batch_interval", "1.1")]
        }),
        ("prefilled", vec![("job.prefill", "\"40 samples\"")]),
        ("stages", vec![LATENCY, (LOADER, STAGES), PCIE]),
        ("stages in order", vec![LATENCY, (LOADER, ORDERED), PCIE, ("job.nodes", "2")]),
        ("batches of batches", {
            vec![
                LATENCY,
                (LOADER, WHOLE_BATCHES),
                PCIE,
                SHARDS,
                ("dataset.d.decoded_size", "\"1 MB\""),
            ]
        }),
        ("more threads than shared cores", {
            vec![LATENCY, ("cluster.node.cores", "2"), ("job.loader.tf-queue.threads", "9")]
        }),
        ("more threads than core slots", {
            vec![LATENCY, ("cluster.node.cores", "2"), ("job.loader.tf-queue.threads", "9"), FIFO]
        }),
        (
            "core slots for stages",
            vec![LATENCY, FIFO, ("cluster.node.cores", "1"), (LOADER, STAGES)],
        ),
        ("an instant to stop at", {
            vec![
                LATENCY,
                ("run", r#"{ duration = "97 ms", replications = 1 }"#),
                ("job.nodes", "2"),
            ]
        }),
        ("epochs", vec![SHARDS, ("run", "{ epochs = 1.3, replications = 1 }")]),
        (
            "background",
            vec![
                LATENCY,
                (
                    "background",
                    r#"[
            { name = "a", storage = "s", streams = { streams = 20, cap = "30 MB/s" } },
            { name = "b", storage = "s", requests = { rate = "2000 /s", size = { exponential = { mean = "200 kB" } } } }]"#,
                ),
            ],
        ),
        ("launches that wait for cores", {
            let launch =
                r#"{ work = { exponential = { mean = "900 us" } }, threads = 3, gil = 0.2 }"#;
            let two = ("job.parallel", "{ data = { copies_per_node = 2 } }");
            let cores = ("cluster.node.cores", "2");
            vec![LATENCY, ("job.model.launch", launch), cores, two, ("job.nodes", "2")]
        }),
        ("launches before the device", {
            let launch = r#"{ work = "700 us", threads = 2, overlap = false }"#;
            vec![LATENCY, ("job.model.launch", launch), ("job.copies", "2")]
        }),
        ("launches with a core each", vec![LATENCY, ("job.model.launch", "\"1500 us\"")]),
        ("threads with a lock, pinned and copied", {
            vec![LATENCY, PCIE, (LOADER, THREADS), ("job.parallel", TWO_COPIES)]
        }),
        ("processes, not pinned and copied", {
            vec![LATENCY, PCIE, (LOADER, PROCESSES), ("job.parallel", TWO_COPIES)]
        }),
        ("batches copied for a pipeline", vec![LATENCY, PCIE, (LOADER, PROCESSES), PIPELINE]),
        ("all that threads on cores share", {
            vec![
                LATENCY,
                ("cluster.node.cores", "3"),
                ("cluster.node.smt", "{ yield = 1.4 }"),
                ("cluster.node.memory_bandwidth", "\"3 GB/s\""),
                ("job.memory_traffic", "\"2 GB/s\""),
                ("job.inner_threads", "{ threads = 3, efficiency = 0.7 }"),
                ("job.cpu_quota", "2.5"),
                ("job.copies", "2"),
                ("cluster.share_nodes", "true"),
            ]
        }),
        ("jitter", vec![("job.model.jitter", "{ lognormal = { cv = 0.5 } }"), ("job.nodes", "4")]),
    ];
    for (name, changes) in &cases {
        let outcome = audit(name, &changed(changes));
        assert!(outcome.jobs.iter().all(|copy| !copy.steps.is_empty()), "{name}: no steps");
    }
    let two = format!("{}{TWO_JOBS}", base());
    audit("two jobs", &written(&two, &[("storage.s.file-server.latency", LATENCY.1)]));
}
