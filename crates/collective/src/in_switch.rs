//! A switch that adds what comes in and sends one message to many (Graham et al., *Scalable hierarchical
//! aggregation protocol (SHARP)*, 2016; NVLink SHARP). The switch reduces at the rate of its ports; each rank has
//! one port. In the patterns, the number of the switch follows the numbers of the ranks.

use super::pattern::{Move, Pattern, chunk_at, steady};
use super::shards::{Shards, chunks, piece};
use super::transfer::Span;
use std::ops::Range;

/// A broadcast or an allreduce by the switch: each chunk goes up in one phase and down in the next.
#[derive(Debug, Clone)]
pub(super) struct Multicast {
    ranks: u64,
    bytes: u64,
    chunks: u64,
    /// Whether all ranks send and receive (allreduce); otherwise the root sends and the others receive (broadcast).
    all: bool,
}

impl Multicast {
    pub(super) fn new(ranks: u64, bytes: u64, chunk: Option<u64>, all: bool) -> Multicast {
        Multicast { ranks, bytes, chunks: chunks(bytes, chunk), all }
    }

    fn chunk(&self, phase: u64, level: u64) -> Option<Span> {
        let chunk = chunk_at(phase, level, self.chunks)?;
        Some(piece(Span { start: 0, bytes: self.bytes }, self.chunks, chunk))
    }
}

impl Pattern for Multicast {
    fn ends(&self) -> u64 {
        self.ranks + 1
    }

    fn phases(&self) -> u64 {
        self.chunks + 1
    }

    fn send(&self, phase: u64, rank: u64, slot: u64) -> Option<Move> {
        if rank == self.ranks {
            let down = self.chunk(phase, 1)?;
            return (self.all || slot > 0).then(|| Move::span(slot, down));
        }
        let up = Move::span(self.ranks, self.chunk(phase, 0)?);
        if self.all { Some(up.reduce()) } else { (rank == 0).then_some(up) }
    }

    fn source(&self, _phase: u64, rank: u64, slot: u64) -> Option<(u64, u64)> {
        Some(if rank == self.ranks { (slot, 0) } else { (self.ranks, rank) })
    }

    fn sends(&self, rank: u64) -> u64 {
        if rank == self.ranks { self.ranks } else { 1 }
    }

    fn receives(&self, rank: u64) -> u64 {
        self.sends(rank)
    }

    fn pairs_stay(&self) -> bool {
        true
    }

    fn alike(&self) -> Range<u64> {
        steady(2, self.chunks)
    }

    fn switch(&self) -> bool {
        true
    }
}

/// An allgather: each rank sends its part up, and the switch sends it all other parts down.
#[derive(Debug, Clone)]
pub(super) struct SwitchGather {
    pub(super) shards: Shards,
}

impl Pattern for SwitchGather {
    fn ends(&self) -> u64 {
        self.shards.parts() + 1
    }

    fn phases(&self) -> u64 {
        2
    }

    fn send(&self, phase: u64, rank: u64, slot: u64) -> Option<Move> {
        let ranks = self.shards.parts();
        if rank < ranks {
            return (phase == 0).then(|| Move::copy(ranks, self.shards.span(rank, rank + 1)));
        }
        (phase == 1).then(|| Move::copy(slot, self.shards.around((slot + 1) % ranks, ranks - 1)))
    }

    fn source(&self, _phase: u64, rank: u64, slot: u64) -> Option<(u64, u64)> {
        let ranks = self.shards.parts();
        Some(if rank == ranks { (slot, 0) } else { (ranks, rank) })
    }

    fn sends(&self, rank: u64) -> u64 {
        if rank == self.shards.parts() { rank } else { 1 }
    }

    fn receives(&self, rank: u64) -> u64 {
        self.sends(rank)
    }

    fn switch(&self) -> bool {
        true
    }
}
