//! BERT.

use crate::catalogue::layer::{Input, Layer, Model};
use crate::catalogue::sequence::Width;

/// BERT-base.
pub(super) fn base(length: u64) -> Model {
    bert("bert-base", 12, Width { length, hidden: 768, heads: 12 })
}

/// BERT-large.
pub(super) fn large(length: u64) -> Model {
    bert("bert-large", 24, Width { length, hidden: 1024, heads: 16 })
}

/// The encoder with its pooler, without a head for a task.
fn bert(name: &'static str, blocks: u64, width: Width) -> Model {
    let hidden = width.hidden;
    let mut layers = vec![
        width.embedding("embeddings.word", 30_522),
        width.embedding("embeddings.position", 512),
        // The sum of the three is what the norm needs.
        Layer { activations: width.length * hidden, ..width.embedding("embeddings.type", 2) },
        width.norm("embeddings.norm".to_owned()),
    ];
    layers.extend((0..blocks).flat_map(|block| width.block(&format!("layer.{block}"), true)));
    // The first token only.
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
