//! Transfers one after the other: between the root and each rank, or between each rank and each
//! other rank.

use super::pattern::{Move, Pattern, around};
use super::shards::Shards;
use super::transfer::{Blocks, Content, Kind, Span};
use std::ops::Range;

/// In each phase the root sends the whole buffer to one rank.
#[derive(Debug, Clone)]
pub(super) struct Star {
    pub(super) ranks: u64,
    pub(super) bytes: u64,
}

impl Pattern for Star {
    fn ends(&self) -> u64 {
        self.ranks
    }

    fn phases(&self) -> u64 {
        self.ranks - 1
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        (rank == 0).then(|| Move::span(phase + 1, Span { start: 0, bytes: self.bytes }))
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        (rank == phase + 1).then_some((0, 0))
    }

    fn alike(&self) -> Range<u64> {
        0..self.phases()
    }
}

/// A pairwise exchange: in phase s each rank sends to the rank s + 1 places further on.
#[derive(Debug, Clone)]
pub(super) struct Pairwise {
    pub(super) shards: Shards,
    /// Whether a rank sends the receiver's part of its buffer (all-to-all); otherwise it sends its
    /// own part (allgather).
    pub(super) exchange: bool,
}

impl Pattern for Pairwise {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        self.ends() - 1
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let to = around(rank + phase + 1, self.ends());
        if !self.exchange {
            return Some(Move::copy(to, self.shards.span(rank, rank + 1)));
        }
        let blocks = Blocks::Grid { origins: (rank, 1, 1), destinations: (to, 1, 1) };
        let content = Content::Blocks(blocks);
        Some(Move { to, bytes: self.shards.len(to), kind: Kind::Copy, content })
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((around(rank + self.ends() - phase - 1, self.ends()), 0))
    }

    fn alike(&self) -> Range<u64> {
        0..self.phases()
    }
}
