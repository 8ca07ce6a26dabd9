//! Device memory: what a GPU of a job holds.

use super::format::bytes;
use forebay_model::device_memory::Footprint;
use forebay_scenario::{Job, Node, Swap};
use serde::Serialize;

/// Memory use of the GPU that holds the largest part of a job's model [B]. Some of the data may be swapped out to the node's
/// memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DeviceMemoryReport {
    /// Total memory use of the GPU, without the data that is swapped out to the node's memory.
    pub total: f64,
    /// Data that does not fit on the GPU and is kept in the node's memory instead.
    #[serde(skip_serializing_if = "is_nothing")]
    pub outside: f64,
    /// Memory capacity of the GPU; `None` if it is not known.
    pub capacity: Option<f64>,
    /// Parameters that the GPU computes with.
    pub parameters: f64,
    /// Gradients of the parameters.
    pub gradients: f64,
    /// Optimizer state.
    pub optimizer: f64,
    /// Activations of all batches in progress.
    pub activations: f64,
    /// Data that learners share to average their models.
    #[serde(skip_serializing_if = "is_zero")]
    pub averaging: f64,
    /// Workspace of libraries.
    pub workspace: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(bytes: &f64) -> bool {
    *bytes == 0.0
}

/// Returns the memory use of `job`'s GPUs; `None` if the size of its model is not known.
pub(super) fn device_memory(job: &Job, node: &Node) -> Option<DeviceMemoryReport> {
    let held = job.footprint()?;
    let Footprint { parameters, gradients, optimizer, activations, averaging, workspace } = held;
    let capacity = node.gpu_memory.is_finite().then_some(node.gpu_memory);
    let swap = job.parallelism.iter().flat_map(|of| &of.swap);
    let outside = swap.map(Swap::total).fold(0.0, f64::max);
    let total = held.total() - outside;
    Some(DeviceMemoryReport {
        total,
        outside,
        capacity,
        parameters,
        gradients,
        optimizer,
        activations,
        averaging,
        workspace,
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_nothing(bytes: &f64) -> bool {
    *bytes == 0.0
}

/// Writes the memory use as a sentence.
pub(super) fn line(job: &str, held: &DeviceMemoryReport) -> String {
    let of = held.capacity.map_or(String::new(), |capacity| format!(" of {}", bytes(capacity)));
    let parts = [
        ("parameters", held.parameters),
        ("gradients", held.gradients),
        ("optimizer", held.optimizer),
        ("activations", held.activations),
        ("averaging", held.averaging),
        ("workspace", held.workspace),
    ];
    let there = parts.iter().filter(|(_, size)| *size > 0.0);
    let parts: Vec<String> = there.map(|(what, size)| format!("{what} {}", bytes(*size))).collect();
    let outside = match held.outside {
        0.0 => String::new(),
        size => format!(", and {} more are in its node's memory", bytes(size)),
    };
    format!("A GPU of `{job}` holds {}{of}{outside}: {}.", bytes(held.total), parts.join(", "))
}
