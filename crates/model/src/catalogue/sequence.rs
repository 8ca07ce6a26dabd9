//! Layers of transformers; their sizes follow from hidden size, heads and sequence length.
//!
//! Kept activations are those of V. Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models* (2022),
//! section 4, without dropout masks. Tensor-parallel ranks all-reduce as in M. Shoeybi et al., *Megatron-LM* (2019), section 3.

use super::layer::Layer;

/// Hidden size and heads of a transformer, and the sequence length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Width {
    /// Tokens in a sequence.
    pub(super) length: u64,
    /// Hidden size: values for each token.
    pub(super) hidden: u64,
    /// Attention heads.
    pub(super) heads: u64,
}

impl Width {
    /// Returns the number of values in a sequence: tokens × hidden size.
    pub(super) fn values(self) -> u64 {
        self.length * self.hidden
    }

    /// Returns an embedding: a table with `entries` rows, one of which is looked up for each token. It keeps no activations,
    /// because its rows are added to other embeddings at once.
    pub(super) fn embedding(self, name: &str, entries: u64) -> Layer {
        Layer::plain(name.to_owned(), entries * self.hidden, 0, 0)
    }

    /// Returns a layer norm: one scale and one shift for each of a token's values.
    pub(super) fn norm(self, name: String) -> Layer {
        let layer = Layer::plain(name, 2 * self.hidden, 0, self.values());
        Layer { whole: self.values(), ..layer }
    }

    /// Returns a linear layer with a bias, from `from` to `to` values for each token. The backward pass needs `kept` elements of
    /// its result.
    pub(super) fn linear(self, name: String, from: u64, to: u64, kept: u64) -> Layer {
        Layer { parameters: from * to + to, ..self.product(name, from, to, kept) }
    }

    /// Returns a linear layer without a bias, from `from` to `to` values for each token. The backward pass needs `kept` elements
    /// of its result.
    pub(super) fn product(self, name: String, from: u64, to: u64, kept: u64) -> Layer {
        Layer::plain(name, from * to, 2 * self.length * from * to, kept)
    }

    /// Returns `layer` with a result that tensor-parallel ranks hold as partial sums: they all-reduce it, and each rank keeps it
    /// whole.
    pub(super) fn joined(self, layer: Layer) -> Layer {
        let values = self.values();
        Layer { activations: values, whole: values, reduced: values, ..layer }
    }

    /// Returns attention of every token to every token: two products in each head. The kept activations are the softmax weights
    /// before and after dropout, and the result.
    fn attention(self, name: String) -> Layer {
        let scores = 2 * self.heads * self.length * self.length;
        Layer { heads: self.heads, ..self.attention_keeping(name, scores, 2 * self.values()) }
    }

    /// Returns attention that keeps `scores` elements for the backward pass in place of the softmax weights. Its keys and values
    /// have `keys_values` elements.
    pub(super) fn attention_keeping(self, name: String, scores: u64, keys_values: u64) -> Layer {
        let pairs = self.length * self.length;
        let layer = Layer::plain(name, 0, 2 * 2 * pairs * self.hidden, scores + self.values());
        Layer { keys_values, ..layer }
    }

    /// Returns the output head: logits for `entries` tokens. It uses the embedding's table, so it adds no parameters.
    pub(super) fn tied_head(self, name: &str, entries: u64) -> Layer {
        let flops = 2 * self.values() * entries;
        let activations = self.length * entries;
        Layer::plain(name.to_owned(), 0, flops, activations)
    }

    /// Returns a block: attention, then two linear layers (the inner size is four times the hidden size), each part with a norm.
    /// Norms come after their part if `after`, otherwise before it; this makes no difference to the sizes.
    pub(super) fn block(self, name: &str, after: bool) -> Vec<Layer> {
        let (hidden, values) = (self.hidden, self.values());
        let of = |part: &str| format!("{name}.{part}");
        let attend = vec![
            self.linear(of("attention.qkv"), hidden, 3 * hidden, 3 * values),
            self.attention(of("attention.scores")),
            self.joined(self.linear(of("attention.output"), hidden, hidden, 0)),
        ];
        let think = vec![
            // Kept: values before and after the activation function.
            self.linear(of("mlp.in"), hidden, 4 * hidden, 2 * 4 * values),
            self.joined(self.linear(of("mlp.out"), 4 * hidden, hidden, 0)),
        ];
        let (first, second) = (vec![self.norm(of("norm1"))], vec![self.norm(of("norm2"))]);
        if after {
            [attend, first, think, second].concat()
        } else {
            [first, attend, second, think].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_flops_of_transformer_blocks_match_published_formulas() {
        // Korthikanti et al., equation 1: s·b·h·(34 + 5·a·s/h) bytes at two bytes per element, including dropout masks of 2·s·h +
        // a·s². Narayanan et al. (2021), appendix: 24·s·h² + 4·s²·h FLOPs.
        let (s, h, a) = (2048, 12_288, 96);
        let width = Width { length: s, hidden: h, heads: a };
        for after in [true, false] {
            let block = width.block("h.0", after);
            let sum = |of: fn(&Layer) -> u64| block.iter().map(of).sum::<u64>();
            let bytes = 2 * sum(|layer| layer.activations);
            assert_eq!(bytes + 2 * s * h + a * s * s, 34 * s * h + 5 * a * s * s);
            assert_eq!(sum(|layer| layer.flops), 24 * s * h * h + 4 * s * s * h);
            assert_eq!(sum(|layer| layer.parameters), 12 * h * h + 13 * h);
            assert_eq!(block[0].name == "h.0.norm1", !after);
            // Section 4.2: on each of t ranks s·b·h·(10 + 24/t + 5·a·s/(h·t)), including masks of 2·s·h + a·s²/t. Two all-reduces
            // of s·h elements each (Shoeybi et al., section 3).
            let whole = 2 * sum(|layer| layer.whole);
            assert_eq!(whole + 2 * s * h, 10 * s * h);
            assert_eq!(sum(|layer| layer.reduced), 2 * s * h);
            assert_eq!(block.iter().filter(|layer| layer.reduced > 0).count(), 2);
        }
    }
}
