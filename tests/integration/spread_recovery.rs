//! Failures and checkpoints of jobs whose models are split over GPUs: micro-batch pipelines, tensor
//! parallelism, ZeRO, and swapping.

use forebay::law::RecoveryLaw;
use forebay::report::{Cause, JobOutcome, StallCause};
use forebay::scenario::Scenario;
use forebay::sim::{Options, run};

use super::pipeline_schedules::{adds_up, spread};
use super::runs::{near, simulate, written};

/// Four stages with eight micro-batches of 1 s in each: steps of 11 s.
const STAGES: &str = "parallel.pipeline = { stages = 4, schedule = \"1f1b\", micro_batches = 8 }\n";
/// Links of GPUs to each other and to the node's memory.
const NODE: &str = "pcie = \"10 GB/s\", gpu_memory = \"100 GB\", \
                    intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";
/// NICs and a file server of 100 MB/s.
const SLOW: [(&str, &str); 2] = [
    ("cluster.network.nic", "\"100 MB/s\""),
    ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
];

fn made(rest: &str, changes: &[(&str, &str)]) -> Scenario {
    let text = spread(NODE, rest).replace("batch = 240", "batch = 8");
    written(&text, &[&SLOW, changes].concat())
}

/// Returns the outcome with steps that take 4 s for each of eight samples on a single GPU.
fn of(rest: &str, changes: &[(&str, &str)]) -> JobOutcome {
    let model = format!("model.step = {{ per_sample = \"4 s\" }}\n{rest}");
    let job = simulate(&made(&model, changes)).jobs.remove(0);
    adds_up(&job);
    job
}

fn end(job: &JobOutcome) -> f64 {
    job.steps.last().expect("a step").end
}

fn stalled(job: &JobOutcome, cause: Cause) -> f64 {
    let of = job.stalls.iter().filter(|stall| stall.cause == StallCause::own(cause));
    of.map(|stall| stall.seconds).sum()
}

#[test]
fn each_stage_writes_its_part_of_a_checkpoint_over_the_nic_of_its_node() {
    // System: four stages, a checkpoint of 1.1 GB after the second of four steps. Expectation: all wait 11 s
    // where one NIC or the server carries all bytes; a quarter of that where each stage is on a node of its
    // own; half of that where two model copies write half each.
    let fast = ("storage.c", "{ file-server = { bandwidth = \"10 GB/s\" } }");
    let time = |nodes: &str, server, writers: &str, more: &str| {
        let stages = STAGES.replace(" }", &format!("{more} }}"));
        let checkpoint = format!(
            "{{ steps = 2, bytes = \"1.1 GB\", storage = \"c\", writers = \"{writers}\" }}"
        );
        let job = of(&stages, &[("job.nodes", nodes), server, ("job.checkpoint", &checkpoint)]);
        let stall = stalled(&job, Cause::Checkpoint);
        near(end(&job), 44.0 + stall, "nothing else takes longer");
        near(stalled(&job, Cause::Bubble), 4.0 * 3.0, "filling and draining, in each step");
        assert_eq!(job.recovery.expect("it writes").written, 1.1e9);
        stall
    };
    let alone = ", stages_per_node = 1";
    near(time("1", fast, "first", ""), 11.0, "one node's NIC");
    near(time("4", fast, "first", alone), 2.75, "four NICs");
    near(time("4", fast, "each", alone), 2.75, "four NICs");
    near(time("4", SLOW[1], "first", alone), 11.0, "the server");
    near(time("8", fast, "first", alone), 2.75, "the first model copy");
    near(time("8", SLOW[1], "first", alone), 11.0, "the server gets it once");
    near(time("8", SLOW[1], "each", alone), 11.0, "from both");
    near(time("8", fast, "each", alone), 1.375, "both");
    near(time("2", fast, "first", ", stages_per_node = 2"), 5.5, "two stages on a node");
}

