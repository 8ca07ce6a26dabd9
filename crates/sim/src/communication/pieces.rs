//! A training step, cut into pieces at the points where parameters are needed or gradients are ready.

use std::ops::Range;

use crate::index::{Id, IdVec};

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

/// The single piece of a step without an exchange.
const WHOLE: Piece = Piece { share: 1.0, compress: 0.0, needs: 0, made: 0, bytes: 0.0 };

/// The pieces of a step that ends with an exchange. One in `interval` steps ends with an exchange; the other steps have a
/// single piece.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    all: IdVec<Piece>,
    interval: u64,
    /// Number of parameter buckets that a root broadcasts; `ends` holds for each piece this number plus the number of gradient
    /// buckets that are ready at the piece's end.
    given: u32,
    ends: IdVec<Piece, u32>,
}

impl Pieces {
    /// Creates the pieces of steps: each step whose number, counted from 1, is a multiple of `interval` has the pieces `all`.
    /// A root broadcasts `given` buckets.
    pub(crate) fn new(all: Vec<Piece>, interval: u64, given: u32) -> Pieces {
        let so_far = |sum: &mut u32, piece: &Piece| {
            *sum += piece.made;
            Some(*sum)
        };
        let ends = all.iter().scan(given, so_far).collect();
        Pieces { all: all.into_iter().collect(), interval, given, ends }
    }

    /// Returns the number of parameter buckets that a root broadcasts.
    pub(crate) fn given(&self) -> u32 {
        self.given
    }

    /// Returns the pieces of a step that ends with an exchange.
    pub(crate) fn all(&self) -> &[Piece] {
        self.all.as_slice()
    }

    /// Returns the number of steps from one exchange to the next.
    pub(crate) fn interval(&self) -> u64 {
        self.interval
    }

    /// Returns the numbers of the buckets that are ready after piece number `piece`.
    pub(super) fn buckets_of(&self, piece: u32) -> Range<u32> {
        let end = self.ends[Id::new(piece)];
        end - self.of_exchange(piece).made..end
    }

    /// Returns the number of pieces of a step that ends with an exchange.
    pub(super) fn number(&self) -> usize {
        self.all.len()
    }

    /// Returns whether `step` ends with an exchange.
    pub(crate) fn exchanges(&self, step: u64) -> bool {
        (step + 1).is_multiple_of(self.interval)
    }

    /// Returns whether `step` is the first one after an exchange.
    pub(super) fn opens(&self, step: u64) -> bool {
        step.is_multiple_of(self.interval)
    }

    /// Returns the number of exchanges that end before `step`.
    pub(super) fn round(&self, step: u64) -> u64 {
        step / self.interval
    }

    /// Returns the step that ends with exchange number `round`.
    pub(super) fn last_of(&self, round: u64) -> u64 {
        (round + 1) * self.interval - 1
    }

    /// Returns piece number `piece` of `step`.
    pub(crate) fn at(&self, step: u64, piece: u32) -> Piece {
        if self.exchanges(step) { self.of_exchange(piece) } else { WHOLE }
    }

    /// Returns piece number `piece` of a step that ends with an exchange.
    pub(super) fn of_exchange(&self, piece: u32) -> Piece {
        self.all[Id::new(piece)]
    }

    /// Returns whether piece number `piece` is the last one of `step`.
    pub(crate) fn is_last(&self, step: u64, piece: u32) -> bool {
        !self.exchanges(step) || piece as usize + 1 == self.all.len()
    }
}
