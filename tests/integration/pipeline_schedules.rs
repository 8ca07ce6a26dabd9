//! Micro-batches through the stages of a pipeline: bubbles, activations on links, memory.

use super::runs::{near, run, simulate, step, written};
use forebay::report::{Cause, JobOutcome, StallCause, summarise};
use forebay::scenario::ScenarioFile;

/// Returns a job with batches of 240, each of which takes 1 s, with the keys `job`, on nodes with the keys
/// `cluster`.
pub(crate) fn spread(cluster: &str, job: &str) -> String {
    format!(
        r#"# How much do stages wait?
name = "spread"
[run]
steps = 4
warm_up = "off"
[cluster]
nodes = 16
node = {{ cores = 8, gpus = 16, {cluster} }}
network = {{ nic = "10 GB/s", latency = "10 us" }}
[storage.memory.memory]
[dataset.d]
samples = 10000000
sample_size = "100 B"
[[job]]
name = "j"
dataset = "d"
storage = "memory"
batch = 240
loader.in-memory = {{}}
{job}
"#
    )
}

fn scheduled(stages: u32, micro: u32, schedule: &str, rest: &str) -> String {
    let pipeline = format!(
        "model.step = {{ per_sample = \"{} s\" }}\nparallel.pipeline = {{ stages = {stages}, \
         schedule = \"{schedule}\", micro_batches = {micro} {rest} }}",
        1.0 / 240.0
    );
    spread("pcie = \"10 GB/s\"", &pipeline)
}

/// Returns the share of a step's time that devices wait because of `cause`.
pub(crate) fn waits(job: &JobOutcome, cause: Cause) -> f64 {
    let cause = StallCause::own(cause);
    let sum: f64 = job.stalls.iter().filter(|s| s.cause == cause).map(|s| s.seconds).sum();
    sum / job.steps.last().expect("steps").end
}

/// Returns the mean time of all steps, from the job's start [s].
pub(crate) fn mean(job: &JobOutcome) -> f64 {
    job.steps.last().expect("steps").end / job.steps.len() as f64
}

/// Returns the key of a pipeline of `stages` equal stages under GPipe.
pub(crate) fn gpipe(stages: u32, micro_batches: u32) -> String {
    format!(
        "parallel.pipeline = {{ stages = {stages}, schedule = \"gpipe\", micro_batches = {micro_batches} }}\n"
    )
}

/// Checks that compute and stalls make up each step.
pub(crate) fn adds_up(job: &JobOutcome) {
    let mut begin = job.start;
    for (number, done) in job.steps.iter().enumerate() {
        let waits = job.stalls.iter().filter(|stall| stall.step as usize == number);
        let sum: f64 = done.compute + waits.map(|stall| stall.seconds).sum::<f64>();
        let long = done.end - begin;
        assert!((sum - long).abs() < 1e-9 * long.max(1.0), "step {number}: {sum}, not {long}");
        begin = done.end;
    }
}

fn refused(text: &str) -> String {
    let file = ScenarioFile::parse("x.toml", text.to_owned()).and_then(|file| file.resolve(&[]));
    file.map(|_| ()).expect_err(text).to_string()
}

#[test]
fn pipeline_bubbles_match_the_published_formula() {
    // System: p stages of equal time, m micro-batches, no other delays. Expectation: stages wait for (p − 1) ÷
    // (m + p − 1) of the time with either schedule (Huang et al. 2019; Narayanan et al. 2021).
    for schedule in ["gpipe", "1f1b"] {
        for (stages, micro) in [(1, 4), (2, 1), (2, 8), (4, 4), (4, 12), (8, 2), (8, 60), (16, 16)]
        {
            let job = run(&scheduled(stages, micro, schedule, ""));
            adds_up(&job);
            let (p, m) = (f64::from(stages), f64::from(micro));
            let expected = (p - 1.0) / (m + p - 1.0);
            let found = waits(&job, Cause::Bubble);
            let what = format!("{schedule}, {stages} stages, {micro} micro-batches");
            assert!((found - expected).abs() < 1e-9, "{what}: {found}, not {expected}");
            near(step(&job), (m + p - 1.0) / (m * p), &what);
            let samples: Vec<u64> = job.steps.iter().map(|step| step.samples).collect();
            assert_eq!(samples, [240; 4], "{what}");
        }
    }
}

