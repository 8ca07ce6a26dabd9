//! Step times by arithmetic: a model's FLOPs at a share of the GPU's peak FLOP/s.

use super::model::ModelSettings;
use super::{Device, StepTime};
use crate::check::Check;
use crate::document::NodeId;
use forebay_model::catalogue::Gpu;

/// Smallest share of a GPU's peak FLOP/s that `efficiency` accepts.
const LEAST: f64 = 1e-6;

impl ModelSettings {
    /// Returns the share of the peak FLOP/s that `efficiency` sets, and its document node; `None` if `efficiency` does
    /// not determine the time of a step.
    pub(super) fn efficiency(&self, check: Check<'_>, table: NodeId) -> Option<(NodeId, f64)> {
        let (at, share) = self.efficiency.given()?;
        let both = [("step", self.step.at), ("efficiency", self.efficiency.at)];
        let chosen = check.one_of(table, &both, "write `step` or `efficiency`");
        (chosen == Some(1)).then_some((at, share.0))
    }

    /// Returns the time of a step that reaches the share `of` of the peak FLOP/s of `gpu`; reports an error and returns
    /// `None` if this time cannot be computed.
    pub(super) fn by_arithmetic(
        &self,
        check: Check<'_>,
        (at, of): (NodeId, f64),
        gpu: Option<&Gpu>,
        device: Device,
    ) -> Option<StepTime> {
        let wrong = |what: &str, remedy: &str| check.wrong(at, what, remedy);
        if device != Device::Accelerator {
            wrong("the steps run on cores, whose peak is not known", "write `step = \"3 ms\"`");
            return None;
        }
        if of < LEAST {
            wrong("`efficiency` is too small", "write at least 1e-6, such as 0.4");
            return None;
        }
        let Some(model) = self.known() else {
            let remedy = "write `catalogue = \"resnet50\"`, or `step = \"3 ms\"`";
            wrong("`efficiency` needs the FLOPs of a step, which are not known", remedy);
            return None;
        };
        let Some(gpu) = gpu else {
            // An unknown GPU was refused where it is named: no second error about it here.
            if check.find(&["cluster", "node", "gpu"]).is_some() {
                return None;
            }
            let remedy = "write `cluster.node.gpu = \"v100-sxm2\"`, or `step = \"3 ms\"`";
            wrong("`efficiency` needs the peak rate of a GPU, and no GPU is named", remedy);
            return None;
        };
        let precision = self.precision();
        if !self.precision.is_written() {
            let source = "frameworks compute in single precision by default";
            check.assume(at, "precision", precision.name(), source);
        }
        let Some(peak) = gpu.peak(precision) else {
            let what = format!("the GPU `{}` has no peak rate in {}", gpu.name, precision.name());
            wrong(&what, "write another `precision`, such as \"fp32\" or \"fp16\"");
            return None;
        };
        let flops = model.flops() + model.backward_flops();
        let per_sample = flops as f64 / (peak * of);
        Some(StepTime { fixed: 0.0, per_sample, floor: 0.0, jitter: None })
    }
}
