//! Transfers over distances 1, 2, 4, … around the ring of ranks (Bruck, Ho, Kipnis, Upfal and Weathersby, *Efficient
//! algorithms for all-to-all communications in multiport message-passing systems*, 1997).

use super::pattern::{Move, Pattern, log_up};
use super::shards::Shards;
use super::transfer::{Blocks, Content, Kind};

/// An allgather: in phase k each rank sends its blocks to the rank 2^k below it; the last phase sends only the
/// blocks that this rank still lacks.
#[derive(Debug, Clone)]
pub(super) struct BruckGather {
    pub(super) shards: Shards,
}

impl Pattern for BruckGather {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        log_up(self.ends())
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let (ranks, distance) = (self.ends(), 1 << phase);
        let count = distance.min(ranks - distance);
        Some(Move::copy((rank + ranks - distance) % ranks, self.shards.around(rank, count)))
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some(((rank + (1 << phase)) % self.ends(), 0))
    }
}

/// An all-to-all: a block is forwarded by 2^k ranks in phase k if bit k of the distance from its source to its
/// destination is set.
#[derive(Debug, Clone)]
pub(super) struct BruckExchange {
    pub(super) shards: Shards,
}

impl BruckExchange {
    /// Returns the bytes that `rank` sends over `distance`. If all parts are equal, the bytes are computed without
    /// visiting each part.
    fn bytes(&self, rank: u64, distance: u64) -> u64 {
        let ranks = self.ends();
        if self.shards.bytes().is_multiple_of(ranks) {
            let rest = ranks % (2 * distance);
            let count = ranks / (2 * distance) * distance + rest.saturating_sub(distance);
            return count * self.shards.len(0);
        }
        let ways = (0..ranks).filter(|way| way & distance != 0);
        ways.map(|way| self.shards.len((rank + way - way % distance) % ranks)).sum()
    }
}

impl Pattern for BruckExchange {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        log_up(self.ends())
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let (ranks, distance) = (self.ends(), 1 << phase);
        let content = Content::Blocks(Blocks::Distance { rank, distance, ranks });
        let bytes = self.bytes(rank, distance);
        Some(Move { to: (rank + distance) % ranks, bytes, kind: Kind::Copy, content })
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        let ranks = self.ends();
        Some(((rank + ranks - (1 << phase)) % ranks, 0))
    }
}