#[test]
fn step_time_includes_the_fixed_time_of_every_micro_batch() {
    // System: 0.1 s for each micro-batch plus 1 s for all samples, over four stages. Expectation: each of m
    // micro-batches takes 0.1 s + 1 s/m on all stages together, a quarter of that on each stage; m + 3 of these
    // quarters follow one another.
    for micro in [1, 4, 24] {
        let text =
            scheduled(4, micro, "1f1b", "").replace("per_sample", "fixed = \"100 ms\", per_sample");
        let text = text.replace("model.step =", "model.step_of = \"micro-batch\"\nmodel.step =");
        let m = f64::from(micro);
        near(step(&run(&text)), (m + 3.0) * (0.1 + 1.0 / m) / 4.0, &format!("{micro}"));
    }
}

#[test]
fn the_slowest_stage_sets_the_pace_of_a_pipeline() {
    // System: shares of 0.5, 0.3 and 0.2, ten micro-batches of 0.1 s. Expectation (gpipe): the first stage's
    // forward and backward of ten micro-batches, and one micro-batch's time in the other stages.
    let text = scheduled(3, 10, "gpipe", "").replace("stages = 3", "shares = [0.5, 0.3, 0.2]");
    let job = run(&text);
    adds_up(&job);
    near(step(&job), 0.5 + 0.05, "as slow as the first");
}

#[test]
fn activations_and_gradients_cross_the_links_between_stages() {
    // System: two stages, one micro-batch, 1 GB between them over 10 GB/s and 5 ms inside a node, or NICs and
    // 10 µs across. Expectation: activations forward and gradients back one after the other: 2 × 105 ms, or 2 ×
    // (100 ms + 10 µs).
    let inside = "intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"5 ms\" }";
    let rest = ", activations = \"1 GB\"";
    let of = |rest: &str, micro| {
        let text = scheduled(2, micro, "gpipe", rest).replace("pcie = \"10 GB/s\"", inside);
        run(&text)
    };
    let job = of(rest, 1);
    adds_up(&job);
    near(step(&job), 1.0 + 2.0 * 0.105, "inside");
    near(waits(&job, Cause::Communication) * step(&job), 0.105, "half of it in each stage");
    // Both directions, in each of four steps.
    assert_eq!(job.parallel.expect("books").activations, 4.0 * 2.0 * 1e9);
    let apart = scheduled(2, 1, "gpipe", ", activations = \"1 GB\", stages_per_node = 1")
        .replace("pcie = \"10 GB/s\"", inside)
        .replace("dataset = \"d\"", "nodes = 2\ndataset = \"d\"");
    near(step(&run(&apart)), 1.0 + 2.0 * (0.1 + 10e-6), "across");
    let outcome = simulate(&written(&apart, &[]));
    let nic = outcome.resources.iter().find(|r| r.name == "node.nic").expect("a NIC");
    near(nic.utilisation, 0.1 / (1.2 + 20e-6), "activations one way, gradients the other");
    // With four micro-batches, only the transfers of the first one's activations and of the last one's
    // gradients are exposed.
    near(step(&of(rest, 4)), 0.625 + 2.0 * 0.03, "hidden");
}

#[test]
fn gpipe_holds_more_activations_than_1f1b_if_micro_batches_outnumber_stages() {
    // System: ResNet-50 over four stages, eight micro-batches of 30. Expectation: the first stage holds the
    // activations of all micro-batches with GPipe, and of half of them with 1F1B; with as few micro-batches as
    // stages both hold all.
    let of = |schedule: &str, micro| {
        let text = scheduled(4, micro, schedule, "")
            .replace("model.step", "model.catalogue = \"resnet50\"\nmodel.step");
        written(&text, &[]).jobs[0]
            .footprints
            .iter()
            .map(|held| held.activations)
            .collect::<Vec<_>>()
    };
    let (all, some) = (of("gpipe", 8), of("1f1b", 8));
    for (stage, (all, some)) in all.iter().zip(&some).enumerate() {
        near(*some / *all, (4.0 - stage as f64) / 8.0, &format!("stage {stage}"));
    }
    assert_eq!(of("gpipe", 4)[0], of("1f1b", 4)[0]);
    assert_eq!(of("gpipe", 8)[0], of("gpipe", 4)[0]);
}

