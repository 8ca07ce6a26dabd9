//! The calls of the forward pass, operator by operator.

use super::compile::{Compiler, Done, Kept, blocks_for, plane_splits};
use super::program::{Block, Call, Convolution, ConvolutionPass, Matrix, Slot, Word};
use forebay_networks::Operator;

impl Compiler {
    /// Adds the calls that compute an operator's output `y` from its input `x`. Returns the results that the
    /// operator's backward calls need.
    pub(super) fn forward<'n>(
        &mut self,
        operator: &'n Operator,
        x: Slot,
        y: Slot,
        own: &[Block],
    ) -> Kept<'n> {
        let n = self.samples * operator.outputs();
        let simple = [x.into(), y.into(), n.into()];
        match operator {
            Operator::Conv { shape, .. } => {
                let (way, w, samples) =
                    (ConvolutionPass::Forward, self.narrow(own[0]), self.samples);
                let shape = *shape;
                self.calls.push(Call::Convolution(Convolution { way, shape, samples, x, w, y }));
                self.bias(y, n, own, shape.to, shape.out() * shape.out());
            }
            Operator::Linear { rows, from, to } => {
                let w = Matrix::one(self.narrow(own[0]), *from).turned();
                let sides = [self.samples * rows, *to, *from];
                self.product(Matrix::one(x, *from), w, Matrix::one(y, *to), sides, 1);
                self.bias(y, n, own, *to, 1);
            }
            Operator::Relu(_) => self.each("relu", n, simple),
            Operator::Gelu(_) => self.each("gelu", n, simple),
            Operator::MaxPool(windows) => {
                let chosen = self.memory.take(n);
                let sizes =
                    [windows.side, windows.out(), windows.window, windows.stride, windows.padding];
                let [side, out, window, stride, padding] = sizes.map(Word::from);
                let words = [x.into(), y.into(), chosen.into(), n.into()];
                let [x, y, chosen, n] = words;
                let blocks = blocks_for(self.samples * operator.outputs());
                self.launch(
                    "max_pool",
                    blocks,
                    [x, y, chosen, n, side, out, window, stride, padding],
                );
                let Word::At(chosen) = chosen else { return Kept::Nothing };
                return Kept::One(chosen);
            }
            Operator::Average { plane, .. } => {
                self.launch(
                    "average",
                    blocks_for(32 * n),
                    [x.into(), y.into(), n.into(), (*plane).into()],
                );
            }
            Operator::BatchNorm { channels, plane } => {
                return Kept::One(self.batch_norm(x, y, own, *channels, *plane));
            }
            Operator::LayerNorm { rows, width } => {
                let rows = self.samples * rows;
                let moments = self.memory.take(8 * rows);
                let (scale, shift) = (self.wide(own[0]), self.wide(own[1]));
                let words = [x, scale, shift, moments, y].map(Word::from);
                let [x, scale, shift, m, y] = words;
                self.each_row(
                    "layer_norm",
                    rows,
                    *width,
                    [x, scale, shift, m, y, rows.into(), (*width).into()],
                );
                return Kept::One(moments);
            }
            Operator::Attention { heads, length, width } => {
                let (parts, weights) = self.attention(x, y, *heads, *length, *width);
                return Kept::Heads(parts, weights);
            }
            Operator::Embedding { tokens, length, width } => {
                let table = self.wide(own[0]);
                let sizes = [n, *tokens, *length, *width].map(Word::from);
                let [n_word, tokens, length, width] = sizes;
                self.each(
                    "embed",
                    n,
                    [x.into(), table.into(), y.into(), n_word, tokens, length, width],
                );
            }
            Operator::Residual { body, shortcut } => {
                let (body, shortcut) = (self.chain(body, x), self.chain(shortcut, x));
                let end = |chain: &[Done]| chain.last().map_or(x, |done| done.y);
                let words = [end(&body).into(), end(&shortcut).into(), y.into(), n.into()];
                self.each("add", n, words);
                return Kept::Chains(body, shortcut);
            }
        }
        Kept::Nothing
    }

    /// Adds the call that adds the bias to `y`, if the operator has a bias.
    fn bias(&mut self, y: Slot, n: usize, own: &[Block], channels: usize, plane: usize) {
        if let Some(&bias) = own.get(1) {
            let bias = self.wide(bias);
            self.each(
                "bias_add",
                n,
                [y.into(), bias.into(), n.into(), channels.into(), plane.into()],
            );
        }
    }

    /// Adds the calls of a batch norm: moments of each channel, then the normalised values. Returns the slot of
    /// the moments.
    fn batch_norm(
        &mut self,
        x: Slot,
        y: Slot,
        own: &[Block],
        channels: usize,
        plane: usize,
    ) -> Slot {
        let (samples, count) = (self.samples, self.samples * plane);
        let splits = plane_splits(channels, count);
        let partial = self.memory.take(8 * channels * splits);
        let moments = self.memory.take(8 * channels);
        let [c, p, s] = [channels, plane, splits].map(Word::from);
        self.launch(
            "batch_sums",
            channels * splits,
            [x.into(), partial.into(), samples.into(), c, p, s],
        );
        let words = [x.into(), partial.into(), moments.into(), c, p, s, count.into()];
        self.each("batch_moments", channels, words);
        let (scale, shift, n) = (self.wide(own[0]), self.wide(own[1]), count * channels);
        let words =
            [x.into(), scale.into(), shift.into(), moments.into(), y.into(), n.into(), c, p];
        self.each("batch_norm", n, words);
        self.memory.give(partial);
        moments
    }

    /// Adds the calls of self-attention: splits query, key and value into a matrix for each head, computes
    /// attention weights and attended values, and merges the heads back into rows. Returns the slots of the
    /// split matrices and of the weights.
    fn attention(
        &mut self,
        x: Slot,
        y: Slot,
        heads: usize,
        length: usize,
        width: usize,
    ) -> (Slot, Slot) {
        let (rows, head, count) = (self.samples * length, width / heads, self.samples * heads);
        let parts = self.values(3 * rows * width);
        self.heads("split_heads", x, parts, [length, heads, head], 3);
        let [query, key, value] =
            self.three(parts, rows * width).map(|s| Matrix::many(s, length, head));
        let scores = self.values(count * length * length);
        let weights = Matrix::many(scores, length, length);
        self.product(query, key.turned(), weights, [length, length, head], count);
        let scale = 1.0 / (head as f32).sqrt();
        let words = [scores.into(), length.into(), scale.into()];
        self.each_row("soften", count * length, length, words);
        let seen = self.values(rows * width);
        self.product(
            weights,
            value,
            Matrix::many(seen, length, head),
            [length, head, length],
            count,
        );
        self.heads("merge_heads", seen, y, [length, heads, head], 1);
        self.memory.give(seen);
        (parts, scores)
    }

    /// Splits a slot of three times `n` values into query, key and value.
    pub(super) fn three(&self, parts: Slot, n: usize) -> [Slot; 3] {
        let bytes = n * self.precision.bytes();
        [0, 1, 2].map(|i| parts.part(i * bytes..(i + 1) * bytes))
    }

    /// Adds the call of a kernel that splits rows into a matrix for each head (`split_heads`), or merges such
    /// matrices into rows (`merge_heads`). Each row has `parts` parts, such as query, key and value.
    pub(super) fn heads(
        &mut self,
        kernel: &str,
        from: Slot,
        to: Slot,
        sizes: [usize; 3],
        parts: usize,
    ) {
        let n = self.samples * sizes.iter().product::<usize>();
        let [length, heads, head] = sizes.map(Word::from);
        let words = [from.into(), to.into(), n.into(), length, heads, head, parts.into()];
        self.each(kernel, n, words);
    }
}
