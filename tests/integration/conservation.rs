//! What must hold in every run, whatever the scenario: nothing is lost, nothing is counted twice.

use forebay::report::{JobOutcome, Outcome, ResourceOutcome, summarise};
use forebay::scenario::{
    BatchInterval, Distribution, Job, Layout, Operation, QueueKind, SampleSizes, Scenario, Stop,
    StorageKind, Unit,
};
use forebay::sim::{Options, run};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};

use super::base::{BASE, changed};
use super::runs::{simulate, written};

/// Two seeds, the same seed twice, and everything that must hold.
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

/// Whether something was drawn that an outcome shows.
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
    u64::from(job.copies_per_node) * u64::from(job.nodes)
}

/// Steps that a job copy may have in progress at once.
fn window(job: &Job) -> u64 {
    job.pipeline.as_ref().map_or(1, |p| if p.overlap { p.shares.len() as u64 } else { 1 })
}

fn audit_samples(name: &str, scenario: &Scenario, job: &Job, copy: &JobOutcome) {
    let counts = copy.samples;
    assert_eq!(counts.started, counts.enqueued + counts.in_progress, "{name}: {counts:?}");
    let inside = counts.dequeued + counts.overwritten + counts.left;
    assert_eq!(copy.queue.initial + counts.enqueued, inside, "{name}: {counts:?}");
    assert_eq!(copy.queue.initial, job.prefill * u64::from(job.nodes), "{name}");
    assert!(copy.queue.level <= copy.queue.capacity, "{name}");
    if job.queue == QueueKind::Bounded {
        assert_eq!((counts.left, counts.overwritten), (copy.queue.level, 0), "{name}");
        let fresh = copy.steps.iter().all(|step| step.fresh % job.batch == 0);
        assert!(fresh, "{name}: a fresh batch is fresh as a whole");
    }
    let workers: u64 = job.loader.stages.iter().map(|stage| u64::from(stage.workers)).sum();
    let items: u64 = job.loader.stages.iter().map(|s| s.buffer.saturating_mul(job.batch)).sum();
    let most = (workers * job.batch + items) * u64::from(job.nodes);
    assert!(counts.in_progress <= most, "{name}: {} in progress", counts.in_progress);
    let fresh: u64 = copy.steps.iter().map(|step| step.fresh).sum();
    assert!(fresh <= counts.dequeued, "{name}: {fresh} fresh");
    let open = window(job) * models(job) * job.batch;
    assert!(counts.dequeued - fresh <= open, "{name}: {} of {fresh}", counts.dequeued);
    assert!(copy.steps.iter().all(|s| s.samples == job.batch * models(job)), "{name}");
    let epochs = fresh as f64 / scenario.datasets[job.dataset].samples as f64;
    match scenario.run.stop {
        Stop::Steps(steps) => assert_eq!(copy.steps.len() as u64, steps, "{name}"),
        Stop::Epochs(asked) => assert!(epochs >= asked, "{name}: {epochs} epochs of {asked}"),
        Stop::Duration(seconds) => {
            assert!(copy.steps.iter().all(|step| step.end <= seconds), "{name}");
        }
    }
    if let (BatchInterval::Every(k), QueueKind::Bounded) = (job.batch_interval, job.queue) {
        let batches = ((copy.steps.len() as f64 - 1.0).max(0.0) / k).floor() as u64 + 1;
        let expected = batches * job.batch * models(job);
        if window(job) == 1 && !copy.steps.is_empty() {
            assert_eq!(fresh, expected, "{name}");
        } else {
            assert!(fresh <= expected + open, "{name}: {fresh} fresh of {expected}");
        }
        if !matches!(scenario.run.stop, Stop::Duration(_)) && !copy.steps.is_empty() {
            let read = counts.started + copy.queue.initial;
            assert!(read >= fresh, "{name}");
            assert!(read <= expected.max(copy.queue.initial), "{name}: reads more than it needs");
        }
    }
}

