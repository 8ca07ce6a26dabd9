//! What one step of an algorithm is, seen from inside: ranks 0 to n − 1 with the root at 0.

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
    /// Spans of the buffer that the receiver keeps.
    pub(super) fn copy(to: u64, spans: [Span; 2]) -> Move {
        let bytes = spans[0].bytes + spans[1].bytes;
        Move { to, bytes, kind: Kind::Copy, content: Content::Spans(spans) }
    }

    /// One span.
    pub(super) fn span(to: u64, span: Span) -> Move {
        Move::copy(to, [span, Span::default()])
    }

    /// Which the receiver adds to its own.
    pub(super) fn reduce(self) -> Move {
        Move { kind: Kind::Reduce, ..self }
    }
}

/// Transfers as a function of phase and rank.
pub(super) trait Pattern {
    /// How many take part; with a switch as the last one, where [`Pattern::switch`] says so.
    fn ends(&self) -> u64;

    /// How many phases.
    fn phases(&self) -> u64;

    /// What `rank` sends in `phase`; `slot` counts what it may send at once.
    fn send(&self, phase: u64, rank: u64, slot: u64) -> Option<Move>;

    /// The same without what it carries: to whom, how many bytes, and what they do with them.
    fn hop(&self, phase: u64, rank: u64, slot: u64) -> Option<(u64, u64, Kind)> {
        self.send(phase, rank, slot).map(|sent| (sent.to, sent.bytes, sent.kind))
    }

    /// From whom, and from which slot there, `rank` may get something in `phase`.
    fn source(&self, phase: u64, rank: u64, slot: u64) -> Option<(u64, u64)>;

    /// Slots of what `rank` sends in a phase.
    fn sends(&self, _rank: u64) -> u64 {
        1
    }

    /// Slots of what `rank` gets in a phase.
    fn receives(&self, _rank: u64) -> u64 {
        1
    }

    /// Phases that are equal but for who sends which part.
    fn alike(&self) -> Range<u64> {
        0..0
    }

    /// Whether the same ranks send to the same ones in all these.
    fn pairs_stay(&self) -> bool {
        false
    }

    /// Whether the last end is a switch.
    fn switch(&self) -> bool {
        false
    }
}

/// Phases that are alike where chunk `c` passes level `l` of `levels` in phase `l + c`.
pub(super) fn steady(levels: u64, chunks: u64) -> Range<u64> {
    levels.saturating_sub(1)..chunks.max(levels.saturating_sub(1))
}

/// The chunk that passes level `level` in `phase`.
pub(super) fn chunk_at(phase: u64, level: u64, chunks: u64) -> Option<u64> {
    phase.checked_sub(level).filter(|&chunk| chunk < chunks)
}

/// Phases that a doubling takes to reach `ranks`: the binary logarithm, rounded up.
pub(super) fn log_up(ranks: u64) -> u64 {
    u64::from(ranks.max(1).next_power_of_two().ilog2())
}

/// A sum of two ranks around the ring of them: divisions are the slowest thing here.
pub(super) fn around(rank: u64, ranks: u64) -> u64 {
    if rank < ranks { rank } else { rank - ranks }
}
