//! The calls of the backward pass, operator by operator.

use super::compile::{Compiler, Done, Kept, plane_splits, row_splits};
use super::program::{
    Block, Call, Convolution, ConvolutionPass, Matrix, Precision, Product, Slot, Word,
};
use forebay_networks::{Operator, Shape};

/// Which gradients the backward pass of consecutive operators (a chain) computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Gradients of parameters; the gradient of the output may be overwritten.
    Parameters,
    /// Gradients of parameters and of the input; the gradient of the output stays untouched, because it is
    /// needed again.
    Untouched,
}

impl Compiler {
    /// Adds the backward calls of the operators in `chain`, from the last to the first; `dy` is the gradient of
    /// the chain's output. Returns the slot of the gradient of the chain's input; `None` if this gradient is not
    /// computed.
    pub(super) fn chain_back(
        &mut self,
        chain: &[Done],
        mut dy: Slot,
        wanted: Wanted,
    ) -> Option<Slot> {
        let mut ours = wanted != Wanted::Untouched;
        for (i, done) in chain.iter().enumerate().rev() {
            let of_input = i > 0 || wanted != Wanted::Parameters;
            let dx = self.operator_back(done, dy, of_input, ours);
            if ours && dx != Some(dy) {
                self.memory.give(dy);
            }
            (dy, ours) = (dx?, true);
        }
        Some(dy)
    }

    /// Adds the backward calls of one operator. `wanted` says whether the gradient of the operator's input is
    /// wanted, `ours` whether `dy`, the gradient of its output, may be overwritten. Returns the slot of the
    /// gradient of the input; `None` if this gradient is not computed.
    fn operator_back(&mut self, done: &Done, dy: Slot, wanted: bool, ours: bool) -> Option<Slot> {
        let (x, y, own) = (done.x, done.y, &done.blocks[..]);
        let (n, outputs) =
            (self.samples * done.operator.inputs(), self.samples * done.operator.outputs());
        match (done.operator, &done.kept) {
            (Operator::Residual { .. }, Kept::Chains(body, shortcut)) => {
                return self.residual_back(body, shortcut, dy, wanted, n);
            }
            (Operator::Relu(_), _) => {
                let dx = if ours { dy } else { self.values(n) };
                self.each("relu_backward", n, [y.into(), dy.into(), dx.into(), n.into()]);
                return Some(dx);
            }
            (Operator::Embedding { tokens, length, width }, _) => {
                let table = self.gradient(own[0]);
                self.zero(table, own[0].len);
                let [count, tokens, length, width] =
                    [outputs, *tokens, *length, *width].map(Word::from);
                let words = [x.into(), dy.into(), table.into(), count, tokens, length, width];
                self.each("embed_backward", outputs, words);
                return None;
            }
            (Operator::Conv { shape, .. }, _) => self.conv_back(*shape, x, dy, own),
            (Operator::Linear { rows, from, to }, _) => {
                self.linear_back(self.samples * rows, *from, *to, x, dy, own);
            }
            (Operator::BatchNorm { channels, plane }, Kept::One(moments)) => {
                self.batch_norm_sums(x, dy, *moments, own, *channels, *plane);
            }
            (Operator::LayerNorm { rows, width }, Kept::One(moments)) => {
                self.layer_norm_sums(x, dy, *moments, own, self.samples * rows, *width);
            }
            _ => {}
        }
        if !wanted {
            return None;
        }
        let dx = self.values(n);
        self.input_back(done, dy, dx, n);
        Some(dx)
    }