fn audit_queue(name: &str, job: &Job, copy: &JobOutcome) {
    let mut before = Default::default();
    let nodes = f64::from(job.nodes);
    for (index, step) in copy.steps.iter().enumerate() {
        let now = step.queue;
        let elapsed = step.end - copy.start;
        let slack = 1e-9 * (1.0 + elapsed);
        assert!(now.enqueued >= before, "{name}: step {index}");
        before = now.enqueued;
        let workers = copy.queue.workers as f64;
        assert!(now.blocked_seconds <= workers * elapsed + slack, "{name}: step {index}");
        assert!(now.empty_seconds <= elapsed + slack, "{name}: step {index}");
        assert!(now.level_seconds <= copy.queue.capacity as f64 * elapsed * (1.0 + 1e-9), "{name}");
        if job.queue == QueueKind::Circular {
            continue;
        }
        // Little's law: exactly when nobody is inside, and short by those inside otherwise.
        let inside = copy.queue.initial + now.enqueued - now.dequeued;
        let short = now.level_seconds - now.residence_seconds;
        let rounding = 1e-12 * nodes * (1.0 + now.level_seconds);
        assert!(short >= -rounding, "{name}: step {index}: {short}");
        assert!(short <= inside as f64 * elapsed + rounding, "{name}: step {index}: {short}");
    }
    let (mut at, end) = (copy.start, f64::MAX);
    for exhaustion in &copy.queue.exhaustions {
        assert!(exhaustion.start >= at && exhaustion.duration >= 0.0, "{name}: {exhaustion:?}");
        assert!(exhaustion.start < end, "{name}");
        at = exhaustion.start;
    }
    if !copy.series.bins.is_empty() {
        let steps: u64 = copy.series.bins.iter().map(|bin| bin.steps).sum();
        assert_eq!(steps, copy.steps.len() as u64, "{name}: steps of the series");
        let seconds: f64 = copy.series.bins.iter().map(|bin| bin.step_seconds).sum();
        let elapsed = copy.steps.last().map_or(0.0, |step| step.end - copy.start);
        assert!((seconds - elapsed).abs() <= 1e-9 * (1.0 + elapsed), "{name}: {seconds}");
    }
    if copy.copy == 0 {
        let enqueued: u64 = copy.series.bins.iter().map(|bin| bin.enqueued).sum();
        assert_eq!(enqueued, copy.samples.enqueued, "{name}: enqueued in the series");
    }
}

fn audit_times(name: &str, scenario: &Scenario, job: &Job, copy: &JobOutcome) {
    assert!(copy.stalls.windows(2).all(|pair| pair[0].step <= pair[1].step), "{name}");
    let mut stalls = copy.stalls.iter().peekable();
    let (mut start, mut stalled, mut computed) = (copy.start, 0.0, 0.0);
    for (index, step) in copy.steps.iter().enumerate() {
        let duration = step.end - start;
        assert!(duration >= 0.0, "{name}: step {index} ends before it begins");
        let mut stall = 0.0;
        while let Some(next) = stalls.next_if(|next| next.step as usize == index) {
            assert!(next.seconds >= 0.0, "{name}: {next:?}");
            stall += next.seconds;
        }
        let sum = step.compute + stall;
        if window(job) == 1 {
            let near = (sum - duration).abs() <= 1e-9 * duration + 4e-12;
            assert!(near, "{name}: step {index} takes {duration} and accounts for {sum}");
        }
        (start, stalled, computed) = (step.end, stalled + stall, computed + step.compute);
    }
    assert!(stalls.next().is_none(), "{name}: a stall of a step that is not there");
    let elapsed = start - copy.start;
    // Stall and utilisation are all there is.
    let (sum, rounding) = (stalled + computed, 1e-12 * (1 + copy.steps.len()) as f64);
    let near = (sum - elapsed).abs() <= 1e-9 * elapsed + rounding;
    assert!(near, "{name}: {elapsed} s and accounts for {sum}");
    let step =
        (job.step.fixed + job.step.per_sample * job.batch as f64) / scenario.cluster.node.gpu_speed;
    if job.step.jitter.is_none() && job.pipeline.is_none() {
        let expected = step * copy.steps.len() as f64;
        assert!((computed - expected).abs() <= 1e-9 * expected + rounding, "{name}: {computed}");
    }
}

fn named<'o>(outcome: &'o Outcome, name: &str) -> Option<&'o ResourceOutcome> {
    outcome.resources.iter().find(|resource| resource.name == name)
}

fn assert_between(what: &str, low: f64, value: f64, high: f64) {
    let slack = 1e-7 * high + 1e-6;
    assert!(low - slack <= value && value <= high + slack, "{what}: {low} ≤ {value} ≤ {high}");
}

