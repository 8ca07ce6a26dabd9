//! Compiles the description of a network to the calls of a training step.

use super::program::{
    Block, Call, Launch, Matrix, Memory, Precision, Product, Program, Slot, Word,
};
use forebay_networks::{Feed, Network, Operator, Update};

/// Compiles a training step over a batch of `samples`, with a block of memory of its own.
pub(super) fn compile(network: &Network, samples: usize, precision: Precision) -> Program {
    compile_in(&mut Memory::default(), network, samples, precision)
}

/// Compiles a training step whose slots lie in `memory`, a block that other programs share.
pub(super) fn compile_in(
    memory: &mut Memory,
    network: &Network,
    samples: usize,
    precision: Precision,
) -> Program {
    let mut compiler =
        Compiler::new(&network.operators, samples, precision, std::mem::take(memory));
    let (values, targets) = network.feed.sizes();
    let rows = samples * targets;
    let input = compiler.memory.take(4 * samples * values);
    let fed = match network.feed {
        Feed::Tokens { .. } => input,
        Feed::Image { .. } => compiler.narrowed(input, samples * values),
    };
    let feed = std::mem::take(&mut compiler.calls);
    let targets = compiler.memory.take(4 * rows);
    let chain = compiler.chain(&network.operators, fed);
    let output = chain.last().map_or(fed, |done| done.y);
    let (gradient, loss) = compiler.loss(output, targets, rows, network.feed.kinds());
    let forward = std::mem::take(&mut compiler.calls);
    compiler.chain_back(&chain, gradient, super::backward::Wanted::Parameters);
    let backward = std::mem::take(&mut compiler.calls);
    let state = compiler.update(network.update);
    let update = std::mem::take(&mut compiler.calls);
    compiler.settle();
    *memory = std::mem::take(&mut compiler.memory);
    Program {
        precision,
        bytes: memory.bytes(),
        feed,
        forward,
        backward,
        update,
        settle: compiler.calls,
        input,
        targets,
        output,
        loss,
        parameters: compiler.parameters,
        gradients: compiler.gradients,
        state,
        blocks: compiler.blocks,
    }
}

/// An operator whose forward calls have been added, with the slots and blocks that its backward calls need.
pub(super) struct Done<'n> {
    pub(super) operator: &'n Operator,
    pub(super) x: Slot,
    pub(super) y: Slot,
    /// Blocks of the operator's parameters.
    pub(super) blocks: Vec<Block>,
    pub(super) kept: Kept<'n>,
}

/// Results of the forward pass that only some operators keep for the backward pass.
pub(super) enum Kept<'n> {
    Nothing,
    /// Positions of the largest values (max pooling), or moments (norms).
    One(Slot),
    /// Query, key and value, split by head; attention weights.
    Heads(Slot, Slot),
    /// Operators of the body and of the shortcut of a residual operator.
    Chains(Vec<Done<'n>>, Vec<Done<'n>>),
}

/// Collects the calls of a program and allocates its slots.
pub(super) struct Compiler {
    pub(super) samples: usize,
    pub(super) precision: Precision,
    pub(super) memory: Memory,
    pub(super) calls: Vec<Call>,
    pub(super) parameters: Slot,
    pub(super) gradients: Slot,
    /// Slot of the parameters in the precision of matrix products: a separate BF16 copy if the precision is BF16,
    /// otherwise the same slot as `parameters`.
    low: Slot,
    pub(super) blocks: Vec<Block>,
    /// Number of parameter blocks that have been given to operators so far.
    taken: usize,
}

/// Returns the lengths of an operator's parameter blocks, in the order of the layers on cores.
fn lengths(operator: &Operator) -> Vec<usize> {
    match operator {
        Operator::Conv { shape, bias } => {
            let filters = shape.to * shape.patch();
            if *bias { vec![filters, shape.to] } else { vec![filters] }
        }
        Operator::Linear { from, to, .. } => vec![to * from, *to],
        Operator::BatchNorm { channels, .. } => vec![*channels; 2],
        Operator::LayerNorm { width, .. } => vec![*width; 2],
        Operator::Embedding { tokens, length, width } => vec![(tokens + length) * width],
        Operator::Residual { body, shortcut } => {
            body.iter().chain(shortcut).flat_map(lengths).collect()
        }
        _ => Vec::new(),
    }
}

