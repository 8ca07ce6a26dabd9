//! A training step as data: calls of kernels and libraries over one block of device memory.
//!
//! Shapes never change, so a step is the same sequence of calls every time. As data it can be checked without a
//! device, and a device executes it in a short loop.

use forebay_networks::Shape;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

/// Number format of training on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats.
    Fp32,
    /// 32-bit floats, of which matrix products use only 19 bits (TF32).
    Tf32,
    /// 16-bit floats (BF16) for activations; parameters, gradients of parameters and sums are 32-bit floats.
    Bf16,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Precision; 3] = [Precision::Fp32, Precision::Tf32, Precision::Bf16];

    /// Returns the name in plans and samples.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        }
    }

    /// Returns the size of one activation value [B].
    pub(super) fn bytes(self) -> usize {
        if self == Precision::Bf16 { 2 } else { 4 }
    }

    /// Returns the ending of the names of kernels for this precision.
    pub(super) fn suffix(self) -> &'static str {
        if self == Precision::Bf16 { "_bf16" } else { "_f32" }
    }

    /// Returns the largest allowed difference from the same arithmetic in `f64`, relative to the norm of the
    /// result. Rounding of inputs and sums stays below this limit; the error of a wrong operator exceeds it.
    #[must_use]
    pub fn tolerance(self) -> f64 {
        match self {
            Precision::Fp32 => 1e-5,
            Precision::Tf32 => 5e-3,
            Precision::Bf16 => 3e-2,
        }
    }
}

/// A region of a program's block of memory. Only [`Memory`] makes slots, so each lies inside the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    offset: usize,
    bytes: usize,
}

impl Slot {
    /// Returns the slot's offset in the block [B].
    pub(super) fn offset(self) -> usize {
        self.offset
    }

    /// Returns the slot's length [B].
    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns a part of the slot: the range `bytes`, counted from the beginning of the slot.
    pub(super) fn part(self, bytes: Range<usize>) -> Slot {
        assert!(bytes.start <= bytes.end && bytes.end <= self.bytes, "the part lies inside");
        Slot { offset: self.offset + bytes.start, bytes: bytes.len() }
    }
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Word {
    /// The address of a slot.
    At(Slot),
    /// A whole number, such as a count.
    Int(usize),
    /// A floating-point factor.
    Float(f32),
}

impl From<Slot> for Word {
    fn from(slot: Slot) -> Word {
        Word::At(slot)
    }
}

impl From<usize> for Word {
    fn from(number: usize) -> Word {
        Word::Int(number)
    }
}

impl From<f32> for Word {
    fn from(factor: f32) -> Word {
        Word::Float(factor)
    }
}

/// A matrix in row-major order, or all matrices on one side of a batched product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Matrix {
    pub(super) slot: Slot,
    /// Whether the matrix is transposed.
    pub(super) turned: bool,
    /// Distance between the beginnings of consecutive rows before transposition (leading dimension) [values].
    pub(super) down: usize,
    /// Distance between the beginnings of consecutive matrices [values].
    pub(super) apart: usize,
}

impl Matrix {
    /// Returns a single matrix with rows of `down` values.
    pub(super) fn one(slot: Slot, down: usize) -> Matrix {
        Matrix { slot, turned: false, down, apart: 0 }
    }

    /// Returns consecutive matrices, each of `rows` rows of `down` values.
    pub(super) fn many(slot: Slot, rows: usize, down: usize) -> Matrix {
        Matrix { slot, turned: false, down, apart: rows * down }
    }

    /// Returns the transposed matrix.
    pub(super) fn turned(self) -> Matrix {
        Matrix { turned: !self.turned, ..self }
    }
}

/// A batched matrix product (GEMM): `c = a·b` for each of `count` pairs of matrices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Product {
    pub(super) a: Matrix,
    pub(super) b: Matrix,
    pub(super) c: Matrix,
    /// Whether `c` has numbers of 4 bytes, whatever the precision.
    pub(super) wide: bool,
    /// GEMM dimensions m, n, k: rows of C, columns of C, length of the inner dimension.
    pub(super) sides: [usize; 3],
    pub(super) count: usize,
}

/// Which of a convolution's three tensors is computed from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConvolutionPass {
    /// The output.
    Forward,
    /// The gradient of the input.
    Data,
    /// The gradient of the filters.
    Filters,
}

/// A convolution of a batch, or one of its gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Convolution {
    pub(super) way: ConvolutionPass,
    pub(super) shape: Shape,
    pub(super) samples: usize,
    /// Input (`x`), filters (`w`) and output (`y`), or their gradients.
    pub(super) x: Slot,
    pub(super) w: Slot,
    pub(super) y: Slot,
}

