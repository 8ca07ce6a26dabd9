//! What GPUs hold.

use super::format::bytes;
use forebay_model::device_memory::Footprint;
use forebay_scenario::{Job, Node, Swap};
use serde::Serialize;

/// What the GPU of a job that has most of its model holds [B], parts of which may be in its node's memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DeviceMemoryReport {
    /// All that is on the GPU.
    pub total: f64,
    /// What does not fit there, and is in its node's memory.
    #[serde(skip_serializing_if = "is_nothing")]
    pub outside: f64,
    /// What it has, where that is known.
    pub capacity: Option<f64>,
    /// Parameters that are computed with.
    pub parameters: f64,
    /// Their gradients.
    pub gradients: f64,
    /// What the optimizer keeps.
    pub optimizer: f64,
    /// Activations of all batches in progress.
    pub activations: f64,
    /// What learners share that average their models.
    #[serde(skip_serializing_if = "is_zero")]
    pub averaging: f64,
    /// What libraries take.
    pub workspace: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(bytes: &f64) -> bool {
    *bytes == 0.0
}

/// That of `job`, where it is known.
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

/// It in a sentence.
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
        size => format!(", and {} of what follows are in its node's memory", bytes(size)),
    };
    format!("A GPU of `{job}` holds {}{of}{outside}: {}.", bytes(held.total), parts.join(", "))
}
