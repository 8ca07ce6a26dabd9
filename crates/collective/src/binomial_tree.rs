//! A binomial tree: after every phase twice as many ranks have the buffer.
//!
//! The farthest ranks come first, as in MPICH (`bcast_intra_binomial.c`: masks from p/2 down to 1) and Gloo
//! (`broadcast.cc`). If the ranks of a node are beside each other, one rank of each node then gets the buffer from
//! another node, and the last phases stay inside nodes. In Open MPI, the tree for broadcasts begins with the
//! nearest ranks instead, and the tree for reductions with the farthest.

use super::pattern::{Move, Pattern, chunk_at, log_up, steady};
use super::shards::{chunks, piece};
use super::transfer::Span;
use std::ops::Range;

/// A broadcast down a binomial tree of L levels: at level l, the ranks that are multiples of 2^(L − l) send to the
/// rank 2^(L − 1 − l) above them.
#[derive(Debug, Clone)]
pub(super) struct Binomial {
    ranks: u64,
    bytes: u64,
    chunks: u64,
}

impl Binomial {
    pub(super) fn new(ranks: u64, bytes: u64, chunk: Option<u64>) -> Binomial {
        Binomial { ranks, bytes, chunks: chunks(bytes, chunk) }
    }

    fn levels(&self) -> u64 {
        log_up(self.ranks)
    }

    /// Returns how far apart senders and receivers of a level are.
    fn distance(&self, level: u64) -> u64 {
        1 << (self.levels() - 1 - level)
    }
}

impl Pattern for Binomial {
    fn ends(&self) -> u64 {
        self.ranks
    }

    fn phases(&self) -> u64 {
        self.levels() - 1 + self.chunks
    }

    fn send(&self, phase: u64, rank: u64, slot: u64) -> Option<Move> {
        let distance = self.distance(slot);
        let (to, chunk) = (rank + distance, chunk_at(phase, slot, self.chunks)?);
        let whole = Span { start: 0, bytes: self.bytes };
        let sends = rank.is_multiple_of(2 * distance) && to < self.ranks;
        sends.then(|| Move::span(to, piece(whole, self.chunks, chunk)))
    }

    fn source(&self, _phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        let bit = u64::from(rank.checked_ilog2().map(|_| rank.trailing_zeros())?);
        Some((rank - (1 << bit), self.levels() - 1 - bit))
    }

    fn sends(&self, _rank: u64) -> u64 {
        self.levels()
    }

    fn pairs_stay(&self) -> bool {
        true
    }

    fn alike(&self) -> Range<u64> {
        steady(self.levels(), self.chunks)
    }
}
