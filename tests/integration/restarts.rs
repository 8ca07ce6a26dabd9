//! Failures during any activity of a job: the activity ends at once, its resources are free for others, and
//! each sample is trained on as often as without failures.

use forebay::law::RecoveryLaw;
use forebay::report::{Cause, JobOutcome, StallCause};
use forebay::scenario::Scenario;
use forebay::sim::{Options, run};

use super::base::{base, changed};
use super::runs::{simulate, written};
use super::spread_recovery;

type Changes<'a> = &'a [(&'a str, &'a str)];

fn end(job: &JobOutcome) -> f64 {
    job.steps.last().expect("a step").end
}

#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} instead of {expected}");
}

/// Checks that every instant of every step has one cause, and that all samples are accounted for.
#[track_caller]
fn assert_whole(job: &JobOutcome, what: &str) {
    let mut start = job.start;
    for (index, step) in job.steps.iter().enumerate() {
        let of = job.stalls.iter().filter(|stall| stall.step as usize == index);
        let sum = step.compute + of.map(|stall| stall.seconds).sum::<f64>();
        assert!((sum - (step.end - start)).abs() < 1e-9 * step.end, "{what}: step {index}: {sum}");
        start = step.end;
    }
    let of = job.samples;
    assert_eq!(of.started, of.enqueued + of.in_progress + of.dropped, "{what}: {of:?}");
    assert_eq!(
        job.queue.initial + of.enqueued,
        of.dequeued + of.left + of.cleared,
        "{what}: {of:?}"
    );
}