/// A launch of a kernel with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Launch {
    /// Name of the kernel in the module `kernels`.
    pub(super) kernel: String,
    pub(super) blocks: usize,
    /// Threads per block.
    pub(super) threads: usize,
    pub(super) words: Vec<Word>,
}

/// One of the calls of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    /// A kernel of our own.
    Launch(Launch),
    /// A matrix product by cuBLAS.
    Product(Product),
    /// A convolution by cuDNN.
    Convolution(Convolution),
}

/// Parameters of an operator that lie together on the device; blocks are in the order of the layers on cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// Index of the block's first number, counted from the first parameter on the device.
    pub(super) at: usize,
    /// Number of parameters.
    pub(super) len: usize,
}

/// The calls of a training step, and the slots of its data.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program {
    pub(super) precision: Precision,
    /// Memory that the step needs [B].
    pub(super) bytes: usize,
    /// Converts the data copied to `input` to the form that `forward` takes.
    pub(super) feed: Vec<Call>,
    /// Forward pass: from input to loss.
    pub(super) forward: Vec<Call>,
    /// Backward pass: from loss to gradients.
    pub(super) backward: Vec<Call>,
    /// Optimiser: from gradients to new parameters.
    pub(super) update: Vec<Call>,
    /// Converts parameters to the form that `forward` takes.
    pub(super) settle: Vec<Call>,
    /// Images as numbers of 4 bytes, or tokens as whole numbers of 4 bytes.
    pub(super) input: Slot,
    /// Targets: whole numbers of 4 bytes.
    pub(super) targets: Slot,
    /// Scores, in the program's precision.
    pub(super) output: Slot,
    /// Loss: one number of 4 bytes.
    pub(super) loss: Slot,
    /// Parameters: numbers of 4 bytes.
    pub(super) parameters: Slot,
    pub(super) gradients: Slot,
    /// State of the optimiser; zero at first.
    pub(super) state: Vec<Slot>,
    /// Where each operator's parameters lie in `parameters` and `gradients`.
    pub(super) blocks: Vec<Block>,
}

impl Program {
    /// Returns all calls of a step, from the forward pass to the conversion of new parameters.
    pub(super) fn step(&self) -> impl Iterator<Item = &Call> {
        self.forward.iter().chain(&self.backward).chain(&self.update).chain(&self.settle)
    }
}

/// Allocates and frees the slots of a block of memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    end: usize,
    free: Vec<Slot>,
}

impl Memory {
    /// Alignment of slots [B], as required by libraries that load vectors.
    const ALIGN: usize = 256;

    /// Allocates a slot for `bytes`: the smallest freed slot that fits, otherwise a new one.
    pub(super) fn take(&mut self, bytes: usize) -> Slot {
        let bytes = bytes.next_multiple_of(Memory::ALIGN);
        let fitting = self.free.iter().enumerate().filter(|(_, slot)| slot.bytes >= bytes);
        if let Some((i, _)) = fitting.min_by_key(|(_, slot)| slot.bytes) {
            return self.free.swap_remove(i);
        }
        self.keep(bytes)
    }

    /// Allocates a new slot for `bytes`, which shares no memory with earlier slots. If it is never freed, its
    /// content lasts from step to step.
    pub(super) fn keep(&mut self, bytes: usize) -> Slot {
        let slot = Slot { offset: self.end, bytes: bytes.next_multiple_of(Memory::ALIGN) };
        self.end += slot.bytes;
        slot
    }

    /// Frees a slot, so that [`Memory::take`] may use it again.
    pub(super) fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Forgets all freed slots, so that later slots share no memory with earlier ones. Programs that run at the
    /// same time need this.
    pub(super) fn part(&mut self) {
        self.free.clear();
    }

    /// Returns the size of the whole block [B].
    pub(super) fn bytes(&self) -> usize {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_memory_slots_never_overlap_and_freed_slots_are_reused() {
        let mut memory = Memory::default();
        let (a, b) = (memory.take(1), memory.take(1000));
        assert!(a.offset() + a.bytes() <= b.offset() && b.offset() % 256 == 0);
        memory.give(a);
        memory.give(b);
        let kept = memory.keep(100);
        assert_eq!((memory.take(700), memory.take(200)), (b, a));
        assert_eq!((kept.offset(), memory.bytes()), (256 + 1024, 256 + 1024 + 256));
        assert_eq!(b.part(8..16), Slot { offset: b.offset() + 8, bytes: 8 });
    }
}