/// Bytes and operations served are those of the samples read, between those that have reached the
/// queue and those that were begun.
fn audit_resources(name: &str, scenario: &Scenario, outcome: &Outcome) {
    for resource in &outcome.resources {
        let name = format!("{name}: {}", resource.name);
        assert!(resource.utilisation_max <= 1.0 + 1e-9, "{name}: {}", resource.utilisation_max);
        assert!(resource.utilisation <= resource.utilisation_max + 1e-12, "{name}");
        assert!(resource.served >= 0.0 && resource.mean_flows >= 0.0, "{name}");
    }
    for (index, storage) in scenario.storage.iter().enumerate() {
        if scenario.background.iter().any(|load| load.storage == index) {
            continue;
        }
        let copies = || outcome.jobs.iter().filter(|c| scenario.jobs[c.job].storage == index);
        let (bytes, opens) = asked(scenario, copies());
        if let (Some(link), Some((low, high))) =
            (named(outcome, &format!("{}.bandwidth", storage.name)), bytes)
        {
            assert_between(&format!("{name}: bytes of {}", storage.name), low, link.served, high);
        }
        if let Some(station) = named(outcome, &format!("{}.operations", storage.name)) {
            let what = format!("{name}: operations of {}", storage.name);
            assert_between(&what, opens.0, station.served, opens.1);
        }
    }
    let remote =
        |job: &Job| matches!(scenario.storage[job.storage].kind, StorageKind::FileServer { .. });
    let copies = outcome.jobs.iter().filter(|c| remote(&scenario.jobs[c.job]));
    if let (Some(nic), Some((low, high))) = (named(outcome, "node.nic"), asked(scenario, copies).0)
    {
        assert_between(&format!("{name}: bytes of NICs"), low, nic.served, high);
    }
    audit_cores(name, scenario, outcome);
}

/// Least and most bytes (for constant sizes) and operations of some job copies.
fn asked<'o>(
    scenario: &Scenario,
    copies: impl Iterator<Item = &'o JobOutcome>,
) -> (Option<(f64, f64)>, (f64, f64)) {
    let (mut bytes, mut opens) = (Some((0.0, 0.0)), (0.0, 0.0));
    for copy in copies {
        let job = &scenario.jobs[copy.job];
        let dataset = &scenario.datasets[job.dataset];
        let (least, most) = (copy.samples.enqueued as f64, copy.samples.started as f64);
        let readers = f64::from(job.loader.stages[0].workers) * f64::from(job.nodes);
        let (ahead, least_opens, most_opens) = match dataset.layout {
            Layout::FilePerSample => (0.0, least, most),
            Layout::Shards { samples_per_shard, request } => {
                let n = samples_per_shard.min(dataset.samples) as f64;
                // The last shard of an epoch may be short: one in so many that are opened.
                let files = (dataset.samples as f64 / n).ceil();
                let whole = if files > 1.0 { 1.0 - 1.0 / files } else { 1.0 };
                (readers * request, least / n - 1.0, (most / n + readers + 1.0) / whole)
            }
        };
        opens = (opens.0 + least_opens.max(0.0), opens.1 + most_opens);
        bytes = match (&dataset.sizes, bytes) {
            (SampleSizes::Drawn(Distribution::Constant(size)), Some((low, high))) => {
                Some((low + least * size, high + most * size + ahead))
            }
            _ => None,
        };
    }
    (bytes, opens)
}

/// Core-seconds are those of the samples, where their work is constant.
fn audit_cores(name: &str, scenario: &Scenario, outcome: &Outcome) {
    let (mut low, mut high) = (0.0, 0.0);
    for copy in &outcome.jobs {
        let job = &scenario.jobs[copy.job];
        for stage in &job.loader.stages {
            let items = if stage.unit == Unit::Batch { job.batch as f64 } else { 1.0 };
            let lists = [(&stage.per_sample, 1.0), (&stage.per_item, items)];
            for (operations, samples) in lists {
                for operation in operations {
                    match operation {
                        Operation::Compute(Distribution::Constant(work)) => {
                            low += work * copy.samples.enqueued as f64 / samples;
                            high += work * copy.samples.started as f64 / samples;
                        }
                        Operation::Compute(_) => return,
                        _ => {}
                    }
                }
            }
        }
    }
    let Some(cores) = named(outcome, "node.cores") else { panic!("{name}: there are cores") };
    assert_between(&format!("{name}: core-seconds"), low, cores.served, high);
}

