//! Layers of decoders with grouped-query attention and gated linear layers, dense or with experts.
//!
//! Several query heads share one head of keys and values (J. Ainslie et al., *GQA*, EMNLP 2023). Positions are rotary (J. Su et
//! al., *RoFormer*, 2021) and have no parameters; norms only scale (B. Zhang and R. Sennrich, *Root Mean Square Layer
//! Normalization*, NeurIPS 2019). Each FFN has three linear layers and is gated (N. Shazeer, *GLU Variants Improve Transformer*,
//! 2020). There are no biases, and the output head has its own table, not that of the embedding.
//!
//! Kept activations follow the rules of [`sequence`](super::sequence), except in attention: scores are not stored but recomputed
//! in the backward pass from one number for each head and token (T. Dao, *FlashAttention-2*, 2023, section 3.1), because such
//! models are trained this way (H. Touvron et al., *LLaMA*, 2023, section 2.4). The recomputation is not counted as work, as in
//! published totals. Under tensor parallelism each rank has whole heads of keys and values, so the activations that a rank keeps
//! are exact for at most `kv_heads` ranks.

use super::layer::{Experts, Layer};
use super::sequence::Width;

/// Shape of a decoder with gated linear layers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder {
    /// Hidden size, query heads and sequence length.
    pub(super) width: Width,
    /// Number of blocks; each has attention and linear layers.
    pub(super) blocks: u64,
    /// Heads of keys and values; equally many query heads share each of them.
    pub(super) kv_heads: u64,
    /// Hidden size of the FFN: values for each token between its linear layers.
    pub(super) inner: u64,
    /// Size of the vocabulary: number of different tokens.
    pub(super) vocabulary: u64,
    /// Numbers of experts; `None` if the blocks are dense.
    pub(super) routing: Option<Routing>,
}

/// Numbers of experts in each block, and for each token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Routing {
    /// Experts in each block.
    pub(super) experts: u64,
    /// Experts that process each token.
    pub(super) per_token: u64,
}

impl Decoder {
    /// Returns all layers: embedding, blocks, final norm and head.
    pub(super) fn layers(&self) -> Vec<Layer> {
        let (width, entries) = (self.width, self.vocabulary);
        // The first norm keeps its input, the embedding's rows, for the backward pass.
        let embedding = Layer {
            activations: width.values(),
            whole: width.values(),
            ..width.embedding("tok_embeddings", entries)
        };
        let mut layers = vec![embedding];
        layers.extend((0..self.blocks).flat_map(|block| self.block(&format!("layers.{block}"))));
        layers.push(self.norm("norm".to_owned()));
        let logits = width.length * entries;
        layers.push(width.product("output".to_owned(), width.hidden, entries, logits));
        layers
    }

    /// Returns a root mean square norm; it has one scale for each of a token's hidden values.
    fn norm(&self, name: String) -> Layer {
        Layer { parameters: self.width.hidden, ..self.width.norm(name) }
    }

    /// Returns the layers of one block: attention, then linear layers, each after a norm.
    fn block(&self, name: &str) -> Vec<Layer> {
        let of = |part: &str| format!("{name}.{part}");
        let (width, hidden) = (self.width, self.width.hidden);
        let queries_keys_values = hidden + 2 * self.kv_heads * (hidden / width.heads);
        let kept = width.length * queries_keys_values;
        let mut layers = vec![
            self.norm(of("norm1")),
            width.product(of("attention.qkv"), hidden, queries_keys_values, kept),
            Layer {
                heads: self.kv_heads,
                ..width.attention_keeping(
                    of("attention.scores"),
                    width.heads * width.length,
                    width.length * (queries_keys_values - hidden),
                )
            },
            width.joined(width.product(of("attention.output"), hidden, hidden, 0)),
            self.norm(of("norm2")),
        ];
        layers.extend(match self.routing {
            None => self.dense(name).to_vec(),
            Some(routing) => self.mixture(name, routing),
        });
        layers
    }

    /// Returns the gated linear layers of a dense block.
    fn dense(&self, name: &str) -> [Layer; 3] {
        let [gate, up, down] = self.linear_layers(&format!("{name}.mlp"), self.width.length);
        [gate, up, self.width.joined(down)]
    }

    /// Returns the router and the gated linear layers of the experts. Each token goes to `per_token` experts, and their weighted
    /// results are summed. Each tensor-parallel rank has a partial sum, and the ranks all-reduce these partial sums.
    fn mixture(&self, name: &str, Routing { experts, per_token }: Routing) -> Vec<Layer> {
        let (width, routed) = (self.width, per_token * self.width.length);
        let weights = width.length * experts;
        let router = width.product(format!("{name}.moe.router"), width.hidden, experts, weights);
        let (copies, result) = (routed * width.hidden, width.values());
        let of_experts = |layer: Layer, whole, [dispatched, combined]: [u64; 2]| Layer {
            parameters: experts * layer.parameters,
            activations: layer.activations + whole,
            whole,
            experts: Some(Experts { count: experts, per_token, dispatched, combined }),
            ..layer
        };
        let [gate, up, down] = self.linear_layers(&format!("{name}.moe"), routed);
        vec![
            Layer { whole: weights, ..router },
            // Each expert keeps its copies of the tokens as the input of its layers.
            of_experts(gate, copies, [copies, 0]),
            of_experts(up, 0, [0, 0]),
            // The router's gradient needs each expert's result, and the next norm needs the sum of the results.
            Layer { reduced: result, ..of_experts(down, copies + result, [0, copies]) },
        ]
    }

