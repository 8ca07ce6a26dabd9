//! GPT.

use crate::catalogue::layer::{Input, Layer, Model};
use crate::catalogue::sequence::Width;

const GPT2: &str = "A. Radford et al., Language Models are Unsupervised Multitask Learners, 2019; \
                    transformers' GPT2LMHeadModel";
const GPT3: &str =
    "T. Brown et al., Language Models are Few-Shot Learners, NeurIPS 2020, table 2.1";
/// Size of the vocabulary: number of different tokens.
const TOKENS: u64 = 50_257;

/// Returns GPT-2 with 124 million parameters.
pub(super) fn gpt2(length: u64) -> Model {
    gpt("gpt2", 12, Width { length, hidden: 768, heads: 12 }, 1024, GPT2)
}

/// Returns GPT-2 with 355 million parameters.
pub(super) fn gpt2_medium(length: u64) -> Model {
    gpt("gpt2-medium", 24, Width { length, hidden: 1024, heads: 16 }, 1024, GPT2)
}

/// Returns GPT-2 with 774 million parameters.
pub(super) fn gpt2_large(length: u64) -> Model {
    gpt("gpt2-large", 36, Width { length, hidden: 1280, heads: 20 }, 1024, GPT2)
}

/// Returns GPT-2 with 1.6 billion parameters.
pub(super) fn gpt2_xl(length: u64) -> Model {
    gpt("gpt2-xl", 48, Width { length, hidden: 1600, heads: 25 }, 1024, GPT2)
}

/// Returns GPT-3 XL.
pub(super) fn gpt3_1b(length: u64) -> Model {
    gpt("gpt3-1.3b", 24, Width { length, hidden: 2048, heads: 16 }, 2048, GPT3)
}

/// Returns GPT-3 6.7B.
pub(super) fn gpt3_7b(length: u64) -> Model {
    gpt("gpt3-6.7b", 32, Width { length, hidden: 4096, heads: 32 }, 2048, GPT3)
}

/// Returns GPT-3 175B. Attention is dense here, while it is sparse in every second block in the paper.
pub(super) fn gpt3_175b(length: u64) -> Model {
    gpt("gpt3-175b", 96, Width { length, hidden: 12_288, heads: 96 }, 2048, GPT3)
}

/// Returns a decoder whose output head uses the embedding's table.
fn gpt(
    name: &'static str,
    blocks: u64,
    width: Width,
    positions: u64,
    source: &'static str,
) -> Model {
    let sum = width.length * width.hidden;
    let mut layers = vec![
        width.embedding("wte", TOKENS),
        // The first norm keeps the sum of both embeddings for the backward pass.
        Layer { activations: sum, ..width.embedding("wpe", positions) },
    ];
    layers.extend((0..blocks).flat_map(|block| width.block(&format!("h.{block}"), false)));
    layers.push(width.norm("ln_f".to_owned()));
    layers.push(width.tied_head("lm_head", TOKENS));
    Model { name, input: Input::Tokens(width.length), layers, source }
}
