//! Each rank sends to the next one: rings and chains.

use super::pattern::{Move, Pattern, around, chunk_at, steady};
use super::shards::{Shards, chunks, piece};
use super::transfer::{Kind, Span};
use std::ops::Range;

/// An allgather: in each phase every rank passes on the part that it received last.
#[derive(Debug, Clone)]
pub(super) struct Ring {
    pub(super) shards: Shards,
    /// Whether ranks send to the rank below, so that the ring goes up when it is run backwards.
    pub(super) down: bool,
}

impl Ring {
    fn beside(&self, rank: u64, up: bool) -> u64 {
        let ranks = self.ends();
        around(if up { rank + 1 } else { rank + ranks - 1 }, ranks)
    }

    /// Returns the part that `rank` passes on in `phase`.
    fn part(&self, phase: u64, rank: u64) -> u64 {
        let back = if self.down { phase } else { self.ends() - phase };
        around(rank + back, self.ends())
    }
}

impl Pattern for Ring {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        self.ends() - 1
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let part = self.part(phase, rank);
        Some(Move::copy(self.beside(rank, !self.down), self.shards.span(part, part + 1)))
    }

    fn hop(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64, Kind)> {
        let bytes = self.shards.len(self.part(phase, rank));
        Some((self.beside(rank, !self.down), bytes, Kind::Copy))
    }

    fn source(&self, _phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((self.beside(rank, self.down), 0))
    }

    fn pairs_stay(&self) -> bool {
        true
    }

    fn alike(&self) -> Range<u64> {
        0..self.phases()
    }
}

/// A broadcast that sends chunks from the root along all ranks.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    ranks: u64,
    bytes: u64,
    chunks: u64,
}

impl Chain {
    pub(super) fn new(ranks: u64, bytes: u64, chunk: Option<u64>) -> Chain {
        Chain { ranks, bytes, chunks: chunks(bytes, chunk) }
    }
}

impl Pattern for Chain {
    fn ends(&self) -> u64 {
        self.ranks
    }

    fn phases(&self) -> u64 {
        self.ranks - 2 + self.chunks
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let chunk = chunk_at(phase, rank, self.chunks)?;
        let whole = Span { start: 0, bytes: self.bytes };
        (rank + 1 < self.ranks).then(|| Move::span(rank + 1, piece(whole, self.chunks, chunk)))
    }

    fn source(&self, _phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((rank.checked_sub(1)?, 0))
    }

    fn pairs_stay(&self) -> bool {
        true
    }

    fn alike(&self) -> Range<u64> {
        steady(self.ranks - 1, self.chunks)
    }
}