#[test]
fn incomplete_or_invalid_schedules_are_refused() {
    for (text, what) in [
        (
            scheduled(4, 7, "1f1b", ""),
            "a batch of 240 cannot be divided into 7 equal micro-batches",
        ),
        (
            scheduled(4, 8, "1f1b", "").replace(", micro_batches = 8", ""),
            "`micro_batches` is missing",
        ),
        (scheduled(4, 8, "2f2b", ""), "1f1b"),
        (
            spread(
                "",
                "batch = 100000\nmodel.step = \"1 s\"\nparallel.pipeline = { stages = 10000, \
                        schedule = \"1f1b\", micro_batches = 100000 }",
            )
            .replace("batch = 240", ""),
            "a step has 1.0e9 pieces",
        ),
        (
            spread(
                "",
                "model.step = \"1 s\"\nparallel.tensor = { ranks = 10000, allreduces = 1, \
                        activations = \"1 B\" }\nparallel.data.copies_per_node = 10000",
            ),
            "the model copies have 1.0e8 GPUs",
        ),
        (scheduled(17, 8, "1f1b", ""), "need 17 GPUs, and a node has 16"),
        (
            scheduled(4, 8, "1f1b", ", stages_per_node = 2"),
            "and 1 nodes are not a multiple of that",
        ),
        (
            scheduled(4, 8, "1f1b", ", stages_per_node = 2").replace(
                "batch = 240",
                "nodes = 2\nbatch = 240\nparallel.data.copies_per_node = 2",
            ),
            "leave out `copies_per_node`",
        ),
    ] {
        let found = refused(&text);
        assert!(found.contains(what), "{what}: {found}");
    }
    let idle = written(&scheduled(4, 8, "1f1b", ", overlap = true"), &[]).remarks.join("\n");
    assert!(idle.contains("overlap` has no effect"), "{idle}");
    let idle = "parallel.pipeline = { stages = 2, micro_batches = 8, stages_per_node = 1 }";
    let idle = spread("", &format!("model.step = \"1 s\"\n{idle}"));
    let idle = written(&idle.replace("gpus = 16, ", "gpus = 16"), &[]).remarks.join("\n");
    for key in ["micro_batches", "stages_per_node"] {
        assert!(idle.contains(&format!("{key}` has no effect: no `schedule`")), "{idle}");
    }
}

#[test]
fn jitter_and_slow_nodes_delay_all_stages() {
    // System: four stages on two nodes, the second of which is half as fast. Expectation: its stages take twice
    // as long, and set the pace: (m + 1) × 2 + 2 forward and backward units of 1 s ÷ 32.
    let text = scheduled(4, 8, "gpipe", ", stages_per_node = 2")
        .replace("batch = 240", "nodes = 2\nbatch = 240")
        .replace("nodes = 16", "nodes = 1");
    let slow = format!("{text}[cluster.group.slow]\nnodes = 1\nnode.gpu_speed = 0.5\n");
    near(step(&run(&slow)), (2.0 * 9.0 + 2.0) / 32.0, "slow");
    let jitter = scheduled(4, 8, "1f1b", "")
        .replace("model.step", "model.jitter = { gamma = { cv = 0.3 } }\nmodel.step");
    let job = run(&jitter);
    adds_up(&job);
    assert_eq!(run(&jitter), job, "the same seed, another run");
    // Jitter stretches all passes of a step alike.
    let bubble = waits(&job, Cause::Bubble);
    assert!((bubble - 3.0 / 11.0).abs() < 1e-9, "{bubble}");
}

#[test]
fn reports_state_how_a_model_is_split_over_gpus() {
    let scenario = written(&scheduled(4, 8, "1f1b", ", activations = \"8 MB\""), &[]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let spread = report.jobs[0].parallel.expect("known");
    assert_eq!((spread.gpus, spread.pipeline, spread.micro_batches), (4, 4, 8));
    assert_eq!(spread.bubble, 3.0 / 11.0);
    // Three links in both directions, divided over four GPUs.
    assert_eq!(spread.activation_bytes, Some(2.0 * 3.0 * 8e6 / 4.0));
    let page = forebay::report::text::render(&report, 200, false);
    let said = "Each model copy of `j` is spread over 4 GPUs: 4 stages (1f1b, 8 micro-batches)";
    assert!(page.contains(said), "{page}");
    assert!(page.contains("bubbles would be 27.3 %"), "{page}");
}
