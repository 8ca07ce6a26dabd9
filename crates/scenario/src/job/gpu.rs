//! A GPU that live runs really train on. A simulation takes its step times from the profile, and simulates a host that is ahead.

use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Count;
use crate::role::Role;
use forebay_model::catalogue::Precision;
use schemars::JsonSchema;

/// How a live run trains on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealGpu {
    /// Number of the first model copy's GPU; the other model copies train on the GPUs with the next numbers.
    pub number: u32,
    /// Floating-point precision in which the GPU computes.
    pub precision: Precision,
    /// Whether a step is recorded once and repeated as a whole, as a CUDA graph.
    pub graph: bool,
    /// Number of steps that the host queues on the device behind the step in progress, in live runs and in simulations.
    pub ahead: u32,
}

impl RealGpu {
    /// Returns the name of the first model copy's GPU in a profile's table of steps, under which the probe records its
    /// trials.
    #[must_use]
    pub fn name(&self) -> String {
        let graph = if self.graph { "-graph" } else { "" };
        format!("cuda-{}-{}{graph}", self.number, self.precision.name())
    }
}

/// A GPU that live runs train on, and its host.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuSettings {
    /// Number of the first model copy's GPU (default: 0).
    #[schemars(extend("x-role" = Role::Identity))]
    number: Field<Count<0, 255>>,
    /// Record a step once and repeat it as a whole, as a CUDA graph (default: true).
    #[schemars(extend("x-role" = Role::Choice))]
    graph: Field<bool>,
    /// Number of steps that are queued on the device behind the step in progress, so that the device does not wait for
    /// the host, which asks for their batches meanwhile. With 0, a step is launched when the one before has ended
    /// (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    ahead: Field<Count<0, 64>>,
}

impl GpuSettings {
    /// Returns the checked GPU settings of the table at document node `at`, for a model that computes in `precision`;
    /// `None` if they are wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        precision: Precision,
    ) -> Option<RealGpu> {
        if precision == Precision::Fp16 {
            let what = "real GPUs train only in fp32, tf32 or bf16";
            check.wrong(at, what, "write `precision = \"bf16\"`, or `device = \"accelerator\"`");
            return None;
        }
        Some(RealGpu {
            number: self.number.get().map_or(0, |number| number.small()),
            precision,
            graph: self.graph.get().copied().unwrap_or(true),
            ahead: self.ahead.get().map_or(1, |ahead| ahead.small()),
        })
    }
}