    /// Returns the layers gate, up and down for `tokens` tokens: down(silu(gate(x)) · up(x)). The caller adds the activations
    /// that `down` keeps.
    fn linear_layers(&self, name: &str, tokens: u64) -> [Layer; 3] {
        let of = |part: &str| format!("{name}.{part}");
        let width = Width { length: tokens, ..self.width };
        let (hidden, inner) = (width.hidden, self.inner);
        [
            // Kept: values before and after SiLU.
            width.product(of("gate"), hidden, inner, 2 * tokens * inner),
            // Kept: the result, and its product with the gate.
            width.product(of("up"), hidden, inner, 2 * tokens * inner),
            width.product(of("down"), inner, hidden, 0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 512;
    const H: u64 = 1024;
    const A: u64 = 16;
    /// Heads of keys and values, 64 values each.
    const K: u64 = 4;
    const F: u64 = 3000;

    fn decoder(routing: Option<Routing>) -> Decoder {
        let width = Width { length: S, hidden: H, heads: A };
        Decoder { width, blocks: 2, kv_heads: K, inner: F, vocabulary: 100, routing }
    }

    fn sum(layers: &[Layer], of: fn(&Layer) -> u64) -> u64 {
        layers.iter().map(of).sum()
    }

    #[test]
    fn parameters_flops_and_activations_of_dense_blocks_match_closed_forms() {
        let block = decoder(None).block("layers.0");
        let attention = 2 * H * H + 2 * H * 64 * K;
        assert_eq!(sum(&block, |l| l.parameters), attention + 3 * H * F + 2 * H);
        assert_eq!(sum(&block, |l| l.flops), 2 * S * (attention + 3 * H * F) + 4 * S * S * H);
        // Kept: s·h each for the two norms, the queries, the result of attention and both block results; keys and values of the
        // shared heads; one number for each head and token; gate and up, before and after.
        let kept = 6 * S * H + 2 * S * 64 * K + S * A + 4 * S * F;
        assert_eq!(sum(&block, |l| l.activations), kept);
        assert!(block.iter().all(|layer| layer.experts.is_none()));
    }

    #[test]
    fn tensor_parallel_replicated_activations_and_all_reduces_match_papers() {
        // Shoeybi et al., Megatron-LM (2019), section 3: two all-reduces of s·h. Korthikanti et al. (2022), section 4.2: all
        // ranks keep both norms and both sums.
        let block = decoder(None).block("layers.0");
        assert_eq!(sum(&block, |l| l.whole), 4 * S * H);
        let reduced: Vec<u64> = block.iter().map(|l| l.reduced).filter(|all| *all > 0).collect();
        assert_eq!(reduced, [S * H; 2]);
    }

    #[test]
    fn blocks_with_experts_count_all_parameters_but_only_the_work_of_active_experts() {
        let (e, top) = (8, 2);
        let block = decoder(Some(Routing { experts: e, per_token: top })).block("layers.0");
        let attention = 2 * H * H + 2 * H * 64 * K;
        let expert = 3 * H * F;
        assert_eq!(sum(&block, |l| l.parameters), attention + e * expert + e * H + 2 * H);
        assert_eq!(sum(&block, Layer::active_parameters), attention + top * expert + e * H + 2 * H);
        let flops = 2 * S * (attention + top * expert + e * H) + 4 * S * S * H;
        assert_eq!(sum(&block, |l| l.flops), flops);
        // Kept beside the activations of a dense block: router weights, copies of tokens and results of experts.
        let dense = 6 * S * H + 2 * S * 64 * K + S * A;
        let kept = dense + S * e + top * (2 * S * H + 4 * S * F);
        assert_eq!(sum(&block, |l| l.activations), kept);
        assert_eq!(sum(&block, |l| l.whole), 4 * S * H + S * e + 2 * top * S * H);
        let reduced: Vec<u64> = block.iter().map(|l| l.reduced).filter(|all| *all > 0).collect();
        assert_eq!(reduced, [S * H; 2]);
    }

    #[test]
    fn tokens_are_dispatched_before_the_first_expert_layer_and_combined_after_the_last() {
        let block = decoder(Some(Routing { experts: 8, per_token: 3 })).block("layers.0");
        let moved: Vec<_> = block
            .iter()
            .filter_map(|layer| Some((layer.name.as_str(), layer.experts?)))
            .map(|(name, experts)| (name, experts.dispatched, experts.combined))
            .collect();
        let all = 3 * S * H;
        let expected = [
            ("layers.0.moe.gate", all, 0),
            ("layers.0.moe.up", 0, 0),
            ("layers.0.moe.down", 0, all),
        ];
        assert_eq!(moved, expected);
    }

    #[test]
    fn a_decoder_has_an_embedding_a_head_and_a_norm_beside_its_blocks() {
        let one = decoder(None);
        let (layers, block) = (one.layers(), one.block("layers.0"));
        let beside = |of: fn(&Layer) -> u64| sum(&layers, of) - 2 * sum(&block, of);
        assert_eq!(beside(|l| l.parameters), 2 * 100 * H + H);
        assert_eq!(beside(|l| l.flops), 2 * S * 100 * H);
        assert_eq!(beside(|l| l.activations), 2 * S * H + S * 100);
        // All ranks keep the embedding's rows and the result of the last norm, as the next layer needs them whole.
        assert_eq!(beside(|l| l.whole), 2 * S * H);
    }
}
