//! Steps that repeat exactly are not simulated, and the outcome is that of the whole run.

use forebay::report::{self, JobOutcome, Outcome, QueueTotals, RepeatedSteps, ResourceOutcome};
use forebay::scenario::{Override, Scenario, ScenarioFile};
use forebay::sim::{Options, run};

/// Jobs of data-parallel ranks whose batches are always there.
const DATA_PARALLEL: &str = r#"
name = "steady"
[run]
steps = 60
warm_up = "off"
[cluster]
nodes = 4
node = { cores = 8, gpus = 2, power = { idle = "100 W", gpu = "300 W", core = "5 W" } }
network = { nic = "25 Gbit/s", latency = "2 us" }
[storage.memory.memory]
[storage.nfs.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 1000
sample_size = "110 kB"
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "memory"
batch = 32
loader.in-memory = {}
model.step = "17.3 ms"
parallel.data.copies_per_node = 2
sync.allreduce = { gradients = "40 MB", buckets = "10 MB" }
"#;

/// A model that is split over the GPUs of nodes and over nodes.
const SPLIT: &str = r#"
name = "split"
[run]
steps = 30
warm_up = "off"
[cluster]
nodes = 4
[cluster.node]
cores = 16
gpus = 4
nics = 4
intra = { kind = "switch", bandwidth = "450 GB/s" }
[cluster.network]
nic = "400 Gbit/s"
[storage.memory.memory]
[storage.nfs.file-server]
bandwidth = "10 GB/s"
[dataset.d]
samples = 100000
sample_size = "4 KiB"
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "memory"
batch = 16
loader.in-memory = {}
model.step = "0.1 s"
sync.allreduce = { gradients = "1 GB", buckets = "200 MB" }
parallel.tensor = { ranks = 4, allreduces = 8, activations = "2 MB" }
parallel.pipeline = { stages = 2, schedule = "1f1b", micro_batches = 8, stages_per_node = 1 }
"#;

/// A loader that is faster than training, and whose samples are all alike.
const LOADER: &str = r#"
name = "loader"
[run]
epochs = 3
warm_up = "off"
[cluster]
nodes = 2
node.cores = 8
network.nic = "25 Gbit/s"
[storage.nfs.file-server]
bandwidth = "1 GB/s"
latency = "0.5 ms"
operations = "20000 /s"
[dataset.d]
samples = 1600
sample_size = "110 kB"
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "nfs"
batch = 8
loader.tf-queue = { threads = 3, capacity = "64 samples", decode = "0.4 ms" }
model.step = "17.3 ms"
sync.allreduce.gradients = "10 MB"
"#;

fn scenario(text: &str, changes: &[&str]) -> Scenario {
    let file = ScenarioFile::parse("steady.toml", text.to_owned());
    let file = file.unwrap_or_else(|problems| panic!("{problems}"));
    let changes = changes.iter().map(|change| change.parse::<Override>().expect("an override"));
    file.resolve(&changes.collect::<Vec<_>>()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn outcome(text: &str, changes: &[&str], steady_state: &str) -> Outcome {
    let key = format!("fidelity.steady_state=\"{steady_state}\"");
    let scenario = scenario(text, &[changes, &[&key]].concat());
    run(&scenario, 0, &Options::default())
}

/// Asserts that two numbers are equal up to rounding.
#[track_caller]
fn near(what: &str, skipped: f64, full: f64) {
    let error = (skipped - full).abs();
    assert!(error <= 1e-9 * full.abs() + 1e-15, "{what}: {skipped}, in full {full}");
}

#[track_caller]
fn near_totals(what: &str, skipped: QueueTotals, full: QueueTotals) {
    near(what, skipped.level_seconds, full.level_seconds);
    near(what, skipped.empty_seconds, full.empty_seconds);
    near(what, skipped.blocked_seconds, full.blocked_seconds);
    near(what, skipped.residence_seconds, full.residence_seconds);
    let counts = |of: QueueTotals| [of.started, of.enqueued, of.dequeued];
    assert_eq!(counts(skipped), counts(full), "{what}");
}

#[track_caller]
fn near_jobs(skipped: &JobOutcome, full: &JobOutcome) {
    assert_eq!(skipped.steps.len(), full.steps.len());
    for (number, (a, b)) in skipped.steps.iter().zip(&full.steps).enumerate() {
        assert_eq!(a.end, b.end, "the end of step {number}, to the picosecond");
        assert_eq!((a.samples, a.fresh), (b.samples, b.fresh), "step {number}");
        near("compute", a.compute, b.compute);
        near_totals(&format!("queue after step {number}"), a.queue, b.queue);
    }
    let causes = |of: &JobOutcome| of.stalls.iter().map(|s| (s.step, s.cause)).collect::<Vec<_>>();
    assert_eq!(causes(skipped), causes(full));
    for (a, b) in skipped.stalls.iter().zip(&full.stalls) {
        near("stall", a.seconds, b.seconds);
    }
    assert_eq!(skipped.samples, full.samples);
    assert_eq!(skipped.first_batches, full.first_batches);
    assert_eq!(skipped.start, full.start);
    let (a, b) = (&skipped.queue, &full.queue);
    assert_eq!(
        (a.capacity, a.initial, a.level, a.workers),
        (b.capacity, b.initial, b.level, b.workers)
    );
    assert_eq!(a.exhaustions.len(), b.exhaustions.len());
    for (a, b) in a.exhaustions.iter().zip(&b.exhaustions) {
        near("exhaustion", a.start, b.start);
        near("exhaustion", a.duration, b.duration);
    }
    assert_eq!(skipped.series.width, full.series.width);
    assert_eq!(skipped.series.bins.len(), full.series.bins.len());
    for (number, (a, b)) in skipped.series.bins.iter().zip(&full.series.bins).enumerate() {
        assert_eq!(
            (a.enqueued, a.dequeued, a.steps),
            (b.enqueued, b.dequeued, b.steps),
            "{number}"
        );
        // A bin is a difference of totals over the whole run.
        for (a, b) in [
            (a.level_seconds, b.level_seconds),
            (a.blocked_seconds, b.blocked_seconds),
            (a.step_seconds, b.step_seconds),
        ] {
            assert!(
                (a - b).abs() <= 1e-9 * b.abs().max(full.series.width),
                "bin {number}: {a}, {b}"
            );
        }
    }
    assert_eq!(skipped.parallel.is_some(), full.parallel.is_some());
    for (a, b) in skipped.parallel.iter().zip(&full.parallel) {
        near("activations", a.activations, b.activations);
        near("sums", a.sums, b.sums);
        near("gradients", a.gradients, b.gradients);
    }
    assert_eq!(skipped.recovery.is_some(), full.recovery.is_some());
    for (a, b) in skipped.recovery.iter().zip(&full.recovery) {
        assert_eq!((a.checkpoints, a.postponed), (b.checkpoints, b.postponed));
        assert_eq!((a.failures, a.unwritten, a.backlog), (b.failures, b.unwritten, b.backlog));
        assert_eq!((a.backlog_half_way, a.backlog_at_end), (b.backlog_half_way, b.backlog_at_end));
        near("written", a.written, b.written);
        near("writing", a.writing_seconds, b.writing_seconds);
        near("transfers", a.transfer_seconds, b.transfer_seconds);
        near("lost", a.lost_seconds, b.lost_seconds);
        near("backlog", a.backlog_bytes, b.backlog_bytes);
    }
    assert_eq!(skipped.checkpoints.len(), full.checkpoints.len());
    for (a, b) in skipped.checkpoints.iter().zip(&full.checkpoints) {
        near("checkpoint", *a, *b);
    }
}

#[track_caller]
fn near_resources(skipped: &[ResourceOutcome], full: &[ResourceOutcome]) {
    assert_eq!(skipped.len(), full.len());
    for (a, b) in skipped.iter().zip(full) {
        assert_eq!((&a.name, a.count), (&b.name, b.count));
        near(&b.name, a.capacity, b.capacity);
        near(&b.name, a.served, b.served);
        near(&b.name, a.utilisation, b.utilisation);
        near(&b.name, a.utilisation_max, b.utilisation_max);
        near(&b.name, a.mean_flows, b.mean_flows);
        near_resources(&a.groups, &b.groups);
    }
}

/// Asserts that two outcomes are equal, but for what was simulated.
#[track_caller]
fn near_outcomes(skipped: &Outcome, full: &Outcome) {
    assert_eq!(full.repeated, None);
    assert_eq!(skipped.makespan, full.makespan);
    assert_eq!(skipped.unfinished, full.unfinished);
    assert_eq!(skipped.jobs.len(), full.jobs.len());
    for (a, b) in skipped.jobs.iter().zip(&full.jobs) {
        near_jobs(a, b);
    }
    near_resources(&skipped.resources, &full.resources);
    assert_eq!(skipped.energy.is_some(), full.energy.is_some());
    for (a, b) in skipped.energy.iter().zip(&full.energy) {
        near("seconds", a.seconds, b.seconds);
        near("idle", a.idle, b.idle);
        near("gpus", a.gpus, b.gpus);
        near("cores", a.cores, b.cores);
    }
}

/// Asserts that a run that leaves steps out gives the outcome of the whole run; returns which steps it left out.
#[track_caller]
fn leaves_out(text: &str, changes: &[&str]) -> RepeatedSteps {
    let skipped = outcome(text, changes, "skip");
    let full = outcome(text, changes, "simulate");
    near_outcomes(&skipped, &full);
    assert!(skipped.events < full.events && skipped.flows <= full.flows);
    assert_eq!(skipped.events_of_all_steps(), full.events);
    let repeated =
        skipped.repeated.unwrap_or_else(|| panic!("{changes:?}: all steps are simulated"));
    assert_eq!(repeated.job, "j");
    assert_eq!((repeated.last - repeated.first + 1) % repeated.cycle, 0);
    repeated
}

/// Asserts that all steps are simulated.
#[track_caller]
fn simulates_all(text: &str, changes: &[&str]) {
    let skipped = outcome(text, changes, "skip");
    let full = outcome(text, changes, "simulate");
    assert_eq!(skipped.repeated, None, "{changes:?}");
    assert_eq!((skipped.events, skipped.flows), (full.events, full.flows));
    near_outcomes(&skipped, &full);
}

#[test]
fn repeated_steps_of_data_parallel_jobs_are_left_out() {
    let repeated = leaves_out(DATA_PARALLEL, &[]);
    assert_eq!((repeated.first, repeated.last, repeated.cycle), (6, 59, 1));
    leaves_out(DATA_PARALLEL, &["job.sync.allreduce.fidelity=\"analytic\""]);
    leaves_out(DATA_PARALLEL, &["job.sync.allreduce.algorithm=\"hierarchical\""]);
    leaves_out(DATA_PARALLEL, &["job.model.step=\"1 us\"", "run.steps=3000"]);
    leaves_out(DATA_PARALLEL, &["run.steps=7"]);
    simulates_all(DATA_PARALLEL, &["run.steps=5"]);
    let group = "cluster.group={ old = { nodes = 1, node = { gpus = 2, gpu_speed = 0.5 } } }";
    leaves_out(DATA_PARALLEL, &[group, "cluster.nodes=3"]);
}

#[test]
fn runs_that_end_with_epochs_or_at_a_time_leave_whole_cycles_out() {
    leaves_out(DATA_PARALLEL, &["run={ epochs = 20, warm_up = \"off\" }"]);
    for end in ["1 s", "1.0123456789 s", "7.77 s"] {
        let run = format!("run={{ duration = \"{end}\", warm_up = \"off\" }}");
        leaves_out(DATA_PARALLEL, &[&run]);
    }
    // The run ends just when a step does.
    let end = outcome(DATA_PARALLEL, &[], "simulate").jobs[0].steps[40].end;
    let run = format!("run={{ duration = \"{end} s\", warm_up = \"off\" }}");
    leaves_out(DATA_PARALLEL, &[&run]);
}

#[test]
fn steps_are_left_out_in_cycles_of_accumulated_or_local_steps() {
    let accumulated = leaves_out(DATA_PARALLEL, &["job.accumulation=3"]);
    assert_eq!(accumulated.cycle, 3);
    let local =
        leaves_out(DATA_PARALLEL, &["job.sync.allreduce={ gradients = \"40 MB\", period = 4 }"]);
    assert_eq!(local.cycle, 4);
    let rare = "job.sync.allreduce={ gradients = \"40 MB\", period = 40 }";
    assert_eq!(leaves_out(DATA_PARALLEL, &[rare, "run.steps=400"]).cycle, 40);
    let echoed = leaves_out(DATA_PARALLEL, &["job.batch_interval=5", "run.steps=101"]);
    assert_eq!(echoed.cycle, 5);
}

#[test]
fn repeated_steps_of_split_models_are_left_out() {
    let repeated = leaves_out(SPLIT, &[]);
    assert_eq!(repeated.cycle, 1);
    leaves_out(SPLIT, &["job.parallel.zero.stage=1"]);
    leaves_out(SPLIT, &["job.parallel.pipeline.schedule=\"gpipe\""]);
}

#[test]
fn cycles_with_checkpoints_are_left_out() {
    let every = "job.checkpoint={ steps = 4, bytes = \"1 GB\", storage = \"nfs\" }";
    let repeated = leaves_out(DATA_PARALLEL, &[every]);
    assert_eq!(repeated.cycle, 4);
    leaves_out(DATA_PARALLEL, &[every, "run={ duration = \"20 s\", warm_up = \"off\" }"]);
    leaves_out(SPLIT, &[every]);
    let beside = |bytes: &str| {
        let settings = format!("steps = 10, bytes = \"{bytes}\", asynchronous = true");
        format!("job.checkpoint={{ {settings}, storage = \"nfs\" }}")
    };
    leaves_out(DATA_PARALLEL, &[&beside("100 MB"), "run.steps=200"]);
    // A checkpoint is always being written.
    simulates_all(DATA_PARALLEL, &[&beside("10 GB"), "run.steps=200"]);
    let seldom = "job.checkpoint={ steps = 40, bytes = \"1 GB\", storage = \"nfs\" }";
    assert_eq!(leaves_out(DATA_PARALLEL, &[seldom, "run.steps=400"]).cycle, 40);
    // Checkpoints at times come again with steps too, as the interval counts from the end of the last one.
    let timed = "job.checkpoint={ interval = \"0.1 s\", bytes = \"1 GB\", storage = \"nfs\" }";
    leaves_out(DATA_PARALLEL, &[timed, "run.steps=200"]);
    let rare = "job.checkpoint={ interval = \"1 h\", bytes = \"1 GB\", storage = \"nfs\" }";
    assert_eq!(leaves_out(DATA_PARALLEL, &[rare]).cycle, 1);
}

#[test]
fn steps_are_left_out_only_after_the_last_failure_or_fault() {
    let fault = "fault=[{ node = \"gpus\", nodes = [1], factor = 0.5, from = \"0.3 s\", until = \"0.7 s\" }]";
    let repeated = leaves_out(DATA_PARALLEL, &[fault]);
    let full = outcome(DATA_PARALLEL, &[fault], "simulate");
    assert!(full.jobs[0].steps[repeated.first as usize - 2].end > 0.7, "{repeated:?}");
    let far = "job.failures={ mtbf = \"1000 h\", restart = \"10 s\" }";
    leaves_out(DATA_PARALLEL, &[far]);
    leaves_out(
        SPLIT,
        &[far, "job.checkpoint={ interval = \"30 min\", bytes = \"1 GB\", storage = \"nfs\" }"],
    );
    let soon = "job.failures={ at = [\"0.5 s\"], restart = \"1 s\" }";
    simulates_all(DATA_PARALLEL, &[soon]);
}

#[test]
fn loaders_that_keep_their_queue_full_repeat_too() {
    // Three threads take turns on batches of eight samples.
    assert_eq!(leaves_out(LOADER, &[]).cycle, 3);
    assert_eq!(leaves_out(LOADER, &["job.model.step=\"1 ms\""]).cycle, 3);
    leaves_out(LOADER, &["job.batch_interval={ adaptive = { level = \"64 samples\", max = 3 } }"]);
    leaves_out(LOADER, &["run={ steps = 500, warm_up = \"off\" }"]);
    leaves_out(LOADER, &["run={ duration = \"5 s\", warm_up = \"off\" }"]);
}

#[test]
fn runs_with_anything_that_is_drawn_kept_or_tuned_are_simulated_in_full() {
    for change in [
        "job.model.jitter.lognormal.cv=0.1",
        "job.model.launch={ work = { exponential = { mean = \"1 ms\" } } }",
        "job.copies=2",
    ] {
        simulates_all(DATA_PARALLEL, &[change, "job.nodes=2"]);
    }
    for change in [
        "dataset.d.sample_size={ uniform = { low = \"110 kB\", high = \"110000.0000001 B\" } }",
        "job.loader.tf-queue.decode={ uniform = { low = \"0.4 ms\", high = \"0.4000000000001 ms\" } }",
        "storage.nfs.file-server.latency={ uniform = { low = \"0.5 ms\", high = \"0.5000000000001 ms\" } }",
        "dataset.d.sample_size={ lognormal = { median = \"100 kB\", p99 = \"200 kB\" } }",
        "job.loader.tf-queue.decode={ exponential = { mean = \"0.4 ms\" } }",
        "storage.nfs.file-server.latency={ exponential = { mean = \"0.5 ms\" } }",
        "cluster.node.page_cache={ capacity = \"1 GB\", bandwidth = \"10 GB/s\" }",
        "storage.nfs.file-server.burst={ bandwidth = \"2 GB/s\", bucket = \"1 GB\" }",
        "background=[{ name = \"b\", storage = \"nfs\", requests = { rate = \"100 /s\", size = \"1 MB\" } }]",
        // The loader is slower than training, so that its threads never rest.
        "job.loader.tf-queue.decode=\"10 ms\"",
    ] {
        simulates_all(LOADER, &[change]);
    }
}

#[test]
fn reports_say_which_steps_were_left_out() {
    for (change, sentence, [first, last, cycle]) in [
        ("run.steps=60", "Steps 6 to 59 of `j` repeat step 5 and were not simulated", [6, 59, 1]),
        ("run.steps=7", "Step 6 of `j` repeats step 5 and was not simulated", [6, 6, 1]),
        (
            "job.accumulation=3",
            "Steps 13 to 57 of `j` repeat steps 10 to 12 and were not simulated",
            [13, 57, 3],
        ),
    ] {
        let scenario = scenario(DATA_PARALLEL, &[change]);
        let outcome = run(&scenario, 0, &Options::default());
        let report = report::summarise(&scenario, &[outcome], 0.0);
        let text = report::text::render(&report, 200, false);
        assert!(text.contains(&format!("{sentence} (`fidelity.steady_state`).")), "{text}");
        let json = serde_json::to_value(&report).expect("JSON");
        let of = |key: &str| json["repeated_steps"][key].as_u64();
        let found = [of("first"), of("last"), of("cycle")];
        assert_eq!(found, [first, last, cycle].map(Some), "{change}");
    }
    let all = scenario(DATA_PARALLEL, &["fidelity.steady_state=simulate"]);
    let outcome = run(&all, 0, &Options::default());
    let report = report::summarise(&all, &[outcome], 0.0);
    assert!(!report::text::render(&report, 200, false).contains("not simulated"));
    assert!(serde_json::to_value(&report).expect("JSON").get("repeated_steps").is_none());
}
