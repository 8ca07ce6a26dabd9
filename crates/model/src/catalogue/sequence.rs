//! Layers of transformers, by their width and the length of a sequence.
//!
//! Kept activations are those of V. Korthikanti et al., *Reducing Activation Recomputation in Large
//! Transformer Models* (2022), section 4, without masks of dropout. What ranks that split a block add up is as
//! M. Shoeybi et al., *Megatron-LM* (2019), section 3, have it.

use super::layer::Layer;

/// Width of a transformer and what it works on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Width {
    /// Tokens of a sequence.
    pub(super) length: u64,
    /// Values that stand for a token.
    pub(super) hidden: u64,
    /// Heads of attention.
    pub(super) heads: u64,
}

impl Width {
    /// Values of a sequence.
    pub(super) fn values(self) -> u64 {
        self.length * self.hidden
    }

    /// A table of `entries` from which each token takes a row; rows are added to others' at once.
    pub(super) fn embedding(self, name: &str, entries: u64) -> Layer {
        Layer::plain(name.to_owned(), entries * self.hidden, 0, 0)
    }

    /// Layer norm: scale and shift of each value of a token.
    pub(super) fn norm(self, name: String) -> Layer {
        let layer = Layer::plain(name, 2 * self.hidden, 0, self.values());
        Layer { whole: self.values(), ..layer }
    }

    /// Each token's `from` values to `to` others with a bias; `kept` of the results are needed again.
    pub(super) fn linear(self, name: String, from: u64, to: u64, kept: u64) -> Layer {
        Layer { parameters: from * to + to, ..self.product(name, from, to, kept) }
    }

    /// The same without a bias.
    pub(super) fn product(self, name: String, from: u64, to: u64, kept: u64) -> Layer {
        Layer::plain(name, from * to, 2 * self.length * from * to, kept)
    }

    /// `layer` with a result that ranks which split a block have in parts: they add it up, and all of them keep it.
    pub(super) fn joined(self, layer: Layer) -> Layer {
        let values = self.values();
        Layer { activations: values, whole: values, reduced: values, ..layer }
    }

    /// Every token looks at every other: two products in each head, the shares before and after
    /// dropout, and what is seen.
    fn attention(self, name: String) -> Layer {
        let scores = 2 * self.heads * self.length * self.length;
        self.attention_keeping(name, scores, 2 * self.values())
    }

    /// The same products, with `scores` elements kept in place of the shares, and so many keys and values.
    pub(super) fn attention_keeping(self, name: String, scores: u64, keys_values: u64) -> Layer {
        let pairs = self.length * self.length;
        let layer = Layer::plain(name, 0, 2 * 2 * pairs * self.hidden, scores + self.values());
        Layer { keys_values, ..layer }
    }

    /// Logits of `entries` tokens, by the table of the embedding.
    pub(super) fn tied_head(self, name: &str, entries: u64) -> Layer {
        let flops = 2 * self.values() * entries;
        let activations = self.length * entries;
        Layer::plain(name.to_owned(), 0, flops, activations)
    }

    /// A block: attention, then two linear layers four times as wide, each with a norm. Where norms
    /// stand makes no difference to the sizes; they come after if `after`.
    pub(super) fn block(self, name: &str, after: bool) -> Vec<Layer> {
        let (hidden, values) = (self.hidden, self.values());
        let of = |part: &str| format!("{name}.{part}");
        let attend = vec![
            self.linear(of("attention.qkv"), hidden, 3 * hidden, 3 * values),
            self.attention(of("attention.scores")),
            self.joined(self.linear(of("attention.output"), hidden, hidden, 0)),
        ];
        let think = vec![
            // Before and after the activation function.
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
    fn a_block_is_what_is_published() {
        // Korthikanti et al., equation 1: s·b·h·(34 + 5·a·s/h) bytes at two bytes an element, of which dropout's
        // masks are 2·s·h + a·s². Narayanan et al. (2021), appendix: 24·s·h² + 4·s²·h FLOPs.
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
            // Section 4.2: over t ranks s·b·h·(10 + 24/t + 5·a·s/(h·t)), of which masks are 2·s·h + a·s²/t. Two sums of
            // s·h elements each (Shoeybi et al., section 3).
            let whole = 2 * sum(|layer| layer.whole);
            assert_eq!(whole + 2 * s * h, 10 * s * h);
            assert_eq!(sum(|layer| layer.reduced), 2 * s * h);
            assert_eq!(block.iter().filter(|layer| layer.reduced > 0).count(), 2);
        }
    }
}
