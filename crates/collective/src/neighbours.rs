//! Each rank sends to the next one, once.

use super::part::{Shape, Step, StepCopies};
use super::pattern::{Move, Pattern, around};
use super::placement::Placement;
use super::schedule::Schedule;
use super::transfer::Span;

/// All ranks send `bytes` to the next one at the same time.
#[derive(Debug, Clone)]
pub(super) struct Neighbours {
    ranks: u64,
    bytes: u64,
}

impl Pattern for Neighbours {
    fn ends(&self) -> u64 {
        self.ranks
    }

    fn phases(&self) -> u64 {
        1
    }

    fn send(&self, _phase: u64, rank: u64, _slot: u64) -> Option<Move> {
        Some(Move::span(around(rank + 1, self.ranks), Span { start: 0, bytes: self.bytes }))
    }

    fn source(&self, _phase: u64, rank: u64, _slot: u64) -> Option<(u64, u64)> {
        Some((around(rank + self.ranks - 1, self.ranks), 0))
    }
}

impl Schedule {
    /// Returns a schedule in which every rank sends `bytes` [B] to the next rank at the same time, and the last rank
    /// sends to the first. The schedule loads the links as a ring does. It represents a collective whose time is known
    /// but whose steps are unknown.
    #[must_use]
    pub fn to_next(ranks: u32, bytes: u64) -> Schedule {
        let pattern = Neighbours { ranks: ranks.into(), bytes };
        let part = StepCopies {
            step: Step::new(Shape::Neighbours(pattern)),
            place: Placement::whole(ranks.into(), 0),
            window: (0, 0),
        };
        let parts = if ranks > 1 { vec![part] } else { Vec::new() };
        Schedule::new(ranks, vec![parts], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_sends_to_the_next_rank_and_receives_from_the_previous() {
        let schedule = Schedule::to_next(4, 7);
        let ends: Vec<_> = schedule.transfers(0).map(|t| (t.from, t.to, t.bytes)).collect();
        assert_eq!(ends, [(0, 1, 7), (1, 2, 7), (2, 3, 7), (3, 0, 7)]);
        let mut own = Vec::new();
        schedule.visit(0, 2, |transfer| own.push((transfer.from, transfer.to)));
        assert_eq!((schedule.phases(), own), (1, vec![(2, 3), (1, 2)]));
        assert_eq!(Schedule::to_next(2, 7).transfers(0).count(), 2);
        assert_eq!(Schedule::to_next(1, 7).phases(), 0);
    }
}
