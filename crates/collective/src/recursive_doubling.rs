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

/// Which part of the buffer a rank owns between a reduce-scatter and an allgather. It decides in which order pairs
/// meet, because blocks of neighbouring parts double from phase to phase of an allgather, so that its last
/// phase, and the first of a reduce-scatter, carries half of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owned {
    /// Rank r owns part r, as an allgather or a reduce-scatter of its own asks for: an allgather begins with the
    /// nearest ranks, and half of the buffer goes to the farthest.
    ByRank,
    /// Rank r owns the part whose number is r with its bits reversed, where nobody asks: half of the buffer goes
    /// to the nearest rank, inside a node, and the smallest blocks to the farthest.
    ByReversedRank,
}

impl Owned {
    /// How far apart partners are before whose exchange each has 2^`doublings` of 2^`levels` parts.
    pub(super) fn distance(self, doublings: u64, levels: u64) -> u64 {
        match self {
            Owned::ByRank => 1 << doublings,
            Owned::ByReversedRank => 1 << (levels - 1 - doublings),
        }
    }

    /// The first of the 2^`doublings` parts that `rank` has then.
    pub(super) fn first(self, rank: u64, doublings: u64, levels: u64) -> u64 {
        let part = match self {
            Owned::ByRank => rank,
            // There are two ranks at least, so that the shift is below 64.
            Owned::ByReversedRank => rank.reverse_bits() >> (64 - levels),
        };
        part >> doublings << doublings
    }
}

/// Each pair exchanges the parts that it has: an allgather; backwards, recursive halving.
#[derive(Debug, Clone)]
pub(super) struct Doubling {
    /// For a power of two of ranks.
    pub(super) shards: Shards,
    pub(super) owned: Owned,
}

impl Doubling {
    fn partner(&self, phase: u64, rank: u64) -> u64 {
        rank ^ self.owned.distance(phase, self.phases())
    }
}

impl Pattern for Doubling {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        u64::from(self.ends().ilog2())
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let first = self.owned.first(rank, phase, self.phases());
        let spans = self.shards.span(first, first + (1 << phase));
        Some(Move::copy(self.partner(phase, rank), spans))
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((self.partner(phase, rank), 0))
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
