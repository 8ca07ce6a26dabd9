//! Mixtral.

use crate::catalogue::gated::{Decoder, Routing};
use crate::catalogue::layer::{Input, Model};
use crate::catalogue::sequence::Width;

/// Mixtral 8x7B: the blocks of a model of 7 billion parameters with eight experts each, of which a token takes two.
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