/// JSON knows no infinity and no NaN; a report must not need them.
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

#[test]
fn everything_balances_in_scenarios_of_every_kind() {
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
        ("jitter", vec![("job.model.jitter", "{ lognormal = { cv = 0.5 } }"), ("job.nodes", "4")]),
    ];
    for (name, changes) in &cases {
        let outcome = audit(name, &changed(changes));
        assert!(outcome.jobs.iter().all(|copy| !copy.steps.is_empty()), "{name}: no steps");
    }
    let two = format!("{BASE}{TWO_JOBS}");
    audit("two jobs", &written(&two, &[("storage.s.file-server.latency", LATENCY.1)]));
}

/// Text of a random valid scenario.
fn scenarios() -> impl Strategy<Value = String> {
    let time = || {
        prop_oneof![
            (1..3000_u32).prop_map(|us| format!("\"{us} us\"")),
            (1..900_u32).prop_map(|us| format!("{{ exponential = {{ mean = \"{us} us\" }} }}")),
            (1..900_u32)
                .prop_map(|us| format!("{{ lognormal = {{ mean = \"{us} us\", cv = 1.2 }} }}")),
        ]
    };
    let size = prop_oneof![
        3 => (1..300_u32).prop_map(|kb| format!("\"{kb} kB\"")),
        1 => (1..300_u32).prop_map(|kb| format!("{{ exponential = {{ mean = \"{kb} kB\" }} }}")),
    ];
    let bandwidth = prop_oneof![
        (50..3000_u32).prop_map(|mb| format!("\"{mb} MB/s\"")),
        prop::collection::vec(50..3000_u32, 1..5).prop_map(|table| {
            let list: Vec<String> = table.iter().map(|mb| format!("\"{mb} MB/s\"")).collect();
            format!("[{}]", list.join(", "))
        }),
    ];
    let storage = (bandwidth, time(), 0..3_u8, 20..900_u32, 500..50_000_u32, any::<[bool; 2]>())
        .prop_map(|(bandwidth, latency, kind, stream, operations, given)| {
            let mut rest = format!(", latency = {latency}");
            if given[0] {
                rest += &format!(", per_stream = \"{stream} MB/s\"");
            }
            if given[1] {
                rest += &format!(", operations = \"{operations} /s\"");
            }
            match kind {
                0 => format!("{{ memory = {{ bandwidth = {bandwidth} }} }}"),
                1 => format!("{{ local-disk = {{ bandwidth = {bandwidth}{rest} }} }}"),
                _ => format!("{{ file-server = {{ bandwidth = {bandwidth}{rest} }} }}"),
            }
        });
    let layout = prop_oneof![
        Just("{ file-per-sample = {} }".to_owned()),
        (1..120_u32, 1..900_u32).prop_map(|(n, kib)| {
            format!("{{ shards = {{ samples = {n}, request = \"{kib} KiB\" }} }}")
        }),
    ];
    let order = || prop_oneof![Just("any"), Just("in-order")];
    let stages =
        (1..6_u32, 1..6_u32, 1..4_u32, 0..12_u32, 0..20_u32, order(), order(), time(), time());
    let loader = move |batch: u32| {
        prop_oneof![
            (1..12_u32, 0..60_u32, time()).prop_map(move |(threads, more, decode)| {
                let capacity = batch + more;
                let text = format!(
                    "{{ tf-queue = {{ threads = {threads}, capacity = \"{capacity} samples\", \
                     decode = {decode} }} }}"
                );
                (text, capacity, false)
            }),
            stages.clone().prop_map(move |(a, b, c, small, more, o, p, t, u)| {
                let (first, last) = (1 + small, batch + more);
                let text = format!(
                    "{{ stages = [{{ name = \"a\", workers = {a}, per_sample = [\"read\"], order = \
                     \"{o}\", buffer = {first} }}, {{ name = \"b\", workers = {b}, per_sample = \
                     [{{ delay = {t} }}, {{ compute = {u} }}], order = \"{p}\", buffer = {last} }}, \
                     {{ name = \"c\", workers = {c}, per_item = [\"copy\"], order = \"{o}\", buffer \
                     = {last} }}] }}"
                );
                (text, last, false)
            }),
            stages.clone().prop_map(move |(a, b, c, small, more, o, p, t, u)| {
                let (first, last) = (batch + small, 1 + more % 4);
                let text = format!(
                    "{{ stages = [{{ name = \"a\", workers = {a}, per_sample = [\"read\", {{ compute \
                     = {t} }}], order = \"{o}\", buffer = {first} }}, {{ name = \"b\", workers = {b}, \
                     unit = \"batch\", per_item = [{{ compute = {u} }}], order = \"{p}\", buffer = \
                     {last} }}, {{ name = \"c\", workers = {c}, unit = \"batch\", per_item = \
                     [\"copy\"], buffer = {last} }}] }}"
                );
                (text, last * batch, true)
            }),
        ]
    };
    let run = prop_oneof![
        (1..40_u32).prop_map(|steps| format!("steps = {steps}")),
        (1..40_u32).prop_map(|steps| format!("steps = {steps}")),
        (1..20_u32).prop_map(|tenths| format!("epochs = {}", f64::from(tenths) / 10.0)),
        (1..200_u32).prop_map(|ms| format!("duration = \"{ms} ms\"")),
    ];
    let job = (1..12_u32).prop_flat_map(move |batch| {
        let interval = prop_oneof![
            3 => Just("1".to_owned()),
            1 => (10..50_u32).prop_map(|tenths| format!("{}", f64::from(tenths) / 10.0)),
            1 => (1..6_u32).prop_map(move |max| {
                format!("{{ adaptive = {{ level = \"{batch} samples\", max = {max} }} }}")
            }),
        ];
        let parallel = (1..3_u32, 1..4_u32, any::<bool>());
        (
            Just(batch),
            loader(batch),
            interval,
            parallel,
            1..4_u32,
            1..3_u32,
            any::<[bool; 3]>(),
            (1..5000_u32, 0..3000_u32),
        )
    });
    let cluster = (1..6_u32, any::<bool>(), 50..2000_u32, any::<[bool; 2]>());
    (run, cluster, storage, size, layout, job, 40..400_u32).prop_map(
        |(run, (cores, fifo, nic, limited), storage, size, layout, job, samples)| {
            let (batch, (loader, capacity, batches), interval, parallel, nodes, copies, has, times) = job;
            let (models, stages, overlap) = parallel;
            let circular = has[0] && !batches && !interval.contains("adaptive");
            let prefill = match (has[1], batches) {
                (false, _) => String::new(),
                (true, true) => "prefill = \"full\"".to_owned(),
                (true, false) => format!("prefill = \"{} samples\"", capacity / 2),
            };
            let scheduling = if fifo { "fifo" } else { "shared" };
            let nic = if limited[0] { format!("nic = \"{nic} MB/s\"\n") } else { String::new() };
            let pcie = if limited[1] { "pcie = \"700 MB/s\"\n" } else { "" };
            let queue = if circular { "circular" } else { "bounded" };
            let jitter = if has[2] { "jitter = { gamma = { cv = 0.5 } }\n" } else { "" };
            let (step, stagger) = times;
            format!(
                "name = \"random\"\n[run]\n{run}\nreplications = 1\nwarm_up = \"off\"\n[cluster]\n\
                 nodes = 8\n[cluster.node]\ncores = {cores}\nscheduling = \"{scheduling}\"\ngpus = 6\n\
                 {pcie}[cluster.network]\n{nic}latency = \"7 us\"\n[storage]\ns = {storage}\n\
                 [dataset.d]\nsamples = {samples}\nsample_size = {size}\nlayout = {layout}\n[[job]]\n\
                 name = \"j\"\nnodes = {nodes}\ncopies = {copies}\nstagger = \"{stagger} us\"\n\
                 dataset = \"d\"\nstorage = \"s\"\nbatch = {batch}\nbatch_interval = {interval}\n\
                 queue = \"{queue}\"\n{prefill}\nloader = {loader}\nmodel.step = \"{step} us\"\n\
                 model.{jitter_line}parallel.data.copies_per_node = {models}\n\
                 parallel.pipeline = {{ stages = {stages}, overlap = {overlap} }}\n",
                jitter_line = if jitter.is_empty() { "step_note" } else { jitter }
            )
            .replace("model.step_note", "")
        },
    )
}

#[test]
fn everything_balances_in_random_scenarios() {
    let config = Config {
        cases: 400,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(7),
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&scenarios(), |text| {
        audit("random", &written(&text, &[]));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
