//! A scatter down a binomial tree, with a part for each rank: the first half of the long broadcast of Barnett, van de
//! Geijn et al. (*Building a high-performance collective communication library*, 1994).

use super::pattern::{Move, Pattern, log_up};
use super::recursive_doubling::Owned;
use super::shards::Shards;

/// A scatter down a binomial tree: in phase k, ranks that are multiples of 2^(levels − k) send on the upper half of
/// their data.
#[derive(Debug, Clone)]
pub(super) struct Scatter {
    pub(super) shards: Shards,
}

impl Scatter {
    /// Returns how far apart senders and receivers of a phase are.
    fn distance(&self, phase: u64) -> u64 {
        1 << (self.phases() - 1 - phase)
    }
}

impl Pattern for Scatter {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        log_up(self.ends())
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let distance = self.distance(phase);
        let (to, end) = (rank + distance, (rank + 2 * distance).min(self.ends()));
        let sends = rank.is_multiple_of(2 * distance) && to < self.ends();
        sends.then(|| Move::copy(to, self.shards.span(to, end)))
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((rank.checked_sub(self.distance(phase))?, 0))
    }
}

/// A scatter to a power-of-two number of ranks, where `owned` says which rank gets which part. Ranks send half of what
/// they have to ranks that have nothing yet.
#[derive(Debug, Clone)]
pub(super) struct Halves {
    pub(super) shards: Shards,
    pub(super) owned: Owned,
}

impl Halves {
    /// Returns two numbers for a phase: k, where each rank that has data at the end of the phase has 2^k parts, and
    /// the distance in ranks between the phase's senders and receivers.
    fn level(&self, phase: u64) -> (u64, u64) {
        let left = self.phases() - 1 - phase;
        (left, self.owned.distance(left, self.phases()))
    }
}

impl Pattern for Halves {
    fn ends(&self) -> u64 {
        self.shards.parts()
    }

    fn phases(&self) -> u64 {
        log_up(self.ends())
    }

    fn send(&self, phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        let (left, distance) = self.level(phase);
        let to = rank + distance;
        // Ranks that have something already: rank 0, and all ranks that earlier phases reached from it.
        let reached = (0..phase).fold(0, |bits, phase| bits | self.level(phase).1);
        let first = self.owned.first(to, left, self.phases());
        let spans = || self.shards.span(first, first + (1 << left));
        (rank & !reached == 0).then(|| Move::copy(to, spans()))
    }

    fn source(&self, phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((rank.checked_sub(self.level(phase).1)?, 0))
    }
}
