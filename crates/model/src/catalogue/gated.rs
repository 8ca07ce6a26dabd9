//! Layers of decoders with grouped-query attention and gated linear layers, dense or with experts.
//!
//! Heads of queries share heads of keys and values (J. Ainslie et al., *GQA*, EMNLP 2023). Positions are rotary (J. Su
//! et al., *RoFormer*, 2021) and have no parameters; norms only scale (B. Zhang and R. Sennrich, *Root Mean Square Layer
//! Normalization*, NeurIPS 2019). Three linear layers are gated (N. Shazeer, *GLU Variants Improve Transformer*, 2020).
//! There are no biases, and the head has a table of its own.
//!
//! Kept activations follow the rules of [`sequence`](super::sequence), except in attention: scores are not stored but
//! computed again from one number for each head and token (T. Dao, *FlashAttention-2*, 2023, section 3.1), since models
//! of this kind are trained so (H. Touvron et al., *LLaMA*, 2023, section 2.4). That work is not counted, as in published
//! totals. Ranks that split tensors have whole heads of keys and values each: what they keep is exact for at most
//! `kv_heads` ranks.

use super::layer::{Experts, Layer};
use super::sequence::Width;

/// Shape of such a decoder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder {
    /// Its width and what it works on.
    pub(super) width: Width,
    /// Blocks of attention and linear layers.
    pub(super) blocks: u64,
    /// Heads of keys and values, each shared by equally many heads of queries.
    pub(super) kv_heads: u64,
    /// Values of a token between the linear layers: the FFN dimension.
    pub(super) inner: u64,
    /// Different tokens.
    pub(super) vocabulary: u64,
    /// How tokens go to experts; `None` if blocks are dense.
    pub(super) routing: Option<Routing>,
}

/// How tokens go to experts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Routing {
    /// Experts of a block.
    pub(super) experts: u64,
    /// Experts that each token takes.
    pub(super) per_token: u64,
}

