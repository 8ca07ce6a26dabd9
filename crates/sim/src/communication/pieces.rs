//! A training step, cut into pieces at the points where parameters are needed or gradients are ready.

use std::ops::Range;

use crate::ids::{IdVec, PieceId};

/// A piece of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Piece {
    /// Share of the step's time.
    pub(crate) share: f64,
    /// Time to compress gradients after the piece [s].
    pub(crate) compress: f64,
    /// Number of parameter buckets that must have been broadcast before the piece can begin.
    pub(crate) needs: u32,
    /// Number of gradient buckets that become ready at the end of the piece; `bytes` is their size before compression [B].
    pub(crate) made: u32,
    pub(crate) bytes: f64,
}

/// The pieces of a step that ends with an exchange. Other steps have a single piece.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    all: IdVec<PieceId, Piece>,
    /// Number of parameter buckets that a root broadcasts; `ends` holds for each piece this number plus the number of gradient
    /// buckets that are ready at the piece's end.
    given: u32,
    ends: IdVec<PieceId, u32>,
}

impl Pieces {
    /// Creates the pieces of steps that end with an exchange. A root broadcasts `given` buckets.
    pub(crate) fn new(all: Vec<Piece>, given: u32) -> Pieces {
        let so_far = |sum: &mut u32, piece: &Piece| {
            *sum += piece.made;
            Some(*sum)
        };
        let ends = all.iter().scan(given, so_far).collect();
        Pieces { all: all.into_iter().collect(), given, ends }
    }

    /// Returns the number of parameter buckets that a root broadcasts.
    pub(crate) fn given(&self) -> u32 {
        self.given
    }

    /// Returns the pieces of a step that ends with an exchange.
    pub(crate) fn all(&self) -> &[Piece] {
        self.all.as_slice()
    }

    /// Returns the numbers of the buckets that are ready after piece number `piece`.
    pub(super) fn buckets_of(&self, piece: u32) -> Range<u32> {
        let end = self.ends[PieceId::new(piece)];
        end - self.of_exchange(piece).made..end
    }

    /// Returns the number of pieces of a step that ends with an exchange.
    pub(super) fn number(&self) -> usize {
        self.all.len()
    }

    /// Returns piece number `piece` of a step that ends with an exchange.
    pub(super) fn of_exchange(&self, piece: u32) -> Piece {
        self.all[PieceId::new(piece)]
    }
}
