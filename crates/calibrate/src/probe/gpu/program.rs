//! A training step as data: calls of kernels and libraries over one block of device memory.
//!
//! Shapes never change, so a step is the same sequence of calls every time. As data it can be checked
//! without a device, and whatever carries it out is a short loop.

use forebay_networks::Shape;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

/// How numbers are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 4 bytes.
    Fp32,
    /// 4 bytes, of which products see 19 bits.
    Tf32,
    /// 2 bytes between operators; parameters, gradients of parameters and sums have 4.
    Bf16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 3] = [Precision::Fp32, Precision::Tf32, Precision::Bf16];

    /// As plans and samples name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        }
    }

    /// Bytes of a number between operators.
    pub(super) fn bytes(self) -> usize {
        if self == Precision::Bf16 { 2 } else { 4 }
    }

    /// How names of kernels for it end.
    pub(super) fn suffix(self) -> &'static str {
        if self == Precision::Bf16 { "_bf16" } else { "_f32" }
    }

    /// Largest difference to the same arithmetic in 8 bytes, as a share of the result's length: what
    /// rounding of inputs and sums explains, and no wrong operator passes.
    #[must_use]
    pub fn tolerance(self) -> f64 {
        match self {
            Precision::Fp32 => 1e-5,
            Precision::Tf32 => 5e-3,
            Precision::Bf16 => 3e-2,
        }
    }
}

/// A place in the block of memory. Only [`Memory`] makes one, so it lies inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    offset: usize,
    bytes: usize,
}

impl Slot {
    /// Where it begins [B].
    pub(super) fn offset(self) -> usize {
        self.offset
    }

    /// Its length [B].
    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    /// A part of it.
    pub(super) fn part(self, bytes: Range<usize>) -> Slot {
        assert!(bytes.start <= bytes.end && bytes.end <= self.bytes, "the part lies inside");
        Slot { offset: self.offset + bytes.start, bytes: bytes.len() }
    }
}

/// What a kernel is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Word {
    /// An address.
    At(Slot),
    /// A number of things.
    Int(usize),
    /// A factor.
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

/// A matrix in row-major order, or as many of them as the product counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Matrix {
    pub(super) slot: Slot,
    /// Rows for columns.
    pub(super) turned: bool,
    /// Values from the beginning of a row to that of the next, before it is turned.
    pub(super) down: usize,
    /// Values from the beginning of a matrix to that of the next.
    pub(super) apart: usize,
}

impl Matrix {
    /// One matrix with rows of `down` values.
    pub(super) fn one(slot: Slot, down: usize) -> Matrix {
        Matrix { slot, turned: false, down, apart: 0 }
    }

    /// Matrices behind one another, each of `rows` rows.
    pub(super) fn many(slot: Slot, rows: usize, down: usize) -> Matrix {
        Matrix { slot, turned: false, down, apart: rows * down }
    }

    /// Rows for columns.
    pub(super) fn turned(self) -> Matrix {
        Matrix { turned: !self.turned, ..self }
    }
}

/// Products of `count` pairs of matrices: `c = a·b`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Product {
    pub(super) a: Matrix,
    pub(super) b: Matrix,
    pub(super) c: Matrix,
    /// Whether `c` has numbers of 4 bytes in any precision.
    pub(super) wide: bool,
    /// Rows of c, columns of c, terms of a sum.
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
    /// Input, filters, output; or their gradients.
    pub(super) x: Slot,
    pub(super) w: Slot,
    pub(super) y: Slot,
}

/// A kernel with what it is given.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Launch {
    /// Its name among `kernels`.
    pub(super) kernel: String,
    pub(super) blocks: usize,
    /// Threads of a block.
    pub(super) threads: usize,
    pub(super) words: Vec<Word>,
}

/// One of the calls of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    /// A kernel of our own.
    Launch(Launch),
    /// cuBLAS.
    Product(Product),
    /// cuDNN.
    Convolution(Convolution),
}

/// Parameters that lie together on the device, in the order in which layers on cores have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// First number on the device, counted from the first parameter's.
    pub(super) at: usize,
    /// How many.
    pub(super) len: usize,
}

/// A step, and where its numbers are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program {
    pub(super) precision: Precision,
    /// Memory that it needs [B].
    pub(super) bytes: usize,
    /// Puts what was copied to `input` in the form that `forward` takes.
    pub(super) feed: Vec<Call>,
    /// From input to loss.
    pub(super) forward: Vec<Call>,
    /// From loss to gradients.
    pub(super) backward: Vec<Call>,
    /// From gradients to parameters.
    pub(super) update: Vec<Call>,
    /// Puts parameters in the form that `forward` takes.
    pub(super) settle: Vec<Call>,
    /// Images in 4 bytes, or tokens as whole numbers of 4 bytes.
    pub(super) input: Slot,
    /// Whole numbers of 4 bytes.
    pub(super) targets: Slot,
    /// Scores, in the precision.
    pub(super) output: Slot,
    /// One number of 4 bytes.
    pub(super) loss: Slot,
    /// Numbers of 4 bytes.
    pub(super) parameters: Slot,
    pub(super) gradients: Slot,
    /// What the optimiser keeps; zero at first.
    pub(super) state: Vec<Slot>,
    /// Where each operator's parameters are, in both.
    pub(super) blocks: Vec<Block>,
}

impl Program {
    /// All calls of a step.
    pub(super) fn step(&self) -> impl Iterator<Item = &Call> {
        self.forward.iter().chain(&self.backward).chain(&self.update).chain(&self.settle)
    }
}

/// Hands out places of a block of memory, and takes them back.
#[derive(Debug, Default)]
pub(super) struct Memory {
    end: usize,
    free: Vec<Slot>,
}

impl Memory {
    /// What libraries read vectors at a time want addresses to be multiples of [B].
    const ALIGN: usize = 256;

    /// A place for `bytes`: of those that were given back the smallest that fits.
    pub(super) fn take(&mut self, bytes: usize) -> Slot {
        let bytes = bytes.next_multiple_of(Memory::ALIGN);
        let fitting = self.free.iter().enumerate().filter(|(_, slot)| slot.bytes >= bytes);
        if let Some((i, _)) = fitting.min_by_key(|(_, slot)| slot.bytes) {
            return self.free.swap_remove(i);
        }
        self.keep(bytes)
    }

    /// A place for `bytes` that nobody has from step to step.
    pub(super) fn keep(&mut self, bytes: usize) -> Slot {
        let slot = Slot { offset: self.end, bytes: bytes.next_multiple_of(Memory::ALIGN) };
        self.end += slot.bytes;
        slot
    }

    /// Takes a place back.
    pub(super) fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// From now on nothing takes a place that was used before: what works beside the others needs its own.
    pub(super) fn part(&mut self) {
        self.free.clear();
    }

    /// Bytes of the whole block [B].
    pub(super) fn bytes(&self) -> usize {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_never_overlap_and_are_used_again() {
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
