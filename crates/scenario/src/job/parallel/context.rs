//! Settings of `[job.parallel.context]`: sequences split over GPUs.

use super::Parallelism;
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

/// Ranks that split each sequence: each has an equal part of its tokens, and all parameters of the stage. In each
/// attention layer, a rank's queries need the keys and values of all ranks. In backward, the gradients of keys and
/// values go back to the ranks that they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// Number of ranks that split each sequence.
    pub ranks: u32,
    /// Number of attention layers in each chunk of the model, in the model's order.
    pub attentions: Vec<u32>,
    /// Keys and values of all tokens of a batch in one attention layer [B].
    pub bytes: f64,
    /// When keys and values are exchanged.
    pub exchange: KeyExchange,
    /// Algorithm and fidelity of the exchange.
    pub method: Method,
}

impl Context {
    /// Returns the bytes of the keys and values of all tokens of a micro-batch in one attention layer [B]; each rank
    /// has the part for its own tokens. With tensor parallelism, only the attention heads of one tensor parallel rank
    /// are counted.
    #[must_use]
    pub fn bytes_of_each(&self, of: &Parallelism) -> u64 {
        let parts = f64::from(of.micro_batches) * f64::from(of.tensor_ranks());
        (self.bytes / parts).round() as u64
    }
}

/// When ranks exchange the keys and values of an attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyExchange {
    /// Keys and values are exchanged while the block computes with the ones that it already has (H. Liu, M. Zaharia and
    /// P. Abbeel, *Ring Attention with Blockwise Transformers*, 2023): the block takes the longer of the two times.
    #[default]
    Overlapped,
    /// Keys and values are exchanged before the attention, which waits for the keys and values of all ranks (A. Dubey
    /// et al., *The Llama 3 Herd of Models*, 2024, section 3.3.2); their gradients are exchanged after it.
    Exposed,
}

/// Each sequence split over GPUs.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContextSettings {
    /// GPUs that split each sequence.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) ranks: Field<Count<1, 10_000>>,
    /// Number of attention layers in the forward pass (default: one in each block of a transformer of the catalogue).
    #[schemars(extend("x-role" = Role::Identity))]
    attentions: Field<Count<0, 100_000>>,
    /// Bytes of the keys and values of a sample in each attention layer (default: those of a transformer of the
    /// catalogue).
    #[schemars(extend("x-role" = Role::Limit))]
    keys_values: Field<Amount<Size>>,
    /// When keys and values are exchanged: "overlapped" with the block's arithmetic, as ring attention does, or
    /// "exposed" before the attention, as Llama 3's training does (default: "overlapped").
    #[schemars(extend("x-role" = Role::Choice))]
    exchange: Field<KeyExchange>,
    /// Algorithm of the exchange: "ring", "recursive-doubling", … or "auto" (default: "auto", as NCCL chooses).
    #[schemars(extend("x-role" = Role::Choice))]
    algorithm: Field<AlgorithmName>,
    /// How collectives are simulated: "flow", each transfer shares links with all other traffic; "analytic", a
    /// collective takes its time on an idle network; or "auto", "flow" up to a million transfers in a step and
    /// otherwise "analytic" (default: "auto").
    #[schemars(extend("x-role" = Role::Output))]
    fidelity: Field<Fidelity>,
}

impl ContextSettings {
    /// Returns the checked settings of the table at document node `at`, for a model whose chunks take `shares` of a
    /// step; `None` if they are wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        model: Option<&ModelSettings>,
        (shares, batch): (&[f64], f64),
    ) -> Option<Context> {
        let ranks = check.required(at, &self.ranks, "ranks", "write `ranks = 2`")?.small();
        let known = model.and_then(ModelSettings::keys_values_bytes);
        if known.is_none() && ranks > 1 {
            let remedy = "write `attentions = 32`: one for each block of a transformer";
            check.required(at, &self.attentions, "attentions", remedy);
            let remedy = "write `keys_values = \"16 MB\"`, for each sample in one attention";
            check.required(at, &self.keys_values, "keys_values", remedy);
        }
        let attentions = match self.attentions.get() {
            Some(all) => super::tensor::spread(all.small(), shares),
            None => {
                let of = model.and_then(ModelSettings::known);
                let parts = of.map(|model| portions(&model, shares)).unwrap_or_default();
                parts.iter().map(|part| part.attentions).collect()
            }
        };
        let bytes = self.keys_values.get().map(|size| size.0).or(known).unwrap_or(0.0);
        Some(Context {
            ranks,
            attentions,
            bytes: bytes * batch,
            exchange: self.exchange.get().copied().unwrap_or_default(),
            method: Method::written(&self.algorithm, &self.fidelity),
        })
    }
}
