//! A step in pieces, between which parameters are needed and gradients ready.

use std::ops::Range;

/// A piece of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Piece {
    /// Of the step's time.
    pub(crate) share: f64,
    /// Time for compressing gradients after that [s].
    pub(crate) compress: f64,
    /// Buckets that must be broadcast before it.
    pub(crate) needs: u32,
    /// Buckets that are ready after it, and their bytes before they are compressed [B].
    pub(crate) made: u32,
    pub(crate) bytes: f64,
}

/// All of a step that sends nothing.
const WHOLE: Piece = Piece { share: 1.0, compress: 0.0, needs: 0, made: 0, bytes: 0.0 };

/// The pieces of the steps that end with an exchange, one in so many; the others are whole.
#[derive(Debug)]
pub(crate) struct Pieces {
    all: Vec<Piece>,
    interval: u64,
    /// Buckets of parameters that a root broadcasts; by piece, how many there are up to its end with those of gradients.
    given: u32,
    ends: Vec<u32>,
}

impl Pieces {
    /// Those of each step whose number, counted from 1, is a multiple of `interval`; a root broadcasts `given` buckets.
    pub(crate) fn new(all: Vec<Piece>, interval: u64, given: u32) -> Pieces {
        let so_far = |sum: &mut u32, piece: &Piece| {
            *sum += piece.made;
            Some(*sum)
        };
        let ends = all.iter().scan(given, so_far).collect();
        Pieces { all, interval, given, ends }
    }

    /// Buckets of parameters that a root broadcasts.
    pub(crate) fn given(&self) -> u32 {
        self.given
    }

    /// The pieces of such a step.
    pub(crate) fn all(&self) -> &[Piece] {
        &self.all
    }

    /// Steps from one exchange to the next.
    pub(crate) fn interval(&self) -> u64 {
        self.interval
    }

    /// Numbers of the buckets that are ready after piece number `piece`.
    pub(super) fn buckets_of(&self, piece: u32) -> Range<u32> {
        let end = self.ends[piece as usize];
        end - self.all[piece as usize].made..end
    }

    /// How many pieces such a step has.
    pub(super) fn number(&self) -> usize {
        self.all.len()
    }

    /// Whether `step` ends with an exchange.
    pub(crate) fn exchanges(&self, step: u64) -> bool {
        (step + 1).is_multiple_of(self.interval)
    }

    /// Whether `step` is the first one after an exchange.
    pub(super) fn opens(&self, step: u64) -> bool {
        step.is_multiple_of(self.interval)
    }

    /// Exchanges before `step` is over.
    pub(super) fn round(&self, step: u64) -> u64 {
        step / self.interval
    }

    /// The last step before exchange number `round`.
    pub(super) fn last_of(&self, round: u64) -> u64 {
        (round + 1) * self.interval - 1
    }

    /// Piece number `piece` of `step`.
    pub(crate) fn at(&self, step: u64, piece: u32) -> Piece {
        if self.exchanges(step) { self.all[piece as usize] } else { WHOLE }
    }

    /// The same of a step that ends with an exchange.
    pub(super) fn of_exchange(&self, piece: u32) -> Piece {
        self.all[piece as usize]
    }

    /// Whether it is the last one.
    pub(crate) fn is_last(&self, step: u64, piece: u32) -> bool {
        !self.exchanges(step) || piece as usize + 1 == self.all.len()
    }
}
