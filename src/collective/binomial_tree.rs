//! Twice as many ranks know it after every phase.

use super::pattern::{Move, Pattern, chunk_at, log_up, steady};
use super::shards::{chunks, piece};
use super::transfer::Span;
use std::ops::Range;

/// Rank r < 2^l sends to r + 2^l at level l.
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
}

impl Pattern for Binomial {
    fn ends(&self) -> u64 {
        self.ranks
    }

    fn phases(&self) -> u64 {
        self.levels() - 1 + self.chunks
    }

    fn send(&self, phase: u64, rank: u64, slot: u64) -> Option<Move> {
        let (to, chunk) = (rank + (1 << slot), chunk_at(phase, slot, self.chunks)?);
        let whole = Span { start: 0, bytes: self.bytes };
        let sends = rank >> slot == 0 && to < self.ranks;
        sends.then(|| Move::span(to, piece(whole, self.chunks, chunk)))
    }

    fn source(&self, _phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        let level = u64::from(rank.checked_ilog2()?);
        Some((rank - (1 << level), level))
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
