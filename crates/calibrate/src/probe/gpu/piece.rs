//! Single operators on a device, to be compared with the same ones on cores.

use super::backward::Wanted;
use super::compile::Compiler;
use super::program::{Block, Call, Memory, Precision, Slot};
use forebay_networks::Operator;

/// The forward and backward calls of some operators, with slots for inputs and results.
#[derive(Debug)]
pub(super) struct Piece {
    /// Memory that the calls need [B].
    pub(super) bytes: usize,
    pub(super) calls: Vec<Call>,
    /// The input: numbers of 4 bytes, or tokens as whole numbers of 4 bytes.
    pub(super) input: Slot,
    /// The gradient of the output: numbers of 4 bytes.
    pub(super) given: Slot,
    /// The output, in the program's precision.
    pub(super) output: Slot,
    /// The gradient of the input, in the program's precision; tokens have none.
    pub(super) back: Option<Slot>,
    /// The parameters: numbers of 4 bytes.
    pub(super) parameters: Slot,
    pub(super) gradients: Slot,
    pub(super) blocks: Vec<Block>,
}

/// Compiles consecutive operators for a batch of `samples`.
pub(super) fn piece(operators: &[Operator], samples: usize, precision: Precision) -> Piece {
    let mut compiler = Compiler::new(operators, samples, precision, Memory::default());
    let values = samples * operators.first().map_or(0, Operator::inputs);
    let results = samples * operators.last().map_or(0, Operator::outputs);
    let [input, given] = [values, results].map(|n| compiler.memory.take(4 * n));
    compiler.settle();
    let tokens = matches!(operators.first(), Some(Operator::Embedding { .. }));
    let fed = if tokens { input } else { compiler.narrowed(input, values) };
    let chain = compiler.chain(operators, fed);
    let output = chain.last().map_or(fed, |done| done.y);
    let gradient = compiler.narrowed(given, results);
    let back = compiler.chain_back(&chain, gradient, Wanted::Untouched);
    Piece {
        bytes: compiler.memory.bytes(),
        input,
        given,
        output,
        back,
        parameters: compiler.parameters,
        gradients: compiler.gradients,
        blocks: compiler.blocks,
        calls: compiler.calls,
    }
}