impl Compiler {
    pub(super) fn new(
        operators: &[Operator],
        samples: usize,
        precision: Precision,
        mut memory: Memory,
    ) -> Compiler {
        /// Alignment of parameter blocks [numbers], large enough for vector loads even with 2 bytes per number.
        const ALIGN: usize = 128;
        let mut end = 0;
        let mut block = |len: usize| {
            let at = end;
            end += len.next_multiple_of(ALIGN);
            Block { at, len }
        };
        let blocks = operators.iter().flat_map(lengths).map(&mut block).collect();
        let (parameters, gradients) = (memory.take(4 * end), memory.take(4 * end));
        let low = if precision == Precision::Bf16 { memory.take(2 * end) } else { parameters };
        let (calls, taken) = (Vec::new(), 0);
        Compiler { samples, precision, memory, calls, parameters, gradients, low, blocks, taken }
    }

    /// Allocates a slot for `n` activations, in the program's precision.
    pub(super) fn values(&mut self, n: usize) -> Slot {
        self.memory.take(n * self.precision.bytes())
    }

    /// Returns the slot of a parameter block with 4 bytes per number.
    pub(super) fn wide(&self, block: Block) -> Slot {
        self.parameters.part(4 * block.at..4 * (block.at + block.len))
    }

    /// Returns the memory slot of the copy of a parameter block that matrix products read, in their precision.
    pub(super) fn narrow(&self, block: Block) -> Slot {
        let bytes = self.precision.bytes();
        self.low.part(bytes * block.at..bytes * (block.at + block.len))
    }

    /// Returns the slot of the gradient of a parameter block.
    pub(super) fn gradient(&self, block: Block) -> Slot {
        self.gradients.part(4 * block.at..4 * (block.at + block.len))
    }

    /// Adds a launch of the kernel `name` for the program's precision.
    pub(super) fn launch<const N: usize>(&mut self, name: &str, blocks: usize, words: [Word; N]) {
        let kernel = format!("{name}{}", self.precision.suffix());
        self.plain(&kernel, blocks, words);
    }

    /// Adds a launch of a kernel that is the same in all precisions.
    fn plain<const N: usize>(&mut self, kernel: &str, blocks: usize, words: [Word; N]) {
        self.call(kernel.to_owned(), blocks, 256, words.into());
    }

    fn call(&mut self, kernel: String, blocks: usize, threads: usize, words: Vec<Word>) {
        self.calls.push(Call::Launch(Launch { kernel, blocks, threads, words }));
    }

    /// Adds a launch of the kernel `name` with a block for each of `rows` of `width` numbers. Each thread has two
    /// vectors of 16 bytes, or more in a row that is longer than 256 threads can hold.
    pub(super) fn each_row<const N: usize>(
        &mut self,
        name: &str,
        rows: usize,
        width: usize,
        words: [Word; N],
    ) {
        let kernel = format!("{name}{}", self.precision.suffix());
        let vectors = width * self.precision.bytes() / 16;
        let threads = vectors.div_ceil(2).next_multiple_of(32).clamp(32, 256);
        self.call(kernel, rows, threads, words.into());
    }

    /// Adds a launch of the kernel `name` for the program's precision, over `n` elements that are divided among
    /// its threads.
    pub(super) fn each<const N: usize>(&mut self, name: &str, n: usize, words: [Word; N]) {
        self.launch(name, blocks_for(n), words);
    }

    /// Adds a call that sums up the partial sums of each channel; each channel has `splits` of them.
    pub(super) fn add_partials(&mut self, partial: Slot, to: Slot, channels: usize, splits: usize) {
        let words = [partial.into(), to.into(), channels.into(), splits.into()];
        self.plain("add_partials", channels.div_ceil(32), words);
    }

    /// Adds a call that sums up the partial sums of two values of each channel; those of the second value come
    /// after all those of the first.
    pub(super) fn add_two_partials(
        &mut self,
        partial: Slot,
        to: [Slot; 2],
        channels: usize,
        splits: usize,
    ) {
        let [first, second] = to.map(Word::from);
        let words = [partial.into(), first, second, channels.into(), splits.into()];
        self.plain("add_two_partials", channels.div_ceil(32), words);
    }

    /// Adds a call that sets `n` numbers of 4 bytes to zero.
    pub(super) fn zero(&mut self, slot: Slot, n: usize) {
        self.plain("zero", blocks_for(n), [slot.into(), n.into()]);
    }

    /// Appends to the program the matrix products `c = a·b` of `count` pairs of matrices, in the program's precision.
    pub(super) fn product(
        &mut self,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        sides: [usize; 3],
        count: usize,
    ) {
        self.calls.push(Call::Product(Product { a, b, c, wide: false, sides, count }));
    }

