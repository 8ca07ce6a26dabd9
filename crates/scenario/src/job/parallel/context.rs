//! Sequences split over GPUs: how `[job.parallel.context]` is written.

use super::Parallelism;
use super::method::Method;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::job::model::ModelSettings;
use crate::number::{Amount, Count};
use crate::sync::{AlgorithmName, Fidelity};
use forebay_model::device_memory::portions;
use forebay_model::units::Size;
use schemars::JsonSchema;

/// Ranks that split each sequence: each has an equal part of its tokens, and all parameters of the stage. In each
/// attention a rank's queries meet the keys and values of all ranks, and in backward the gradients of these go back.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// How many.
    pub ranks: u32,
    /// Attentions of each chunk of the model, in its order.
    pub attentions: Vec<u32>,
    /// Keys and values of all tokens of a batch in one attention [B].
    pub bytes: f64,
    /// When they are exchanged.
    pub exchange: KeyExchange,
    /// How they are.
    pub method: Method,
}

impl Context {
    /// Keys and values of all tokens of a micro-batch in one attention that a rank has a part of [B]: of its heads, where
    /// ranks split layers.
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
    /// While the block computes with those that it has (H. Liu, M. Zaharia and P. Abbeel, *Ring Attention with Blockwise
    /// Transformers*, 2023): the block takes the longer of both.
    #[default]
    Overlapped,
    /// Before the attention, which waits for all of them (A. Dubey et al., *The Llama 3 Herd of Models*, 2024, section
    /// 3.3.2), and their gradients after it.
    Exposed,
}

/// Each sequence split over GPUs.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContextSettings {
    /// GPUs that split each sequence.
    #[schemars(required)]
    pub(super) ranks: Field<Count<1, 10_000>>,
    /// Attentions in forward (default: one in each block of a transformer of the catalogue).
    attentions: Field<Count<0, 100_000>>,
    /// Keys and values of a sample in each of them (default: those of a transformer of the catalogue).
    keys_values: Field<Amount<Size>>,
    /// When they are exchanged: "overlapped" with the block's arithmetic, as ring attention does, or "exposed" before the
    /// attention, as Llama 3's training does (default: "overlapped").
    exchange: Field<KeyExchange>,
    /// How: "ring", "recursive-doubling", … or "auto" (default: "auto", as NCCL chooses).
    algorithm: Field<AlgorithmName>,
    /// Whether each transfer shares links with everything else: "flow", or a collective takes its time on an idle
    /// network: "analytic", or the first of these up to a million transfers in a step: "auto" (default: "auto").
    fidelity: Field<Fidelity>,
}

impl ContextSettings {
    /// The checked settings of the table at node `at`, of a model in stages of these shares.
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
            let remedy = "write `keys_values = \"16 MB\"`, of a sample in one of them";
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
