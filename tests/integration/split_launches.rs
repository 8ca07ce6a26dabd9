//! The trainers of the GPUs of a split model, each with its own work on the cores of its node.

use super::pipeline_schedules::{adds_up, spread};
use super::runs::{near, run, step};

/// Steps of 1 s.
const STEP: &str = "model.step = { per_sample = \"4166666667 ps\" }";
/// Time of a step on one GPU, as exact as [`STEP`] says it [s].
const SECOND: f64 = 240.0 * 4_166_666_667e-12;

/// Returns the step time of a job with the keys `job` on `nodes` nodes with `cores` cores each, where each trainer works as
/// `launch` says.
fn step_of((nodes, cores): (u32, u32), launch: &str, job: &str) -> f64 {
    let keys = format!("{STEP}\nmodel.launch = {{ work = {launch} }}\n{job}");
    let text = spread("scheduling = \"shared\"", &keys)
        .replace("cores = 8", &format!("cores = {cores}"))
        .replace("batch = 240", &format!("nodes = {nodes}\nbatch = 240"));
    let job = run(&text);
    adds_up(&job);
    step(&job)
}

fn tensor(ranks: u32, rest: &str) -> String {
    format!("parallel.tensor = {{ ranks = {ranks}, allreduces = 0, activations = \"0 B\"{rest} }}")
}

fn pipeline(rest: &str) -> String {
    format!("parallel.pipeline = {{ stages = 2, schedule = \"gpipe\", micro_batches = 2{rest} }}")
}

/// Time of two micro-batches on two stages: three forward and three backward units [s].
const PIPELINE: f64 = 3.0 / 4.0 * SECOND;

#[test]
fn trainers_of_gpus_that_split_layers_share_the_cores_of_their_node() {
    // System: four GPUs that split each layer; each trainer works for 0.1 s before the step is computed. Expectation:
    // with a core for each trainer, the step takes 0.1 s more; with one core, it takes the trainers' work one after
    // the other, and on two nodes each core has only two trainers.
    let time = |machine, rest: &str| {
        step_of(machine, "\"100 ms\", overlap = false", &tensor(4, rest)) - SECOND / 4.0
    };
    near(time((1, 4), ""), 0.1, "a core for each trainer");
    near(time((1, 1), ""), 0.4, "one core");
    near(time((2, 1), ", ranks_per_node = 2"), 0.2, "two nodes with one core each");
    near(time((4, 1), ", ranks_per_node = 1"), 0.1, "four nodes with one core each");
}

#[test]
fn trainers_of_pipeline_stages_work_on_the_cores_of_their_own_nodes() {
    // System: two stages, whose trainers work for 0.1 s before their first forward pass. Expectation: the second stage's
    // trainer works while the first stage's does, so it delays the step only where both share one core.
    let time = |machine, rest: &str| {
        step_of(machine, "\"100 ms\", overlap = false", &pipeline(rest)) - PIPELINE
    };
    near(time((2, 1), ", stages_per_node = 1"), 0.1, "two nodes with one core each");
    near(time((1, 2), ""), 0.1, "one node with two cores");
    near(time((1, 1), ""), 0.2, "one node with one core");
}

#[test]
fn launches_of_a_split_model_are_hidden_behind_its_computation() {
    // System: trainers that launch while the GPUs compute. Expectation: the step takes as long as the longer
    // of the trainers' work and the computation. On two nodes, both trainers work at the same time, each on its own core; on
    // one core they take turns.
    let time = |machine, work: &str, rest: &str| step_of(machine, work, &pipeline(rest));
    near(time((1, 2), "\"100 ms\"", ""), PIPELINE, "hidden");
    near(time((2, 1), "\"2 s\"", ", stages_per_node = 1"), 2.0, "longer than the step");
    near(time((1, 1), "\"2 s\"", ""), 4.0, "one core");
    near(time((1, 2), "\"2 s\", threads = 2", ""), 4.0, "two threads each on two cores");
}

#[test]
fn trainers_of_whole_batch_stages_work_beside_each_other() {
    // System: two stages that compute on whole batches, one after the other. Expectation: the second stage's trainer
    // works while the first stage's does.
    let whole = "parallel.pipeline = { stages = 2, overlap = false }";
    let time = |cores| step_of((1, cores), "\"100 ms\", overlap = false", whole) - SECOND;
    near(time(2), 0.1, "two cores");
    near(time(1), 0.2, "one core");
}

#[test]
fn trainers_hold_the_interpreters_lock_of_their_node() {
    // System: two GPUs that split each layer, whose trainers hold the interpreter's lock all the time. Expectation: on
    // one node they take turns, although there are cores enough; on two nodes they do not.
    let work = "\"100 ms\", overlap = false, gil = 1.0";
    let time = |nodes, rest: &str| step_of((nodes, 4), work, &tensor(2, rest)) - SECOND / 2.0;
    near(time(1, ""), 0.2, "one node");
    near(time(2, ", ranks_per_node = 1"), 0.1, "two nodes");
}

#[test]
fn each_trainer_of_a_split_model_draws_its_own_work() {
    // System: GPUs whose trainers need 0 to 0.2 s. Expectation: a step waits for the slowest of its trainers, so it takes
    // longer with more of them: k / (k + 1) of 0.2 s in the mean.
    let work = "{ uniform = { low = \"0 s\", high = \"200 ms\" } }, overlap = false";
    let wait = |ranks: u32| {
        let keys = tensor(ranks, "");
        let text = format!("{STEP}\nmodel.launch = {{ work = {work} }}\n{keys}");
        let text = spread("scheduling = \"shared\"", &text).replace("steps = 4", "steps = 2000");
        let end = run(&text.replace("cores = 8", "cores = 16")).steps.last().expect("steps").end;
        end / 2000.0 - SECOND / f64::from(ranks)
    };
    for ranks in [1, 4, 16] {
        let (mean, expected) = (wait(ranks), 0.2 * f64::from(ranks) / f64::from(ranks + 1));
        assert!((mean - expected).abs() < 0.005, "{ranks}: {mean}, not {expected}");
    }
}