#[test]
fn a_checkpoint_contains_the_model_once_however_the_model_is_split() {
    // System: GPT-2, 124,439,808 parameters, with Adam in 32 bits, 12 B each, on one GPU or split in different
    // ways. Expectation: the same bytes; each node writes the states of its GPUs over a NIC of 100 MB/s; only
    // the first model copy writes unless `writers = "each"`; with ZeRO each rank writes its own shard.
    let n = 124_439_808.0;
    let of = |writers: &str, changes: &[(&str, &str)], rest: &str| {
        let model = "model = { catalogue = \"gpt2\", step = \"1 s\", optimizer = \"adam\" }";
        let checkpoint = format!("{{ steps = 2, storage = \"c\", writers = \"{writers}\" }}");
        let fast = ("storage.c", "{ file-server = { bandwidth = \"10 GB/s\" } }");
        let more = [fast, ("job.checkpoint", checkpoint.as_str())];
        let scenario = made(&format!("{model}\n{rest}"), &[&more, changes].concat());
        let held = scenario.jobs[0].footprints.clone();
        let job = simulate(&scenario).jobs.remove(0);
        adds_up(&job);
        near(job.recovery.expect("it writes").written, 12.0 * n, rest);
        (stalled(&job, Cause::Checkpoint) * 100e6 / n, held)
    };
    let one = [("job.nodes", "1")];
    for rest in
        ["", STAGES, "parallel.tensor.ranks = 4", &format!("{STAGES}parallel.tensor.ranks = 2")]
    {
        near(of("first", &one, rest).0, 12.0, rest);
    }
    let four = [("job.nodes", "4"), ("job.sync.allreduce", "{}")];
    for (zero, first, each) in
        [(0, 12.0, 3.0), (1, 4.0 + 2.0, 3.0), (2, 4.0 + 2.0, 3.0), (3, 3.0, 3.0)]
    {
        let rest = if zero > 0 { format!("parallel.zero.stage = {zero}") } else { String::new() };
        near(of("first", &four, &rest).0, first, &rest);
        near(of("each", &four, &rest).0, each, &rest);
    }
    // With four stages on nodes of their own, the largest stage takes longest: the first one, with the
    // embeddings.
    let (found, held) =
        of("first", &[("job.nodes", "4")], &STAGES.replace(" }", ", stages_per_node = 1 }"));
    let most = held.iter().map(|of| of.parameters + of.optimizer).fold(0.0, f64::max) / n;
    assert!((3.0..9.0).contains(&most), "{most} B of a parameter");
    near(found, most, "the largest stage");
}

#[test]
fn checkpoint_writers_are_reported_as_ineffective_without_replicas() {
    // Expectation: equal times with both values, and a remark; neither where model copies on several nodes hold
    // the same states.
    let cases = [
        (false, "", "1"),
        (true, "", "2"),
        (
            false,
            "parallel.pipeline = { stages = 4, schedule = \"1f1b\", micro_batches = 8, stages_per_node = 2 }",
            "2",
        ),
        (
            true,
            "parallel.pipeline = { stages = 4, schedule = \"1f1b\", micro_batches = 8, stages_per_node = 2 }",
            "4",
        ),
        (true, "sync.allreduce.gradients = \"1 B\"\nparallel.zero.stage = 2", "4"),
        (false, "sync.allreduce.gradients = \"1 B\"\nparallel.zero.stage = 3", "4"),
    ];
    for (matters, rest, nodes) in cases {
        let time = |writers: &str| {
            let checkpoint = format!(
                "{{ steps = 2, bytes = \"1 GB\", storage = \"c\", writers = \"{writers}\" }}"
            );
            let fast = ("storage.c", "{ file-server = { bandwidth = \"10 GB/s\" } }");
            let model = "model = { step = \"1 s\", memory = { parameters = \"1 GB\", activations = \"1 MB\" } }";
            let changes = [("job.nodes", nodes), fast, ("job.checkpoint", &checkpoint)];
            let scenario = made(&format!("{model}\n{rest}"), &changes);
            let said =
                scenario.remarks.join("\n").contains("`job.j.checkpoint.writers` has no effect");
            assert_eq!(said, !matters, "{rest} {nodes}: {:?}", scenario.remarks);
            end(&simulate(&scenario).jobs[0])
        };
        let [first, each] = [time("first"), time("each")];
        assert_eq!((first - each).abs() > 0.1, matters, "{rest} {nodes}: {first} {each}");
    }
}

