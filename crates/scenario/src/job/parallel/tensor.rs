//! Settings of `[job.parallel.tensor]`: layers split over GPUs.

use super::method::Method;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::job::model::ModelSettings;
use crate::number::{Amount, Count};
use crate::role::Role;
use crate::sync::{AlgorithmName, Fidelity};
use forebay_model::device_memory::portions;
use forebay_model::units::Size;
use schemars::JsonSchema;

/// Ranks that split each layer (Shoeybi et al., *Megatron-LM*, 2019, section 3): each does its part of the arithmetic.
/// Twice in each block, in forward and again in backward, the ranks sum their results with an allreduce and wait for
/// it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Number of ranks that split each layer.
    pub ranks: u32,
    /// Number of allreduces in the forward pass of each chunk of the model, in the model's order; backward has as many
    /// again.
    pub reductions: Vec<u32>,
    /// Bytes of each allreduce, for a whole batch [B].
    pub bytes: f64,
    /// Algorithm and fidelity of the allreduces.
    pub method: Method,
}

/// Each layer split over GPUs.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TensorSettings {
    /// GPUs that split each layer.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) ranks: Field<Count<1, 10_000>>,
    /// Number of a stage's ranks on each node; the stage's other ranks are on the following nodes (default: all ranks
    /// of a stage are on one node).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) ranks_per_node: Field<Count<1, 10_000>>,
    /// Number of allreduces in the forward pass; backward has as many again (default: two in each block of a
    /// transformer of the catalogue).
    #[schemars(extend("x-role" = Role::Identity))]
    allreduces: Field<Count<0, 100_000>>,
    /// Bytes of each allreduce for a sample (default: the hidden states of a transformer of the catalogue).
    #[schemars(extend("x-role" = Role::Limit))]
    activations: Field<Amount<Size>>,
    /// Algorithm of the allreduces: "ring", "halving-doubling", … or "auto" (default: "auto", as NCCL chooses).
    #[schemars(extend("x-role" = Role::Choice))]
    algorithm: Field<AlgorithmName>,
    /// How collectives are simulated: "flow", each transfer shares links with all other traffic; "analytic", a
    /// collective takes its time on an idle network; or "auto", "flow" up to a million transfers in a step and
    /// otherwise "analytic" (default: "auto").
    #[schemars(extend("x-role" = Role::Output))]
    fidelity: Field<Fidelity>,
}

impl TensorSettings {
    /// Returns the checked settings of the table at document node `at`, for a model whose chunks take `shares` of a
    /// step; `None` if they are wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        model: Option<&ModelSettings>,
        (shares, batch): (&[f64], f64),
    ) -> Option<Tensor> {
        let ranks = check.required(at, &self.ranks, "ranks", "write `ranks = 8`")?.small();
        let known = model.and_then(ModelSettings::hidden_bytes);
        if known.is_none() && ranks > 1 {
            let remedy = "write `allreduces = 96`: two for each block of a transformer";
            check.required(at, &self.allreduces, "allreduces", remedy);
            let remedy = "write `activations = \"50 MB\"`, for each sample";
            check.required(at, &self.activations, "activations", remedy);
        }
        let reductions = match self.allreduces.get() {
            Some(all) => spread(all.small(), shares),
            None => {
                let of = model.and_then(ModelSettings::known);
                let parts = of.map(|model| portions(&model, shares)).unwrap_or_default();
                parts.iter().map(|part| part.reductions).collect()
            }
        };
        let bytes = self.activations.get().map(|size| size.0).or(known).unwrap_or(0.0);
        Some(Tensor {
            ranks,
            reductions,
            bytes: bytes * batch,
            method: Method::written(&self.algorithm, &self.fidelity),
        })
    }
}

/// Distributes `all` operations or layers over chunks in proportion to their shares.
pub(super) fn spread(all: u32, shares: &[f64]) -> Vec<u32> {
    let upto = |end: f64| (end * f64::from(all)).round() as u32;
    let mut end = 0.0;
    let of = |share: &f64| {
        let before = upto(end);
        end += share;
        upto(end).saturating_sub(before)
    };
    shares.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreading_layers_by_share_keeps_the_total_number_of_layers() {
        assert_eq!(spread(8, &[0.25; 4]), [2, 2, 2, 2]);
        assert_eq!(spread(7, &[0.5, 0.3, 0.2]).iter().sum::<u32>(), 7);
        assert_eq!(spread(3, &[1.0]), [3]);
    }
}
