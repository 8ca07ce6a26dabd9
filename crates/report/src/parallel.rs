//! How models are spread over GPUs, and what the GPUs send.

use super::JobOutcome;
use super::format::{bytes, share};
use forebay_scenario::{Job, Method};
use serde::Serialize;

/// How each model copy of a job is spread over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ParallelReport {
    /// Model copies, trained data-parallel.
    pub data: u32,
    /// Pipeline stages of each model copy.
    pub pipeline: u32,
    /// Tensor-parallel ranks: GPUs that split each layer.
    pub tensor: u32,
    /// Context-parallel ranks: GPUs that split each sequence.
    pub context: u32,
    /// Expert-parallel ranks: number of model copies over which the experts are distributed.
    pub expert: u32,
    /// GPUs of a model copy.
    pub gpus: u32,
    /// ZeRO stage, which decides what data-parallel ranks shard; 0 if they shard nothing.
    pub zero: u32,
    /// Model copies that shard states among themselves; other groups of as many copies hold the same states.
    pub shard_copies: u32,
    /// Pipeline schedule: the order in which a stage works on micro-batches.
    pub schedule: &'static str,
    /// Chunks of the model that each stage has.
    pub chunks: u32,
    /// Number of micro-batches in a batch.
    pub micro_batches: u32,
    /// Share of time that equal stages would wait for each other if nothing else held them up: (p − 1) ÷ (m + p − 1) for p stages
    /// and m micro-batches with "gpipe" and "1f1b".
    pub bubble: f64,
    /// Activations, and their gradients, that a GPU sends to neighbouring stages in a step, mean over all GPUs [B].
    pub activation_bytes: Option<f64>,
    /// Partial results that a GPU sends to other tensor-parallel ranks in a step, mean over all GPUs [B].
    pub sum_bytes: Option<f64>,
    /// How the time of tensor-parallel collectives is found: "flow", by simulating each transfer, or "analytic",
    /// computed for an idle network; `None` without tensor parallelism.
    pub sum_fidelity: Option<&'static str>,
    /// Keys and values, and their gradients, that a GPU sends to other context-parallel ranks in a step, mean over all GPUs [B].
    pub key_value_bytes: Option<f64>,
    /// How the time of context-parallel collectives is found, as `sum_fidelity`; `None` without context parallelism.
    pub key_value_fidelity: Option<&'static str>,
    /// Tokens that a GPU sends to experts and back in a step, and their gradients, mean over all GPUs [B].
    pub token_bytes: Option<f64>,
    /// How the time of expert-parallel collectives is found, as `sum_fidelity`; `None` without expert parallelism.
    pub token_fidelity: Option<&'static str>,
    /// Gradients and sharded parameters that a GPU sends in a step, mean over all GPUs [B].
    pub gradient_bytes: Option<f64>,
    /// Data that does not fit on a GPU, swapped to its node's memory and back in a step, mean over all GPUs [B].
    pub swap_bytes: Option<f64>,
}

/// Returns how the model copies of `job` are spread over GPUs; `None` if the scenario does not describe that.
pub(super) fn parallel(job: &Job, copies: &[Vec<&JobOutcome>]) -> Option<ParallelReport> {
    let of = job.parallelism.as_ref()?;
    let (data, pipeline, tensor) = (job.ranks(), job.shares().len() as u32, of.tensor_ranks());
    let gpus = pipeline * of.ranks();
    let all = || copies.iter().flatten();
    let steps = all().map(|copy| copy.steps.len() as f64).sum::<f64>();
    let mean = |pick: fn(&super::ParallelOutcome) -> f64| {
        let sum: f64 = all().filter_map(|copy| copy.parallel.as_ref()).map(pick).sum();
        (steps > 0.0).then(|| sum / steps / (f64::from(data) * f64::from(gpus)))
    };
    Some(ParallelReport {
        data,
        pipeline,
        tensor,
        context: of.context_ranks(),
        expert: of.expert_ranks(),
        gpus,
        zero: of.zero,
        shard_copies: of.sharding_copies(data),
        schedule: of.schedule.name(),
        chunks: of.schedule.chunks(),
        micro_batches: of.micro_batches,
        bubble: of.bubble(),
        activation_bytes: mean(|books| books.activations),
        sum_bytes: mean(|books| books.sums),
        sum_fidelity: fidelity(of.tensor_ranks(), of.tensor.as_ref().map(|of| of.method)),
        key_value_bytes: mean(|books| books.keys_values),
        key_value_fidelity: fidelity(of.context_ranks(), of.context.as_ref().map(|of| of.method)),
        token_bytes: mean(|books| books.tokens)
            .map(|bytes| bytes / of.expert.as_ref().map_or(1.0, |expert| expert.load.excess())),
        token_fidelity: fidelity(of.expert_ranks(), of.expert.as_ref().map(|of| of.method)),
        gradient_bytes: mean(|books| books.gradients),
        swap_bytes: mean(|books| books.swapped),
    })
}

/// Returns how the time of collectives among `ranks` ranks is found; `None` if there is only one rank.
fn fidelity(ranks: u32, method: Option<Method>) -> Option<&'static str> {
    method.filter(|_| ranks > 1).map(|method| method.fidelity.name())
}

/// Writes how model copies are spread over GPUs, in a sentence or two.
pub(super) fn line(job: &str, of: &ParallelReport) -> String {
    let stages = match of.pipeline {
        1 => None,
        stages => {
            let chunks = match of.chunks {
                1 => String::new(),
                chunks => format!(", {chunks} chunks each"),
            };
            let (schedule, micro) = (of.schedule, of.micro_batches);
            Some(format!("{stages} stages{chunks} ({schedule}, {micro} micro-batches)"))
        }
    };
    let ranks = (of.tensor > 1).then(|| format!("{} ranks that split layers", of.tensor));
    let parts = (of.context > 1).then(|| format!("{} ranks that split sequences", of.context));
    let each: Vec<String> = stages.into_iter().chain(parts).chain(ranks).collect();
    let each = if each.is_empty() { String::new() } else { format!(": {}", each.join(" of ")) };
    let gpus = if of.gpus == 1 {
        "is on 1 GPU".to_owned()
    } else {
        format!("is spread over {} GPUs", of.gpus)
    };
    let groups = match of.shard_copies < of.data {
        true => format!(" in groups of {}", of.shard_copies),
        false => String::new(),
    };
    let zero = if of.zero > 0 && of.data > 1 {
        format!("; {} of them shard by ZeRO's stage {}{groups}", of.data, of.zero)
    } else {
        String::new()
    };
    let experts = match of.expert {
        1 => String::new(),
        copies => format!("; {copies} copies hold all experts together"),
    };
    let bubble = if of.pipeline > 1 {
        format!(" With equal stages alone, bubbles would be {}.", share(of.bubble))
    } else {
        String::new()
    };
    let sent = [
        ("of activations", of.activation_bytes),
        ("of sums in layers", of.sum_bytes),
        ("of keys and values", of.key_value_bytes),
        ("of tokens to and from experts", of.token_bytes),
        ("of gradients and parameters", of.gradient_bytes),
        ("to and from its node's memory", of.swap_bytes),
    ];
    let sent =
        sent.iter().filter_map(|(what, size)| Some((what, size.filter(|size| *size > 0.0)?)));
    let sent: Vec<String> = sent.map(|(what, size)| format!("{} {what}", bytes(size))).collect();
    let sent = match sent.is_empty() {
        true => String::new(),
        false => format!(" A GPU sends {} in a step.", sent.join(", ")),
    };
    format!("Each model copy of `{job}` {gpus}{each}{zero}{experts}.{bubble}{sent}")
}