/// Two epochs of 992 samples that are read and decoded.
const EPOCHS: [(&str, &str); 4] = [
    ("run", "{ epochs = 2, warm_up = \"off\", replications = 1 }"),
    ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
    ("dataset.d.samples", "992"),
    ("job.checkpoint", r#"{ steps = 10, bytes = "100 kB", storage = "c" }"#),
];

const PIPELINE: (&str, &str) =
    ("job.parallel", "{ pipeline = { shares = [0.5, 0.3, 0.2], activations = \"1 MB\" } }");
const FIFO: [(&str, &str); 3] = [
    ("cluster.node.scheduling", "\"fifo\""),
    ("cluster.node.cores", "2"),
    ("job.loader.tf-queue.threads", "9"),
];
const MEMORY: [(&str, &str); 2] =
    [("cluster.node.memory_bandwidth", "\"1 GB/s\""), ("job.memory_traffic", "\"1 GB/s\"")];
const DISK: (&str, &str) =
    ("storage.s", r#"{ local-disk = { bandwidth = "400 MB/s", seek = "300 us" } }"#);
const TABLE: (&str, &str) = (
    "storage.s",
    r#"{ measured = { remote = true, sizes = ["50 kB", "200 kB"], requests = [1, 8],
        throughput = [["50 MB/s", "150 MB/s"], ["80 MB/s", "300 MB/s"]] } }"#,
);
const OBJECTS: (&str, &str) = (
    "storage.s",
    r#"{ object-store = { bandwidth = "500 MB/s", latency = "1 ms", requests = "2000 /s", burst = 20 } }"#,
);
const RANGES: (&str, &str) =
    ("dataset.d.layout", r#"{ file-per-sample = { request = "20 kB", readahead = 3 } }"#);
const TWO: &str = "{ data = { copies_per_node = 2 } }";

/// Returns named job configurations that together cover all activities during which a job can fail.
fn kinds() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let loader = "job.loader";
    let copied = ("cluster.node.pcie", "\"1 GB/s\"");
    let sync = r#"{ allreduce = { gradients = "20 MB", transport.grpc = { cpu = { per_message = "100 us" } } } }"#;
    vec![
        ("files", vec![]),
        ("a queue that is full at the start", vec![("job.prefill", "\"full\"")]),
        (
            "a full queue of two model copies",
            vec![("job.prefill", "\"full\""), ("job.parallel", TWO), ("job.nodes", "2")],
        ),
        (
            "a shuffle queue",
            vec![(
                loader,
                r#"{ tf-queue = { threads = 5, capacity = "200 samples",
            min_after_dequeue = "100 samples", decode = "300 us" } }"#,
            )],
        ),
        (
            "a shuffle buffer",
            vec![(
                loader,
                r#"{ tf-data = { parallel_reads = 4, parallel_calls = 3,
            shuffle = "200 samples", decode = "500 us" } }"#,
            )],
        ),
        (
            "a prefetch that grows",
            vec![(
                loader,
                r#"{ tf-data = { parallel_calls = 3, prefetch = "auto",
            decode = { gamma = { mean = "500 us", cv = 2 } } } }"#,
            )],
        ),
        (
            "tuned parallelism",
            vec![(
                loader,
                r#"{ tf-data = { parallel_reads = "auto",
            parallel_calls = "auto", decode = "500 us", prefetch = 2 } }"#,
            )],
        ),
        (
            "sleepers",
            vec![(
                loader,
                r#"{ keras = { workers = 3, generator = { wait_time = "3 ms" },
            decode = "500 us" } }"#,
            )],
        ),
        (
            "workers with files of their own",
            vec![
                (loader, r#"{ pytorch = { workers = 3, iterable = true, decode = "500 us" } }"#),
                ("dataset.d.layout", r#"{ shards = { samples = 37, request = "1 MB" } }"#),
            ],
        ),
        (
            "smaller batches that overtake others",
            vec![
                (loader, r#"{ pytorch = { workers = 3, in_order = false, decode = "500 us" } }"#),
                ("dataset.d.layout", r#"{ shards = { samples = 37, request = "1 MB" } }"#),
                ("job.batch", "17"),
            ],
        ),
        (
            "row groups",
            vec![(
                "dataset.d.layout",
                r#"{ parquet = { row_group = 30, row_groups = 4, columns = 2, decompress = "1 ns" } }"#,
            )],
        ),
        (
            "row groups on two nodes",
            vec![
                ("job.nodes", "2"),
                ("dataset.d.layout", r#"{ parquet = { row_group = 7, row_groups = 3 } }"#),
            ],
        ),
        (
            "stages one after the other",
            vec![("job.parallel", "{ pipeline = { stages = 3, overlap = false } }")],
        ),
        ("stages that overlap", vec![PIPELINE]),
        (
            "stages that overlap, of model copies on two nodes, with jitter",
            vec![
                ("job.nodes", "2"),
                ("job.model.jitter", "{ gamma = { cv = 0.5 } }"),
                ("job.parallel", "{ data = { copies_per_node = 2 }, pipeline = { stages = 2 } }"),
            ],
        ),
        (
            "stages that overlap, on request",
            vec![PIPELINE, (loader, r#"{ pytorch = { workers = 3, decode = "500 us" } }"#)],
        ),
        ("stages that overlap, twice on each batch", vec![PIPELINE, ("job.batch_interval", "2")]),
        ("core slots", FIFO.to_vec()),
        (
            "core slots and messages",
            [&FIFO[..], &[("job.nodes", "2"), ("job.sync", sync)]].concat(),
        ),
        (
            "core slots whose threads wait for memory",
            [&FIFO[..], &MEMORY[..], &[("job.inner_threads", "{ threads = 3 }")]].concat(),
        ),
        (
            "core slots with a quota for messages and launches",
            [
                &FIFO[..],
                &[
                    ("job.nodes", "2"),
                    ("job.sync", sync),
                    ("job.cpu_quota", "1.5"),
                    ("job.model.launch", "{ work = \"300 us\", threads = 2, gil = 0.5 }"),
                ],
            ]
            .concat(),
        ),
        (
            "steps on core slots",
            [&FIFO[..], &[("job.model.device", "{ cpu = { threads = 3 } }")]].concat(),
        ),
        (
            "steps on core slots with a quota",
            [
                &FIFO[..],
                &[("job.model.device", "{ cpu = { threads = 2 } }"), ("job.cpu_quota", "1")],
            ]
            .concat(),
        ),
        ("an arm", vec![DISK]),
        ("an arm and ranges", vec![DISK, RANGES]),
        ("a table", vec![TABLE]),
        ("a table and ranges", vec![TABLE, RANGES]),
        ("requests that are refused", vec![OBJECTS]),
        ("ranges that are refused", vec![OBJECTS, RANGES]),
        (
            "batches on their way",
            vec![
                copied,
                ("job.parallel", TWO),
                (
                    loader,
                    r#"{ pytorch = { workers = 3, decode = "300 us", ipc = "1 GB/s", to_device = true } }"#,
                ),
            ],
        ),
        (
            "launches",
            vec![("job.model.launch", r#"{ work = "700 us", threads = 2, overlap = false }"#)],
        ),
        ("launches beside", vec![("job.model.launch", "\"1500 us\""), ("cluster.node.cores", "2")]),
        (
            "kernels that decode",
            vec![(loader, r#"{ dali = { threads = 2, gpu = { decode = "40 us" } } }"#)],
        ),
        ("steps on cores", vec![("job.model.device", "{ cpu = { threads = 2 } }")]),
        (
            "reads from other nodes",
            vec![
                ("job.nodes", "2"),
                ("job.replicas", "1"),
                ("storage.s", "{ local-disk = { bandwidth = \"400 MB/s\" } }"),
            ],
        ),
    ]
}

fn failing(kind: Changes<'_>, at: &str, restart: &str) -> Scenario {
    let failures = format!("{{ at = [{at}], restart = \"{restart}\" }}");
    changed(&[&EPOCHS[..], kind, &[("job.failures", failures.as_str())]].concat())
}

#[test]
fn failures_during_any_activity_lose_and_repeat_no_sample() {
    // Expectation: as many steps, samples and fresh samples in total as without failures; each instant of a
    // step has its cause; the job is down for exactly as long as the restarts take.
    for (name, kind) in kinds().into_iter().chain(spread_recovery::kinds()) {
        let plain = changed(&[&EPOCHS[..], &kind].concat());
        let plain = simulate(&plain).jobs.remove(0);
        for at in [r#""31.7 ms", "90.3 ms""#, r#""60.05 ms", "61 ms", "140.4 ms""#] {
            let Ok(mut outcome) = simulate(&failing(&kind, at, "20 ms")).whole() else {
                panic!("{name}: it never ends")
            };
            let failed = outcome.jobs.remove(0);
            let sum = |job: &JobOutcome| {
                let of = job.steps.iter();
                of.fold((0, 0), |(all, fresh), step| (all + step.samples, fresh + step.fresh))
            };
            assert_eq!(failed.steps.len(), plain.steps.len(), "{name}");
            assert_eq!(sum(&failed), sum(&plain), "{name}");
            assert_whole(&failed, name);
            let recovery = failed.recovery.expect("failures");
            let down = if at.contains("61 ms") { 0.02 + 0.95e-3 + 0.02 } else { 0.04 };
            assert!((recovery.down_seconds - down).abs() < 1e-9, "{name}: {recovery:?}");
            // Tuned settings are tuned again after a failure, and may become larger.
            let least = if name == "tuned parallelism" { 0.8 } else { 1.0 };
            assert!(end(&failed) > least * (end(&plain) + down), "{name}");
        }
    }
}

#[test]
fn jobs_of_any_kind_with_random_failures_finish_with_all_samples() {
    // System: each kind with random failures, in bursts, restarted at once. Expectation: the run ends with all
    // its samples.
    for (case, (name, kind)) in kinds().into_iter().chain(spread_recovery::kinds()).enumerate() {
        for seed in ["1", "2"] {
            let shape = ["0.7", "1", "3"][case % 3];
            let failures = format!("{{ mtbf = \"60 ms\", shape = {shape}, restart = \"0 s\" }}");
            let often = r#"{ steps = 1, bytes = "1 kB", storage = "c" }"#;
            let more = [
                ("run.seed", seed),
                ("job.failures", failures.as_str()),
                ("job.checkpoint", often),
            ];
            let scenario = changed(&[&EPOCHS[..], &kind, &more].concat());
            let plain = {
                let mut scenario = scenario.clone();
                scenario.jobs[0].failures = None;
                simulate(&scenario).jobs.remove(0)
            };
            let Ok(mut outcome) = simulate(&scenario).whole() else { panic!("{name}: no end") };
            let found = outcome.jobs.remove(0);
            let fresh = |job: &JobOutcome| job.steps.iter().map(|step| step.fresh).sum::<u64>();
            assert_eq!(fresh(&found), fresh(&plain), "{name}");
            assert_whole(&found, name);
            assert_eq!(simulate(&scenario), simulate(&scenario), "{name}");
        }
    }
}

#[test]
fn prefilled_samples_are_read_again_after_a_failure() {
    // System: 64 prefilled samples, reading and decoding of 0.25 ms a sample by two threads, 16 samples for
    // each step, 32 samples kept for shuffling; one failure at 20 ms, without a checkpoint, with a restart of 1
    // ms. Expectation: the job begins again with an empty queue, so that 64 more samples take 0.25 ms each; at
    // the end about as many samples are left in the queue.
    let of = |failures: Changes<'_>| {
        let kind = [
            ("job.prefill", "\"full\""),
            (
                "job.loader",
                r#"{ tf-queue = { threads = 2, capacity = "64 samples",
                min_after_dequeue = "32 samples", decode = "500 us" } }"#,
            ),
            ("storage.s", "{ memory = {} }"),
        ];
        simulate(&changed(&[&kind[..], failures].concat())).jobs.remove(0)
    };
    let plain = of(&[]);
    let failed = of(&[("job.failures", r#"{ at = ["20 ms"], restart = "1 ms" }"#)]);
    assert!([&plain, &failed].iter().all(|job| (32..48).contains(&job.samples.left)));
    assert_near(end(&failed) - end(&plain), 21e-3 + 64.0 * 0.25e-3, 0.02);
    assert_whole(&failed, "prefilled");
}

#[test]
fn gpu_occupancy_is_zero_while_a_job_with_a_gpu_loader_is_down() {
    // System: decoding kernels beside steps, and two failures with a restart of one second each. Expectation:
    // GPU occupancy over time equals the GPU work served, including aborted kernels and steps; as many buffers
    // as without failures.
    let dali = r#"{ dali = { threads = 2, gpu = { decode = "100 us", occupancy = 0.5 } } }"#;
    let power = ("cluster.node.power", r#"{ idle = "0 W", gpu = "1 W" }"#);
    let kind = [("job.loader", dali), power];
    let outcome = simulate(&failing(&kind, r#""31.7 ms", "1090.3 ms""#, "1 s"));
    let (energy, job) = (outcome.energy.expect("power"), &outcome.jobs[0]);
    let found = job.learners.as_ref().expect("it is looked at");
    let mean = found.occupancy.mean().expect("time");
    assert_near(mean * outcome.makespan, energy.gpus, 0.01);
    let plain = simulate(&changed(&[&EPOCHS[..], &kind].concat()));
    let plain = plain.jobs[0].learners.as_ref().expect("it is looked at");
    assert_eq!((found.inputs, found.activations), (plain.inputs, plain.activations));
}

/// A second job that only reads, from the same storage as the first.
const OTHER: &str = r#"
[[job]]
name = "k"
dataset = "d"
storage = "s"
batch = 16
steps = 400
[job.loader.tf-queue]
threads = 4
capacity = "64 samples"
[job.model]
step = "10 us"
"#;

#[test]
fn resources_of_a_failed_job_are_available_to_other_jobs() {
    // System: two jobs that read from the same server, disk, disk arm, table or cores; one of them fails for good at
    // 50 ms, during its requests. Expectation: from then on the other is as fast as alone, except for the
    // samples in its buffers.
    let server = r#"{ file-server = { bandwidth = "100 MB/s" } }"#;
    let operations = r#"{ file-server = { bandwidth = "100 GB/s", operations = "1000 /s" } }"#;
    let shared = ("cluster.share_nodes", "true");
    let cores = [("cluster.node.cores", "2"), ("cluster.node.scheduling", "\"fifo\""), shared];
    let decode = ("job.loader.tf-queue.decode", "\"2 ms\"");
    let memory = MEMORY.map(|(key, value)| {
        (if key == "job.memory_traffic" { "job.j.memory_traffic" } else { key }, value)
    });
    let disk = ("storage.s", r#"{ local-disk = { bandwidth = "100 MB/s" } }"#);
    let ranges = ("dataset.d.layout.file-per-sample.request", "\"10 kB\"");
    let cases: [(&str, Vec<(&str, &str)>); 8] = [
        ("a server", vec![("storage.s", server)]),
        ("its operations", vec![("storage.s", operations)]),
        ("a disk", vec![disk, shared]),
        ("a disk, for parts of files", vec![disk, ranges, shared]),
        ("an arm", vec![DISK, shared]),
        ("a table", vec![TABLE]),
        ("core slots", [&cores[..], &[decode]].concat()),
        ("core slots and memory", [&cores[..], &memory, &[decode]].concat()),
    ];
    for (name, case) in cases {
        let failures = ("job.j.failures", r#"{ at = ["50 ms"], restart = "1000 s" }"#);
        let run = ("run", "{ duration = \"3 s\", warm_up = \"off\", replications = 1 }");
        let of = |more: Changes<'_>| {
            let text = format!("{}{OTHER}", base());
            simulate(&written(&text, &[&[run], &case[..], more].concat())).jobs.remove(1)
        };
        let rate = |job: &JobOutcome| {
            let from = job.steps.iter().position(|step| step.end > 0.06).expect("steps");
            let (first, last) = (&job.steps[from], job.steps.last().expect("steps"));
            (job.steps.len() - 1 - from) as f64 / (last.end - first.end)
        };
        let beside = rate(&of(&[]));
        let freed = rate(&of(&[failures]));
        let alone = rate(&of(&[("job.j.failures", r#"{ at = ["0 s"], restart = "1000 s" }"#)]));
        assert!(beside < 0.8 * alone, "{name}: {beside} {alone}");
        assert_near(freed, alone, 0.02);
    }
}

#[test]
fn checkpoints_delay_pipelines() {
    // System: 200 steps of 90 ms in three stages, 5 s for each of four checkpoints. Expectation: 20 s more
    // where stages do not overlap; where they overlap, passes in progress go on, which hides less than 90 ms of
    // each checkpoint. Asynchronous checkpoints that are written in 1 s, before the next is due, cost nothing.
    let fed = |more: Changes<'_>| {
        let changes = [
            ("storage.s", "{ memory = {} }"),
            ("job.loader", "{ in-memory = {} }"),
            ("job.model.step", "\"90 ms\""),
            ("run.steps", "200"),
            ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
        ];
        simulate(&changed(&[&changes[..], more].concat())).jobs.remove(0)
    };
    let checkpoint = ("job.checkpoint", r#"{ steps = 40, bytes = "500 MB", storage = "c" }"#);
    let beside = (
        "job.checkpoint",
        r#"{ steps = 40, bytes = "100 MB", storage = "c", asynchronous = true }"#,
    );
    for overlap in ["false", "true"] {
        let text = format!("{{ pipeline = {{ stages = 3, overlap = {overlap} }} }}");
        let parallel = ("job.parallel", text.as_str());
        let (plain, saved) = (fed(&[parallel]), fed(&[parallel, checkpoint]));
        let cost = end(&saved) - end(&plain);
        assert_eq!(saved.recovery.expect("checkpoints").checkpoints, 4);
        assert!((20.0 - 4.0 * 0.09 - 1e-9..=20.0 + 1e-9).contains(&cost), "{overlap}: {cost}");
        let of = saved.stalls.iter().filter(|s| s.cause == StallCause::own(Cause::Checkpoint));
        let told: f64 = of.map(|stall| stall.seconds).sum();
        assert!((20.0 - 4.0 * 0.09..=20.0 + 1e-9).contains(&told), "{overlap}: {told}");
        assert_whole(&saved, overlap);
        assert_near(end(&fed(&[parallel, beside])), end(&plain), 1e-6);
    }
}

#[test]
fn run_times_of_pipelines_with_failures_match_the_formula_of_daly() {
    // System: 6,000 steps of 3 s in three overlapping stages, so that a step ends each second; 5 s to write a
    // checkpoint, 20 s to restart, a failure every 1,000 s. Expectation: Daly's time to 2 %, though the
    // pipeline must fill again after each failure.
    let scenario = changed(&[
        ("storage.s", "{ memory = {} }"),
        ("job.loader", "{ in-memory = {} }"),
        ("job.batch", "1"),
        ("job.model.step", "\"3 s\""),
        ("job.parallel", "{ pipeline = { stages = 3 } }"),
        ("run.steps", "6000"),
        ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
        ("job.checkpoint", r#"{ interval = "100 s", bytes = "500 MB", storage = "c" }"#),
        ("job.failures", r#"{ mtbf = "1000 s", restart = "20 s" }"#),
    ]);
    let ends = (0..48).map(|r| end(&run(&scenario, r, &Options::default()).jobs[0]));
    let mean = ends.sum::<f64>() / 48.0;
    // The two seconds to fill the pipeline count as part of a restart.
    let law = RecoveryLaw { mtbf: 1000.0, checkpoint: 5.0, restart: 22.0 };
    assert_near(mean, law.expected_time(6000.0, 100.0), 0.02);
}
