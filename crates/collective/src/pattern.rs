//! Patterns: the transfers of one step of an algorithm, among ranks 0 to n − 1 with the root at 0.

use super::transfer::{Content, Kind, Span};
use std::ops::Range;

/// A transfer inside a pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub(super) to: u64,
    pub(super) bytes: u64,
    pub(super) kind: Kind,
    pub(super) content: Content,
}

impl Move {
    /// Creates a transfer of the `spans` of the buffer to `to`, which keeps the bytes.
    pub(super) fn copy(to: u64, spans: [Span; 2]) -> Move {
        let bytes = spans[0].bytes + spans[1].bytes;
        Move { to, bytes, kind: Kind::Copy, content: Content::Spans(spans) }
    }

    /// Creates a transfer of one span of the buffer to `to`, which keeps the bytes.
    pub(super) fn span(to: u64, span: Span) -> Move {
        Move::copy(to, [span, Span::default()])
    }

    /// Returns the transfer with a receiver that adds the bytes to its own.
    pub(super) fn reduce(self) -> Move {
        Move { kind: Kind::Reduce, ..self }
    }
}

/// The transfers of a step as a function of phase and rank.
pub(super) trait Pattern {
    /// Returns the number of ends: all ranks, and the switch as the last end if [`Pattern::switch`]
    /// holds.
    fn ends(&self) -> u64;

    /// Returns the number of phases.
    fn phases(&self) -> u64;

    /// Returns the transfer that `rank` sends in `phase` in slot number `slot`; `None` if there is
    /// none. Slots number the transfers that a rank may send in one phase.
    fn send(&self, phase: u64, rank: u64, slot: u64) -> Option<Move>;

    /// Returns the transfer of [`Pattern::send`] without its content: the receiver, the number of
    /// bytes and what the receiver does with them. `None` if there is no transfer.
    fn hop(&self, phase: u64, rank: u64, slot: u64) -> Option<(u64, u64, Kind)> {
        self.send(phase, rank, slot).map(|sent| (sent.to, sent.bytes, sent.kind))
    }

    /// Returns the rank from which `rank` may receive something in `phase`, and the slot in which
    /// that rank sends; `slot` numbers the transfers that `rank` may receive in one phase.
    fn source(&self, phase: u64, rank: u64, slot: u64) -> Option<(u64, u64)>;

    /// Returns the number of slots in which `rank` can send: the maximum number of its transfers in
    /// a phase.
    fn sends(&self, _rank: u64) -> u64 {
        1
    }

    /// Returns the number of slots in which `rank` can receive: the maximum number of transfers to
    /// it in a phase.
    fn receives(&self, _rank: u64) -> u64 {
        1
    }

    /// Returns a range of phases that are equal except for which rank sends which part; empty if
    /// there is none.
    fn alike(&self) -> Range<u64> {
        0..0
    }

    /// Whether the same ranks send to the same ranks in all phases of [`Pattern::alike`].
    fn pairs_stay(&self) -> bool {
        false
    }

    /// Whether the last end of the pattern is a switch; all other ends are ranks.
    fn switch(&self) -> bool {
        false
    }
}

/// Returns the phases in which a pipeline of `levels` levels is full; these phases are alike. Chunk
/// `c` passes level `l` in phase `l + c`.
pub(super) fn steady(levels: u64, chunks: u64) -> Range<u64> {
    levels.saturating_sub(1)..chunks.max(levels.saturating_sub(1))
}

/// Returns the chunk that passes level `level` in `phase`; `None` if no chunk does.
pub(super) fn chunk_at(phase: u64, level: u64, chunks: u64) -> Option<u64> {
    phase.checked_sub(level).filter(|&chunk| chunk < chunks)
}

/// Returns the number of doublings from one rank to at least `ranks` ranks: the binary logarithm,
/// rounded up.
pub(super) fn log_up(ranks: u64) -> u64 {
    u64::from(ranks.max(1).next_power_of_two().ilog2())
}

/// Returns `rank` modulo `ranks`, where `rank` is a sum of two ranks. It avoids a division, which
/// would be the slowest operation here.
pub(super) fn around(rank: u64, ranks: u64) -> u64 {
    if rank < ranks { rank } else { rank - ranks }
}
