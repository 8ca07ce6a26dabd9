//! BERT.

use crate::catalogue::layer::{Input, Layer, Model};
use crate::catalogue::sequence::Width;

/// Returns BERT-base for sequences of `length` tokens.
pub(super) fn base(length: u64) -> Model {
    bert("bert-base", 12, Width { length, hidden: 768, heads: 12 })
}

/// Returns BERT-large for sequences of `length` tokens.
pub(super) fn large(length: u64) -> Model {
    bert("bert-large", 24, Width { length, hidden: 1024, heads: 16 })
}

/// Returns the encoder with its pooler, without a head for a task.
fn bert(name: &'static str, blocks: u64, width: Width) -> Model {
    let hidden = width.hidden;
    let mut layers = vec![
        width.embedding("embeddings.word", 30_522),
        width.embedding("embeddings.position", 512),
        // The norm keeps the sum of the three embeddings for the backward pass.
        Layer { activations: width.length * hidden, ..width.embedding("embeddings.type", 2) },
        width.norm("embeddings.norm".to_owned()),
    ];
    layers.extend((0..blocks).flat_map(|block| width.block(&format!("layer.{block}"), true)));
    // The pooler reads only the first token.
    let first = Width { length: 1, ..width };
    layers.push(first.linear("pooler".to_owned(), hidden, hidden, hidden));
    Model {
        name,
        input: Input::Tokens(width.length),
        layers,
        source: "J. Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, NAACL 2019; \
                 transformers' BertModel",
    }
}
