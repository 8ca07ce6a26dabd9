//! How `[job.parallel]` is written.

use super::Pipeline;
use super::copies::CopiesSettings;
use super::learners::LearnersSettings;
use crate::scenario::check::Check;
use crate::scenario::document::NodeId;
use crate::scenario::field::{Field, List};
use crate::scenario::number::{Amount, Count, Factor};
use crate::units::Size;
use schemars::JsonSchema;

/// How the model is spread over the GPUs of a node.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct ParallelSettings {
    /// Data parallel: copies of the model.
    pub(super) data: Field<DataSettings>,
    /// Pipeline parallel: the model split over GPUs (default: not split).
    pub(super) pipeline: Field<PipelineSettings>,
}

/// Copies of the model.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct DataSettings {
    /// Model copies on each node, or on one after the other: `[4, 4, 2]`, or as many as each has "gpus"
    /// (default: 1).
    pub(super) copies_per_node: Field<CopiesSettings>,
    /// Learners on each GPU, each with a model, batches and steps of its own, which share it by
    /// `model.occupancy`: a number, or as a policy finds it: `{ auto = {} }` (default: 1).
    pub(super) learners: Field<LearnersSettings>,
    /// Who has a loader and a queue: "per-node", for all its model copies, or "per-rank": each model
    /// copy has its own, with as many workers each (default: "per-node").
    pub(super) loaders: Field<Loaders>,
}

/// Who has a loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum Loaders {
    /// Each node.
    PerNode,
    /// Each model copy.
    PerRank,
}

/// The model split over consecutive stages, each on a GPU of its own: `stages` or `shares`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct PipelineSettings {
    /// Number of equal stages.
    stages: Field<Count<1, 10_000>>,
    /// Share of the step time of each stage; they sum to 1.
    shares: Field<List<Factor>>,
    /// Whether stages work on different batches at once (default: true).
    overlap: Field<bool>,
    /// What a stage hands to the next one for each batch, over `cluster.node.intra` (default: 0 B).
    activations: Field<Amount<Size>>,
}

impl PipelineSettings {
    /// How many stages.
    pub(super) fn number(&self) -> u32 {
        let shares = self.shares.get().map(|list| list.0.len() as u32);
        self.stages.get().map(|stages| stages.small()).or(shares).unwrap_or(1).max(1)
    }

    /// The checked split of the table at node `at`.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Pipeline> {
        let choices = [("stages", self.stages.at), ("shares", self.shares.at)];
        let remedy = "write `stages = 4` or `shares = [0.5, 0.5]`";
        let overlap = self.overlap.get().copied().unwrap_or(true);
        let activations = self.activations.get().map_or(0.0, |size| size.0);
        if check.one_of(at, &choices, remedy)? == 0 {
            let stages = self.stages.get()?.small();
            let shares = vec![1.0 / f64::from(stages); stages as usize];
            return Some(Pipeline { shares, overlap, activations });
        }
        let (at, list) = self.shares.given()?;
        let shares: Vec<f64> =
            list.0.iter().map(|share| Some(share.get()?.0)).collect::<Option<_>>()?;
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            check.wrong(
                at,
                format!("the shares sum to {sum}, not to 1"),
                "write shares that sum to 1",
            );
            return None;
        }
        let shares = shares.iter().map(|share| share / sum).collect();
        Some(Pipeline { shares, overlap, activations })
    }
}