impl Decoder {
    /// Embedding, blocks, the last norm and the head.
    pub(super) fn layers(&self) -> Vec<Layer> {
        let (width, entries) = (self.width, self.vocabulary);
        // The rows are what the first norm needs.
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

    /// Root mean square norm: a scale for each value of a token.
    fn norm(&self, name: String) -> Layer {
        Layer { parameters: self.width.hidden, ..self.width.norm(name) }
    }

    /// Attention, then linear layers, each after a norm.
    fn block(&self, name: &str) -> Vec<Layer> {
        let of = |part: &str| format!("{name}.{part}");
        let (width, hidden) = (self.width, self.width.hidden);
        let queries_keys_values = hidden + 2 * self.kv_heads * (hidden / width.heads);
        let kept = width.length * queries_keys_values;
        let mut layers = vec![
            self.norm(of("norm1")),
            width.product(of("attention.qkv"), hidden, queries_keys_values, kept),
            width.attention_keeping(
                of("attention.scores"),
                width.heads * width.length,
                width.length * (queries_keys_values - hidden),
            ),
            width.joined(width.product(of("attention.output"), hidden, hidden, 0)),
            self.norm(of("norm2")),
        ];
        layers.extend(match self.routing {
            None => self.dense(name).to_vec(),
            Some(routing) => self.mixture(name, routing),
        });
        layers
    }

    /// The gated linear layers of every token.
    fn dense(&self, name: &str) -> [Layer; 3] {
        let [gate, up, down] = self.linear_layers(&format!("{name}.mlp"), self.width.length);
        [gate, up, self.width.joined(down)]
    }

    /// The router, and the gated linear layers of experts: each token goes to `per_token` of them, and their weighted
    /// results are added up. Ranks that split tensors add up their parts after that.
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
            // Experts keep their copies of tokens.
            of_experts(gate, copies, [copies, 0]),
            of_experts(up, 0, [0, 0]),
            // The router's gradient needs each expert's result, and the next norm their sum.
            Layer { reduced: result, ..of_experts(down, copies + result, [0, copies]) },
        ]
    }

    /// Gate, up and down over `tokens`: down(silu(gate(x)) · up(x)). The caller adds what `down` keeps.
    fn linear_layers(&self, name: &str, tokens: u64) -> [Layer; 3] {
        let of = |part: &str| format!("{name}.{part}");
        let width = Width { length: tokens, ..self.width };
        let (hidden, inner) = (width.hidden, self.inner);
        [
            // Before and after SiLU.
            width.product(of("gate"), hidden, inner, 2 * tokens * inner),
            // The result, and its product with the gate.
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
    /// Heads of keys and values, of 64 values each.
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
    fn dense_blocks_take_the_closed_forms() {
        let block = decoder(None).block("layers.0");
        let attention = 2 * H * H + 2 * H * 64 * K;
        assert_eq!(sum(&block, |l| l.parameters), attention + 3 * H * F + 2 * H);
        assert_eq!(sum(&block, |l| l.flops), 2 * S * (attention + 3 * H * F) + 4 * S * S * H);
        // Norms, queries, what is seen and both results: s·h each; keys and values of the shared heads; a number for
        // each head; gate and up, each before and after.
        let kept = 6 * S * H + 2 * S * 64 * K + S * A + 4 * S * F;
        assert_eq!(sum(&block, |l| l.activations), kept);
        assert!(block.iter().all(|layer| layer.experts.is_none()));
    }

    #[test]
    fn ranks_that_split_dense_blocks_keep_and_add_up_what_those_of_gpt_do() {
        // Shoeybi et al., Megatron-LM (2019), section 3: two sums of s·h. Korthikanti et al. (2022), section 4.2: both
        // norms and both sums are on all ranks.
        let block = decoder(None).block("layers.0");
        assert_eq!(sum(&block, |l| l.whole), 4 * S * H);
        let reduced: Vec<u64> = block.iter().map(|l| l.reduced).filter(|all| *all > 0).collect();
        assert_eq!(reduced, [S * H; 2]);
    }

    #[test]
    fn blocks_with_experts_count_all_parameters_and_the_work_of_those_taken() {
        let (e, top) = (8, 2);
        let block = decoder(Some(Routing { experts: e, per_token: top })).block("layers.0");
        let attention = 2 * H * H + 2 * H * 64 * K;
        let expert = 3 * H * F;
        assert_eq!(sum(&block, |l| l.parameters), attention + e * expert + e * H + 2 * H);
        assert_eq!(sum(&block, Layer::active_parameters), attention + top * expert + e * H + 2 * H);
        let flops = 2 * S * (attention + top * expert + e * H) + 4 * S * S * H;
        assert_eq!(sum(&block, |l| l.flops), flops);
        // Beside the same as in a dense block: shares of experts, copies of tokens and results of experts.
        let dense = 6 * S * H + 2 * S * 64 * K + S * A;
        let kept = dense + S * e + top * (2 * S * H + 4 * S * F);
        assert_eq!(sum(&block, |l| l.activations), kept);
        assert_eq!(sum(&block, |l| l.whole), 4 * S * H + S * e + 2 * top * S * H);
        let reduced: Vec<u64> = block.iter().map(|l| l.reduced).filter(|all| *all > 0).collect();
        assert_eq!(reduced, [S * H; 2]);
    }

    #[test]
    fn tokens_go_to_experts_before_the_first_of_their_layers_and_back_after_the_last() {
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
    fn a_decoder_has_two_tables_and_a_norm_beside_its_blocks() {
        let one = decoder(None);
        let (layers, block) = (one.layers(), one.block("layers.0"));
        let beside = |of: fn(&Layer) -> u64| sum(&layers, of) - 2 * sum(&block, of);
        assert_eq!(beside(|l| l.parameters), 2 * 100 * H + H);
        assert_eq!(beside(|l| l.flops), 2 * S * 100 * H);
        assert_eq!(beside(|l| l.activations), 2 * S * H + S * 100);
        // Rows of the embedding and the last norm are on all ranks, as the next layer needs them.
        assert_eq!(beside(|l| l.whole), 2 * S * H);
    }
}