#[test]
fn an_asynchronous_checkpoint_of_a_pipeline_costs_only_its_pause() {
    // System: a write of 100 MB takes 1 s, the pause 2 s; steps of 11 s. Expectation: four steps have one
    // pause, and no other delay.
    let checkpoint =
        r#"{ steps = 2, bytes = "100 MB", storage = "c", asynchronous = true, pause = "2 s" }"#;
    let job = of(STAGES, &[("job.checkpoint", checkpoint)]);
    near(end(&job), 44.0 + 2.0, "steps and a pause");
    near(stalled(&job, Cause::Checkpoint), 2.0, "the pause");
    let recovery = job.recovery.expect("it writes");
    near(recovery.writing_seconds, 3.0, "from the end of the step");
    let without = of(STAGES, &[("job.checkpoint", &checkpoint.replace("2 s", "0 s"))]);
    near(end(&without), 44.0, "hidden");
}

#[test]
fn a_failure_of_a_pipeline_costs_lost_work_restart_and_refilling() {
    // System: steps of 11 s, 3 s of which fill and drain four stages; 1 s for a checkpoint after every second
    // step. Expectation: a checkpoint is complete at 46 s; a failure at 50 s, with a restart of 10 s, loses 4
    // s, in which the first micro-batches had passed all stages, and the fifth step takes its 11 s from 60 s
    // on. A failure during this checkpoint goes back to the one at 23 s.
    let checkpoint = ("job.checkpoint", r#"{ steps = 2, bytes = "100 MB", storage = "c" }"#);
    let failing = |at: &str| {
        let failures = format!("{{ at = [\"{at}\"], restart = \"10 s\" }}");
        of(STAGES, &[("run.steps", "6"), checkpoint, ("job.failures", &failures)])
    };
    let job = failing("50 s");
    let recovery = job.recovery.expect("it fails");
    near(recovery.lost_seconds, 4.0, "since the checkpoint");
    near(recovery.down_seconds, 10.0, "the restart");
    near(stalled(&job, Cause::Fault), 14.0, "both");
    near(stalled(&job, Cause::Bubble), 6.0 * 3.0, "each step that counts fills and drains once");
    let ends: Vec<f64> = job.steps.iter().map(|step| step.end).collect();
    for (found, expected) in ends.iter().zip([11.0, 22.0, 34.0, 45.0, 71.0, 82.0]) {
        near(*found, expected, "a step's end");
    }
    let job = failing("45.5 s");
    near(job.recovery.expect("it fails").lost_seconds, 22.5, "to the checkpoint before");
    near(end(&job), 55.5 + 44.0 + 1.0, "four steps and a checkpoint more");
}

/// Returns ways to split a model, each with all activities that a step can have, with steps of about a second
/// or a few.
fn ways() -> Vec<(&'static str, u32, String)> {
    let work = "model.step = { per_sample = \"125 ms\" }\n";
    let stages = |schedule: &str| {
        format!(
            "{work}parallel.pipeline = {{ stages = 4, schedule = \"{schedule}\", micro_batches = 4, \
             activations = \"1 GB\" }}\n"
        )
    };
    let chunks =
        |schedule: &str| stages(schedule).replace("micro_batches", "chunks = 2, micro_batches");
    let copies = "parallel.data.copies_per_node = 2\n";
    let sync = |more: &str| {
        format!(
            "sync.allreduce = {{ gradients = \"2 GB\", tensors = 20, buckets = \"500 MB\", \
             algorithm = \"ring\" {more} }}\n"
        )
    };
    let tensor = |more: &str| {
        format!(
            "parallel.tensor = {{ ranks = 2, allreduces = 4, activations = \"50 MB\", \
             algorithm = \"ring\" {more} }}\n"
        )
    };
    let swaps = "model = { step = { per_sample = \"125 ms\" }, out_of_core = true, \
                 memory = { parameters = \"4 GB\", activations = \"3 GB\" } }\n";
    let (flow, analytic) = ("", ", fidelity = \"analytic\"");
    let zero =
        |stage: u32| (format!("{work}{copies}{}parallel.zero.stage = {stage}\n", sync(flow)), 1);
    let mut all = vec![
        ("gpipe", 1, stages("gpipe")),
        ("1f1b", 1, stages("1f1b")),
        ("interleaved 1f1b", 1, chunks("interleaved-1f1b")),
        ("zb-h1", 1, format!("{}{copies}{}", stages("zb-h1"), sync(flow))),
        ("stages on nodes", 4, stages("1f1b").replace("GB\" }", "GB\", stages_per_node = 1 }")),
        ("gradients", 1, format!("{}{copies}{}", stages("1f1b"), sync(flow))),
        ("gradients, analytic", 2, format!("{}{}", stages("gpipe"), sync(analytic))),
        ("split layers", 1, format!("{work}{}", tensor(flow))),
        ("split layers, analytic", 1, format!("{work}{}", tensor(analytic))),
        ("swaps", 1, swaps.to_owned()),
        (
            "all of it",
            2,
            format!("{}{}{}parallel.zero.stage = 1\n", stages("1f1b"), tensor(flow), sync(flow)),
        ),
    ];
    for (stage, name) in [(1, "zero 1"), (2, "zero 2"), (3, "zero 3")] {
        let (text, nodes) = zero(stage);
        all.push((name, nodes, text));
    }
    all
}

/// Returns the outcome of a split model with an immediate checkpoint after each of four steps.
fn way(nodes: u32, rest: &str, more: &[(&str, &str)]) -> JobOutcome {
    let text = format!("nodes = {nodes}\n{rest}");
    let often = ("job.checkpoint", r#"{ steps = 1, bytes = "1 B", storage = "own" }"#);
    let own = ("storage.own", r#"{ local-disk = { bandwidth = "1 TB/s" } }"#);
    let nic = ("cluster.network.nic", "\"2 GB/s\"");
    let memory = ("cluster.node.gpu_memory", "\"20 GB\"");
    let job = simulate(&made(&text, &[&[nic, own, often, memory], more].concat())).jobs.remove(0);
    adds_up(&job);
    job
}

#[test]
fn a_failure_at_any_instant_costs_exactly_the_lost_part_of_the_step() {
    // System: each way to split a model, with one failure at one of 60 instants of its third step: during
    // forward, backward, activations, allreduces, gathers, gradients, swaps. Expectation: the time grows by the
    // lost part of the step and the restart, to about a picosecond; steps, and the bytes that GPUs sent for
    // them, are those of a run without failures.
    let sent = |job: &JobOutcome| {
        let books = job.parallel.expect("spread");
        [books.activations, books.sums, books.gradients, books.swapped]
    };
    for (name, nodes, rest) in ways() {
        let plain = way(nodes, &rest, &[]);
        assert!(sent(&plain).iter().sum::<f64>() > 1e9, "{name}: {:?}", sent(&plain));
        let (begin, long) = (plain.steps[1].end, plain.steps[2].end - plain.steps[1].end);
        for instant in 0..60 {
            let done = long * (f64::from(instant) + 0.37) / 60.0;
            let at = begin + done;
            let failures =
                format!("{{ at = [\"{at} s\"], restart = \"3 ms\", node = \"restarted\" }}");
            let failed = way(nodes, &rest, &[("job.failures", &failures)]);
            let what = format!("{name} at {at} s, {done} s into a step");
            let recovery = failed.recovery.expect("it fails");
            near(recovery.lost_seconds, done, &what);
            assert_eq!(failed.steps.len(), plain.steps.len(), "{what}");
            for (found, expected) in failed.steps.iter().zip(&plain.steps) {
                let later = if expected.end > at { done + 0.003 } else { 0.0 };
                assert!((found.end - expected.end - later).abs() < 1e-9, "{what}: {found:?}");
                assert_eq!((found.samples, found.fresh), (expected.samples, expected.fresh));
            }
            assert_eq!(sent(&failed), sent(&plain), "{what}");
            let taken = [&failed, &plain].map(|job| job.samples.dequeued);
            assert_eq!(4 * taken[0], 5 * taken[1], "{what}: one step more than four");
        }
    }
}

#[test]
fn run_times_of_micro_batch_pipelines_with_failures_match_daly_s_formula() {
    // System: 6,000 steps of 1 s of three stages and four micro-batches; 5 s to write a checkpoint, 20 s to
    // restart, a failure every 1,000 s. Expectation: Daly's time to 2 %; filling the pipeline is part of each
    // step.
    let model = "model.step = { per_sample = \"250 ms\" }\n\
        parallel.pipeline = { stages = 3, schedule = \"1f1b\", micro_batches = 4 }";
    let scenario = made(
        model,
        &[
            ("job.batch", "8"),
            ("run.steps", "6000"),
            ("job.checkpoint", r#"{ interval = "100 s", bytes = "500 MB", storage = "c" }"#),
            ("job.failures", r#"{ mtbf = "1000 s", restart = "20 s" }"#),
        ],
    );
    let ends = (0..48).map(|r| {
        let job = run(&scenario, r, &Options::default()).jobs.remove(0);
        assert_eq!(job.steps.len(), 6000);
        end(&job)
    });
    let mean = ends.sum::<f64>() / 48.0;
    let law = RecoveryLaw { mtbf: 1000.0, checkpoint: 5.0, restart: 20.0 };
    let found = mean / law.expected_time(6000.0, 100.0) - 1.0;
    assert!(found.abs() < 0.02, "{found}");
}

/// Returns ways to split the model of [`super::base`], for tests of failures during any activity.
pub(crate) fn kinds() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let scheduled = r#"{ pipeline = { stages = 3, schedule = "1f1b", micro_batches = 4, activations = "100 kB" } }"#;
    let sync = r#"{ allreduce = { gradients = "4 MB", tensors = 8, buckets = "1 MB" } }"#;
    vec![
        ("micro-batches", vec![("job.parallel", scheduled)]),
        (
            "micro-batches of batches on request, the last one smaller",
            vec![
                ("dataset.d.samples", "1000"),
                ("job.parallel", scheduled),
                ("job.loader", r#"{ pytorch = { workers = 3, decode = "500 us" } }"#),
            ],
        ),
        (
            "micro-batches of model copies, with jitter",
            vec![
                ("job.nodes", "2"),
                ("job.sync", sync),
                ("job.model.jitter", "{ gamma = { cv = 0.5 } }"),
                (
                    "job.parallel",
                    r#"{ data.copies_per_node = 2, pipeline = { stages = 2, schedule = "gpipe",
                    micro_batches = 4, activations = "100 kB" } }"#,
                ),
            ],
        ),
        (
            "stages on nodes of their own, twice on each batch",
            vec![
                ("job.nodes", "4"),
                ("job.sync", sync),
                ("job.batch_interval", "2"),
                (
                    "job.parallel",
                    r#"{ pipeline = { stages = 2, schedule = "1f1b", stages_per_node = 1,
                    micro_batches = 2, activations = "1 MB" } }"#,
                ),
            ],
        ),
        (
            "split layers",
            vec![(
                "job.parallel",
                r#"{ tensor = { ranks = 4, allreduces = 6, activations = "10 kB" } }"#,
            )],
        ),
        (
            "shards",
            vec![
                ("job.nodes", "2"),
                ("job.sync", sync),
                ("job.parallel", "{ data.copies_per_node = 2, zero.stage = 3 }"),
            ],
        ),
        (
            "swaps beside reads to the device",
            vec![
                ("cluster.node.pcie", "\"10 GB/s\""),
                ("cluster.node.gpu_memory", "\"24 MB\""),
                (
                    "job.model",
                    r#"{ step = "1 ms", out_of_core = true, memory = { parameters = "4 MB",
                    activations = "1 MB" } }"#,
                ),
                (
                    "job.loader",
                    r#"{ pytorch = { workers = 3, decode = "300 us", to_device = true } }"#,
                ),
            ],
        ),
    ]
}