    /// Adds a call that converts `n` numbers of 4 bytes to the program's precision. Returns the slot of the
    /// result, which is `slot` itself unless the precision is BF16.
    pub(super) fn narrowed(&mut self, slot: Slot, n: usize) -> Slot {
        if self.precision != Precision::Bf16 {
            return slot;
        }
        let to = self.values(n);
        self.each("narrow", n, [slot.into(), to.into(), n.into()]);
        to
    }

    /// Adds the forward calls of consecutive operators.
    pub(super) fn chain<'n>(&mut self, operators: &'n [Operator], mut x: Slot) -> Vec<Done<'n>> {
        let mut chain = Vec::new();
        for (i, operator) in operators.iter().enumerate() {
            let done = self.operator(operator, x, i > 0);
            x = done.y;
            chain.push(done);
        }
        chain
    }

    /// Adds the forward calls of one operator; `ours` says that nothing else needs the input `x`, so that it
    /// may be overwritten.
    fn operator<'n>(&mut self, operator: &'n Operator, x: Slot, ours: bool) -> Done<'n> {
        let own =
            if matches!(operator, Operator::Residual { .. }) { 0 } else { lengths(operator).len() };
        let blocks = self.blocks[self.taken..self.taken + own].to_vec();
        self.taken += own;
        let n = self.samples * operator.outputs();
        // Only ReLU needs its own output for the backward pass, so the output of the operator before it may be
        // overwritten.
        let in_place = ours && matches!(operator, Operator::Relu(_));
        let y = if in_place { x } else { self.values(n) };
        let kept = self.forward(operator, x, y, &blocks);
        Done { operator, x, y, blocks, kept }
    }

    /// Adds the calls that compute the loss. Returns the slots of the gradient of the scores and of the loss.
    fn loss(&mut self, scores: Slot, targets: Slot, rows: usize, kinds: usize) -> (Slot, Slot) {
        let (gradient, losses) = (self.values(rows * kinds), self.memory.take(4 * rows));
        let loss = self.memory.take(4);
        let [scores, targets, to, each] = [scores, targets, gradient, losses].map(Word::from);
        self.launch("cross_entropy", rows, [scores, targets, to, each, kinds.into(), rows.into()]);
        self.plain("total", 1, [losses.into(), loss.into(), rows.into()]);
        (gradient, loss)
    }

    /// Adds the calls of the optimiser. Returns the slots of its state, which is kept from step to step.
    fn update(&mut self, update: Update) -> Vec<Slot> {
        let (n, bytes) = (self.gradients.bytes() / 4, self.gradients.bytes());
        let (w, g) = (self.parameters.into(), self.gradients.into());
        match update {
            Update::Momentum { rate } => {
                let velocity = self.memory.keep(bytes);
                let words = [w, velocity.into(), g, n.into(), (rate as f32).into(), 0.9_f32.into()];
                self.plain("momentum", blocks_for(n), words);
                vec![velocity]
            }
            Update::Adam { rate } => {
                let [mean, square] = [bytes; 2].map(|bytes| self.memory.keep(bytes));
                let steps = self.memory.keep(4);
                self.plain("count", 1, [steps.into()]);
                let [keep, keep_square] = [0.9_f32, 0.999].map(Word::from);
                let (m, s, counted, rate) =
                    (mean.into(), square.into(), steps.into(), (rate as f32).into());
                let words = [w, m, s, g, counted, n.into(), rate, keep, keep_square];
                self.plain("adam", blocks_for(n), words);
                vec![mean, square, steps]
            }
        }
    }

    /// Adds the call that converts the parameters to BF16 for matrix products; does nothing in other precisions.
    pub(super) fn settle(&mut self) {
        if self.precision == Precision::Bf16 {
            let n = self.low.bytes() / 2;
            self.each("narrow", n, [self.parameters.into(), self.low.into(), n.into()]);
        }
    }
}

/// Returns the number of blocks of 256 threads for `n` elements. It is limited to 4096, enough to fill the largest
/// device; with more elements, each thread processes several of them.
pub(super) fn blocks_for(n: usize) -> usize {
    n.div_ceil(256).clamp(1, 4096)
}

/// Returns the number of parts into which the sum over the `count` values of each channel is split: at most about
/// 2048 thread blocks in all, each with at least about a thousand values.
pub(super) fn plane_splits(channels: usize, count: usize) -> usize {
    (2048 / channels).min(count / 1024).max(1)
}

/// Returns the number of parts into which the sum over the `rows` of each column is split: at most about 2048
/// thread blocks of 32 columns in all, each with at least about 64 rows.
pub(super) fn row_splits(columns: usize, rows: usize) -> usize {
    (2048 / columns.div_ceil(32)).min(rows / 64).max(1)
}