    /// Adds the calls that compute the gradient `dx` of an operator's input from the gradient `dy` of its
    /// output.
    fn input_back(&mut self, done: &Done, dy: Slot, dx: Slot, n: usize) {
        let (x, own) = (done.x, &done.blocks[..]);
        match (done.operator, &done.kept) {
            (Operator::Conv { shape, .. }, _) => {
                let (way, w, samples) = (ConvolutionPass::Data, self.narrow(own[0]), self.samples);
                let call = Convolution { way, shape: *shape, samples, x: dx, w, y: dy };
                self.calls.push(Call::Convolution(call));
            }
            (Operator::Linear { rows, from, to }, _) => {
                let w = Matrix::one(self.narrow(own[0]), *from);
                let sides = [self.samples * rows, *from, *to];
                self.product(Matrix::one(dy, *to), w, Matrix::one(dx, *from), sides, 1);
            }
            (Operator::Gelu(_), _) => {
                self.each("gelu_backward", n, [x.into(), dy.into(), dx.into(), n.into()]);
            }
            (Operator::MaxPool(windows), Kept::One(chosen)) => {
                let (side, out) = (windows.side, windows.out());
                let sizes = [n, side, out, windows.window, windows.stride, windows.padding];
                let [n_word, side, out, window, stride, padding] = sizes.map(Word::from);
                let [chosen, dy, dx] = [*chosen, dy, dx].map(Word::from);
                let words = [chosen, dy, dx, n_word, side, out, window, stride, padding];
                self.each("max_pool_backward", n, words);
            }
            (Operator::Average { plane, .. }, _) => {
                self.each("average_backward", n, [dy.into(), dx.into(), n.into(), (*plane).into()]);
            }
            (Operator::BatchNorm { channels, plane }, Kept::One(moments)) => {
                let slots = [x, dy, self.wide(own[0]), *moments];
                let [x, dy, scale, moments] = slots.map(Word::from);
                let [d_scale, d_shift] = [0, 1].map(|i| Word::from(self.gradient(own[i])));
                let sizes = [n, *channels, *plane, self.samples * plane];
                let [n_word, c, p, count] = sizes.map(Word::from);
                let dx = dx.into();
                let words = [x, dy, scale, moments, d_scale, d_shift, dx, n_word, c, p, count];
                self.each("batch_norm_backward", n, words);
            }
            (Operator::LayerNorm { rows, width }, Kept::One(moments)) => {
                let (scale, rows) = (self.wide(own[0]), self.samples * rows);
                let [x, dy, scale, moments, dx] = [x, dy, scale, *moments, dx].map(Word::from);
                let words = [x, dy, scale, moments, dx, rows.into(), (*width).into()];
                self.each_row("layer_norm_backward", rows, *width, words);
            }
            (Operator::Attention { heads, length, width }, Kept::Heads(parts, weights)) => {
                self.attention_back(*parts, *weights, dy, dx, [*heads, *length, *width]);
            }
            _ => {}
        }
    }

    /// Adds the backward calls of a residual operator. Body and shortcut get the same gradient of the output;
    /// the gradient of the input is the sum of the gradients that come out of both.
    fn residual_back(
        &mut self,
        body: &[Done],
        shortcut: &[Done],
        dy: Slot,
        wanted: bool,
        n: usize,
    ) -> Option<Slot> {
        // The gradient of the input is computed even if it is not wanted. That costs nothing: no network begins
        // with a residual operator.
        let through = self.chain_back(body, dy, Wanted::Untouched);
        let round = self.chain_back(shortcut, dy, Wanted::Untouched);
        let (through, round) = (through?, round?);
        self.each("add", n, [through.into(), round.into(), through.into(), n.into()]);
        if round != dy {
            self.memory.give(round);
        }
        if !wanted {
            self.memory.give(through);
        }
        wanted.then_some(through)
    }

    fn conv_back(&mut self, shape: Shape, x: Slot, y: Slot, own: &[Block]) {
        let (filters, samples, way) =
            (self.gradient(own[0]), self.samples, ConvolutionPass::Filters);
        let n = own[0].len;
        // cuDNN writes the gradient of the filters in the program's precision; gradients of parameters have 4
        // bytes.
        let narrow = self.precision == Precision::Bf16;
        let w = if narrow { self.values(n) } else { filters };
        self.calls.push(Call::Convolution(Convolution { way, shape, samples, x, w, y }));
        if narrow {
            self.each("widen", n, [w.into(), filters.into(), n.into()]);
            self.memory.give(w);
        }
        let Some(&bias) = own.get(1) else { return };
        let (channels, plane) = (shape.to, shape.out() * shape.out());
        let splits = plane_splits(channels, samples * plane);
        let partial = self.memory.take(4 * channels * splits);
        let sizes = [samples, channels, plane, splits].map(Word::from);
        let [s, c, p, parts] = sizes;
        self.launch("plane_sums", channels * splits, [y.into(), partial.into(), s, c, p, parts]);
        self.add_partials(partial, self.gradient(bias), channels, splits);
        self.memory.give(partial);
    }

