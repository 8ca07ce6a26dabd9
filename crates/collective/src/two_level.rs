//! An all-to-all in two levels: few long messages go across groups instead of many short ones.

use super::pattern::{Move, Pattern};
use super::shards::Shards;
use super::transfer::{Blocks, Content, Kind};

/// An all-to-all in groups of equal size. Inside a group, the rank with index i receives all data that the group has
/// for ranks with index i of any group. Across groups, the ranks with the same index exchange the data that they
/// received.
#[derive(Debug, Clone)]
pub(super) struct TwoLevel {
    pub(super) shards: Shards,
    pub(super) size: u64,
}

impl TwoLevel {
    fn groups(&self) -> u64 {
        self.ends() / self.size
    }

    fn inside(&self, rank: u64, by: u64) -> Move {
        let index = (rank + by) % self.size;
        let destinations = (index, self.size, self.groups());
        let blocks = Blocks::Grid { origins: (rank, 1, 1), destinations };
        let (to, bytes) =
            (rank / self.size * self.size + index, self.shards.every(index, self.size));
        Move { to, bytes, kind: Kind::Copy, content: Content::Blocks(blocks) }
    }

    fn across(&self, rank: u64, by: u64) -> Move {
        let to = (rank + by * self.size) % self.ends();
        let origins = (rank / self.size * self.size, 1, self.size);
        let blocks = Blocks::Grid { origins, destinations: (to, 1, 1) };
        let bytes = self.size * self.shards.len(to);
        Move { to, bytes, kind: Kind::Copy, content: Content::Blocks(blocks) }
    }
}

impl Pattern for TwoLevel {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        self.size - 1 + self.groups() - 1
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        Some(match phase.checked_sub(self.size - 1) {
            None => self.inside(rank, phase + 1),
            Some(phase) => self.across(rank, phase + 1),
        })
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        let from = match phase.checked_sub(self.size - 1) {
            None => {
                let first = rank / self.size * self.size;
                first + (rank + self.size - phase - 1) % self.size
            }
            Some(phase) => (rank + self.ends() - (phase + 1) * self.size) % self.ends(),
        };
        Some((from, 0))
    }
}
