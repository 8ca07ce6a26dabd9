//! Exchanges between pairs at distance 1, 2, 4, … among a power-of-two number of ranks; other ranks are folded in.
//!
//! If p ranks are r more than a power of two, the first 2r ranks form pairs. The even rank of each pair gives its data
//! to the odd rank, which acts for both; at the end the even rank gets the result (Thakur, Rabenseifner and Gropp,
//! *Optimization of collective communication operations in MPICH*, 2005).

use super::pattern::{Move, Pattern};
use super::shards::Shards;
use super::transfer::Span;
use std::ops::Range;

/// Returns `ranks` minus the largest power of two that is not above it.
pub(super) fn extra(ranks: u64) -> u64 {
    ranks - (1 << ranks.max(1).ilog2())
}

/// An allreduce: each pair exchanges whole buffers and adds them.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    /// Number of ranks: a power of two.
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

/// Which part of the buffer each rank owns between a reduce-scatter and an allgather. This decides in which order the
/// ranks meet in pairs: an allgather joins neighbouring parts into blocks that double from phase to phase, so its last
/// phase carries half of the buffer, and so does the first phase of a reduce-scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owned {
    /// Rank r owns part r. A separate allgather or reduce-scatter needs this order. An allgather begins with the
    /// nearest ranks, and half of the buffer goes to the farthest.
    ByRank,
    /// Rank r owns the part whose number is r with its bits reversed, for collectives in which it does not matter
    /// which rank owns which part. Half of the buffer goes to the nearest rank, inside a node, and the smallest
    /// blocks go to the farthest.
    ByReversedRank,
}

impl Owned {
    /// Returns the distance in ranks between the partners of the exchange that follows `doublings` doublings. Each rank
    /// then has 2^`doublings` of the 2^`levels` parts.
    pub(super) fn distance(self, doublings: u64, levels: u64) -> u64 {
        match self {
            Owned::ByRank => 1 << doublings,
            Owned::ByReversedRank => 1 << (levels - 1 - doublings),
        }
    }

    /// Returns the number of the first of the 2^`doublings` parts that `rank` has after `doublings` doublings.
    pub(super) fn first(self, rank: u64, doublings: u64, levels: u64) -> u64 {
        let part = match self {
            Owned::ByRank => rank,
            // There are two ranks at least, so that the shift is below 64.
            Owned::ByReversedRank => rank.reverse_bits() >> (64 - levels),
        };
        part >> doublings << doublings
    }
}

/// An allgather: the ranks of each pair exchange the parts that they have. Run backwards, it is recursive halving.
#[derive(Debug, Clone)]
pub(super) struct Doubling {
    /// The ranks' parts; their number is a power of two.
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

/// What the even rank of a pair sends to the odd one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folded {
    /// The whole buffer.
    Whole,
    /// The part of the even rank.
    Own,
    /// All parts but that of the even rank.
    Others,
}

/// A step in which the even ranks of the first pairs send to the odd ones.
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