    fn linear_back(
        &mut self,
        rows: usize,
        from: usize,
        to: usize,
        x: Slot,
        dy: Slot,
        own: &[Block],
    ) {
        let (a, b) = (Matrix::one(dy, to).turned(), Matrix::one(x, from));
        let c = Matrix::one(self.gradient(own[0]), from);
        let product = Product { a, b, c, wide: true, sides: [to, from, rows], count: 1 };
        self.calls.push(Call::Product(product));
        let splits = row_splits(to, rows);
        let partial = self.memory.take(4 * to * splits);
        let words = [dy.into(), partial.into(), rows.into(), to.into(), splits.into()];
        self.launch("column_sums", to.div_ceil(32) * splits, words);
        self.add_partials(partial, self.gradient(own[1]), to, splits);
        self.memory.give(partial);
    }

    fn batch_norm_sums(
        &mut self,
        x: Slot,
        dy: Slot,
        moments: Slot,
        own: &[Block],
        channels: usize,
        plane: usize,
    ) {
        let splits = plane_splits(channels, self.samples * plane);
        let partial = self.memory.take(8 * channels * splits);
        let [x, dy, moments, to] = [x, dy, moments, partial].map(Word::from);
        let [s, c, p, parts] = [self.samples, channels, plane, splits].map(Word::from);
        self.launch("batch_gradient_sums", channels * splits, [x, dy, moments, to, s, c, p, parts]);
        let to = [0, 1].map(|i| self.gradient(own[i]));
        self.add_two_partials(partial, to, channels, splits);
        self.memory.give(partial);
    }

    fn layer_norm_sums(
        &mut self,
        x: Slot,
        dy: Slot,
        moments: Slot,
        own: &[Block],
        rows: usize,
        width: usize,
    ) {
        let splits = row_splits(width, rows);
        let partial = self.memory.take(8 * width * splits);
        let [x, dy, moments, to] = [x, dy, moments, partial].map(Word::from);
        let words = [x, dy, moments, to, rows.into(), width.into(), splits.into()];
        self.launch("layer_gradient_sums", width.div_ceil(32) * splits, words);
        let to = [0, 1].map(|i| self.gradient(own[i]));
        self.add_two_partials(partial, to, width, splits);
        self.memory.give(partial);
    }

    fn attention_back(
        &mut self,
        parts: Slot,
        weights: Slot,
        dy: Slot,
        dx: Slot,
        [heads, length, width]: [usize; 3],
    ) {
        let (n, head, count) = (self.samples * length * width, width / heads, self.samples * heads);
        let d_seen = self.values(n);
        self.heads("split_heads", dy, d_seen, [length, heads, head], 1);
        let d_parts = self.values(3 * n);
        let many = |slot| Matrix::many(slot, length, head);
        let [query, key, value] = self.three(parts, n).map(many);
        let [d_query, d_key, d_value] = self.three(d_parts, n).map(many);
        let shares = Matrix::many(weights, length, length);
        let narrow = [length, head, length];
        self.product(shares.turned(), many(d_seen), d_value, narrow, count);
        let scores = self.values(count * length * length);
        let d_scores = Matrix::many(scores, length, length);
        self.product(many(d_seen), value.turned(), d_scores, [length, length, head], count);
        let scale = 1.0 / (head as f32).sqrt();
        let words = [weights.into(), scores.into(), length.into(), scale.into()];
        self.each_row("harden", count * length, length, words);
        self.product(d_scores, key, d_query, narrow, count);
        self.product(d_scores.turned(), query, d_key, narrow, count);
        self.heads("merge_heads", d_parts, dx, [length, heads, head], 3);
        for slot in [d_seen, d_parts, scores] {
            self.memory.give(slot);
        }
    }
}
