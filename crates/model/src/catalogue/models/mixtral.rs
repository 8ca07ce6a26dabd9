//! Mixtral.

use crate::catalogue::gated::{Decoder, Routing};
use crate::catalogue::layer::{Input, Model};
use crate::catalogue::sequence::Width;

/// Returns Mixtral 8x7B: blocks as in a model with 7 billion parameters, but with eight experts each; each token is routed to
/// two.
pub(super) fn mixtral_8x7b(length: u64) -> Model {
    let decoder = Decoder {
        width: Width { length, hidden: 4096, heads: 32 },
        blocks: 32,
        kv_heads: 8,
        inner: 14_336,
        vocabulary: 32_000,
        routing: Some(Routing { experts: 8, per_token: 2 }),
    };
    Model {
        name: "mixtral-8x7b",
        input: Input::Tokens(length),
        layers: decoder.layers(),
        source: "A. Jiang et al., Mixtral of Experts, 2024, table 1; transformers' MixtralForCausalLM",
    }
}
