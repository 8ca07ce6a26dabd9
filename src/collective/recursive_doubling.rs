//! Pairs at distance 1, 2, 4, … among a power of two of ranks; others are folded in.
//!
//! Of p ranks, where p is r more than a power of two, the first 2r are pairs: the even one of each
//! gives what it has to the odd one, which acts for both, and gets the result (Thakur, Rabenseifner and
//! Gropp, *Optimization of collective communication operations in MPICH*, 2005).

use super::pattern::{Move, Pattern};
use super::shards::Shards;
use super::transfer::Span;
use std::ops::Range;

/// How many of `ranks` are more than a power of two.
pub(super) fn extra(ranks: u64) -> u64 {
    ranks - (1 << ranks.max(1).ilog2())
}

/// Each pair exchanges all of it and adds: an allreduce.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    /// A power of two.
    pub(super) ranks: u64,
    pub(super) bytes: u64,
}

impl Pattern for Exchange {
    fn ends(&self) -> u64 {
        self.ranks
    }

    fn phases(&self) -> u64 {
        u64::from(self.ranks.ilog2())
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        Some(Move::span(rank ^ 1 << phase, Span { start: 0, bytes: self.bytes }).reduce())
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((rank ^ 1 << phase, 0))
    }

    fn alike(&self) -> Range<u64> {
        0..self.phases()
    }
}

/// Each pair exchanges the parts that it has: an allgather; backwards, recursive halving.
#[derive(Debug, Clone)]
pub(super) struct Doubling {
    /// For a power of two of ranks.
    pub(super) shards: Shards,
}

impl Pattern for Doubling {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        u64::from(self.ends().ilog2())
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let first = rank >> phase << phase;
        Some(Move::copy(rank ^ 1 << phase, self.shards.span(first, first + (1 << phase))))
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((rank ^ 1 << phase, 0))
    }
}

/// What goes between the two of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folded {
    /// All of it.
    Whole,
    /// The even one's part.
    Own,
    /// All but that.
    Others,
}

/// The even ranks of the first pairs give to the odd ones.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) shards: Shards,
    pub(super) what: Folded,
}

impl Fold {
    fn pairs(&self, rank: u64) -> bool {
        rank < 2 * extra(self.ends())
    }
}

impl Pattern for Fold {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        u64::from(extra(self.ends()) > 0)
    }

    fn send(&self, _phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let spans = match self.what {
            Folded::Whole => self.shards.span(0, self.ends()),
            Folded::Own => self.shards.span(rank, rank + 1),
            Folded::Others => self.shards.around(rank + 1, self.ends() - 1),
        };
        (self.pairs(rank) && rank.is_multiple_of(2)).then(|| Move::copy(rank + 1, spans))
    }

    fn source(&self, _phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        (self.pairs(rank) && !rank.is_multiple_of(2)).then(|| (rank - 1, 0))
    }
}
