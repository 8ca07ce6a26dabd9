//! From the description of a network to the calls of a step.

use super::program::{
    Block, Call, Launch, Matrix, Memory, Precision, Product, Program, Slot, Word,
};
use forebay_networks::{Feed, Network, Operator, Update};

/// The calls of a step over a batch of `samples`.
pub(super) fn compile(network: &Network, samples: usize, precision: Precision) -> Program {
    compile_in(&mut Memory::default(), network, samples, precision)
}

/// The same in a block of memory that others have places in.
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

/// An operator whose forward calls are made, and what its backward ones need.
pub(super) struct Done<'n> {
    pub(super) operator: &'n Operator,
    pub(super) x: Slot,
    pub(super) y: Slot,
    /// Its parameters.
    pub(super) blocks: Vec<Block>,
    pub(super) kept: Kept<'n>,
}

/// What only some operators keep.
pub(super) enum Kept<'n> {
    Nothing,
    /// Places of the largest values, or moments.
    One(Slot),
    /// Query, key and value by head; weights.
    Heads(Slot, Slot),
    /// Body and shortcut.
    Chains(Vec<Done<'n>>, Vec<Done<'n>>),
}

/// Collects calls.
pub(super) struct Compiler {
    pub(super) samples: usize,
    pub(super) precision: Precision,
    pub(super) memory: Memory,
    pub(super) calls: Vec<Call>,
    pub(super) parameters: Slot,
    pub(super) gradients: Slot,
    /// Parameters as products take them; the same place unless they are narrower.
    low: Slot,
    pub(super) blocks: Vec<Block>,
    /// Blocks that operators have taken.
    taken: usize,
}

/// Lengths of an operator's blocks of parameters, in the order of the layers on cores.
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
        /// Each block begins where vectors may, also with 2 bytes a number.
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

    /// A place for `n` values between operators.
    pub(super) fn values(&mut self, n: usize) -> Slot {
        self.memory.take(n * self.precision.bytes())
    }

    /// A block of parameters with 4 bytes a number.
    pub(super) fn wide(&self, block: Block) -> Slot {
        self.parameters.part(4 * block.at..4 * (block.at + block.len))
    }

    /// A block of parameters as products take it.
    pub(super) fn narrow(&self, block: Block) -> Slot {
        let bytes = self.precision.bytes();
        self.low.part(bytes * block.at..bytes * (block.at + block.len))
    }

    /// The gradient of a block.
    pub(super) fn gradient(&self, block: Block) -> Slot {
        self.gradients.part(4 * block.at..4 * (block.at + block.len))
    }

    /// Calls a kernel of the precision.
    pub(super) fn launch<const N: usize>(&mut self, name: &str, blocks: usize, words: [Word; N]) {
        let kernel = format!("{name}{}", self.precision.suffix());
        self.plain(&kernel, blocks, words);
    }

    /// Calls a kernel that is the same in all precisions.
    fn plain<const N: usize>(&mut self, kernel: &str, blocks: usize, words: [Word; N]) {
        let launch =
            Launch { kernel: kernel.to_owned(), blocks, threads: 256, words: words.into() };
        self.calls.push(Call::Launch(launch));
    }

    /// Calls a kernel of the precision in which each thread does some of `n` equal things.
    pub(super) fn each<const N: usize>(&mut self, name: &str, n: usize, words: [Word; N]) {
        self.launch(name, blocks_for(n), words);
    }

    /// Adds up `splits` partial sums of each channel.
    pub(super) fn add_partials(&mut self, partial: Slot, to: Slot, channels: usize, splits: usize) {
        let words = [partial.into(), to.into(), channels.into(), splits.into()];
        self.plain("add_partials", blocks_for(channels), words);
    }

    /// Sets numbers of 4 bytes to zero.
    pub(super) fn zero(&mut self, slot: Slot, n: usize) {
        self.plain("zero", blocks_for(n), [slot.into(), n.into()]);
    }

    /// `c = a·b` in the precision.
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

    /// Numbers of 4 bytes in the precision.
    pub(super) fn narrowed(&mut self, slot: Slot, n: usize) -> Slot {
        if self.precision != Precision::Bf16 {
            return slot;
        }
        let to = self.values(n);
        self.each("narrow", n, [slot.into(), to.into(), n.into()]);
        to
    }

    /// Operators after one another.
    pub(super) fn chain<'n>(&mut self, operators: &'n [Operator], mut x: Slot) -> Vec<Done<'n>> {
        let mut chain = Vec::new();
        for (i, operator) in operators.iter().enumerate() {
            let done = self.operator(operator, x, i > 0);
            x = done.y;
            chain.push(done);
        }
        chain
    }

    /// One operator; `ours` if what goes in is needed by nobody else.
    fn operator<'n>(&mut self, operator: &'n Operator, x: Slot, ours: bool) -> Done<'n> {
        let own =
            if matches!(operator, Operator::Residual { .. }) { 0 } else { lengths(operator).len() };
        let blocks = self.blocks[self.taken..self.taken + own].to_vec();
        self.taken += own;
        let n = self.samples * operator.outputs();
        // No operator needs what came out of it but ReLU.
        let in_place = ours && matches!(operator, Operator::Relu(_));
        let y = if in_place { x } else { self.values(n) };
        let kept = self.forward(operator, x, y, &blocks);
        Done { operator, x, y, blocks, kept }
    }

    /// Gradient of the scores, and the loss.
    fn loss(&mut self, scores: Slot, targets: Slot, rows: usize, kinds: usize) -> (Slot, Slot) {
        let (gradient, losses) = (self.values(rows * kinds), self.memory.take(4 * rows));
        let loss = self.memory.take(4);
        let [scores, targets, to, each] = [scores, targets, gradient, losses].map(Word::from);
        self.launch("cross_entropy", rows, [scores, targets, to, each, kinds.into(), rows.into()]);
        self.plain("total", 1, [losses.into(), loss.into(), rows.into()]);
        (gradient, loss)
    }

    /// The update, and what it keeps from step to step.
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

    /// Parameters as products take them.
    pub(super) fn settle(&mut self) {
        if self.precision == Precision::Bf16 {
            let n = self.low.bytes() / 2;
            self.each("narrow", n, [self.parameters.into(), self.low.into(), n.into()]);
        }
    }
}

/// Blocks of 256 threads for `n` equal things: enough to fill the largest device, where threads do
/// several each.
pub(super) fn blocks_for(n: usize) -> usize {
    n.div_ceil(256).clamp(1, 4096)
}

/// Parts of the sum over `count` values of each channel: some thousand blocks in all, each with a
/// thousand values at least.
pub(super) fn plane_splits(channels: usize, count: usize) -> usize {
    (2048 / channels).min(count / 1024).max(1)
}

/// Parts of the sum over `rows` of each column.
pub(super) fn row_splits(columns: usize, rows: usize) -> usize {
    (2048 / columns.div_ceil(32)).min(rows / 64).max(1)
}
