//! Llama 2 and 3.

use crate::catalogue::gated::Decoder;
use crate::catalogue::layer::{Input, Model};
use crate::catalogue::sequence::Width;

/// Widths and numbers of blocks are those of LLaMA (H. Touvron et al., *LLaMA*, 2023, table 2). The FFN dimension and the shape
/// of 70B are from the released weights.
const LLAMA2: &str = "H. Touvron et al., Llama 2: Open Foundation and Fine-Tuned Chat Models, 2023, table 1; \
                      transformers' LlamaForCausalLM";
/// The released weights have 128,256 tokens, which the table rounds to 128,000. FFN dimensions in the first version of the paper
/// are wrong (github.com/meta-llama/llama3, issue 283).
const LLAMA3: &str = "A. Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3; \
                      transformers' LlamaForCausalLM";

/// Returns Llama 2 7B. Every query head has its own head of keys and values.
pub(super) fn llama2_7b(length: u64) -> Model {
    let width = Width { length, hidden: 4096, heads: 32 };
    llama2("llama2-7b", width, [32, 32, 11_008])
}

/// Returns Llama 2 13B. Every query head has its own head of keys and values.
pub(super) fn llama2_13b(length: u64) -> Model {
    let width = Width { length, hidden: 5120, heads: 40 };
    llama2("llama2-13b", width, [40, 40, 13_824])
}

/// Returns Llama 2 70B.
pub(super) fn llama2_70b(length: u64) -> Model {
    let width = Width { length, hidden: 8192, heads: 64 };
    llama2("llama2-70b", width, [80, 8, 28_672])
}

/// Returns Llama 3 8B.
pub(super) fn llama3_8b(length: u64) -> Model {
    let width = Width { length, hidden: 4096, heads: 32 };
    llama3("llama3-8b", width, [32, 8, 14_336])
}

/// Returns Llama 3 70B.
pub(super) fn llama3_70b(length: u64) -> Model {
    let width = Width { length, hidden: 8192, heads: 64 };
    llama3("llama3-70b", width, [80, 8, 28_672])
}

/// Returns Llama 3 405B, released as 3.1.
pub(super) fn llama3_405b(length: u64) -> Model {
    let width = Width { length, hidden: 16_384, heads: 128 };
    llama3("llama3-405b", width, [126, 8, 53_248])
}

fn llama2(name: &'static str, width: Width, shape: [u64; 3]) -> Model {
    llama(name, width, shape, 32_000, LLAMA2)
}

fn llama3(name: &'static str, width: Width, shape: [u64; 3]) -> Model {
    llama(name, width, shape, 128_256, LLAMA3)
}

/// Returns a dense decoder; the array holds the number of blocks, the number of heads of keys and values, and the FFN dimension.
fn llama(
    name: &'static str,
    width: Width,
    [blocks, kv_heads, inner]: [u64; 3],
    vocabulary: u64,
    source: &'static str,
) -> Model {
    let decoder = Decoder { width, blocks, kv_heads, inner, vocabulary, routing: None };
    Model { name, input: Input::Tokens(width.length), layers: decoder.layers(), source }
}
