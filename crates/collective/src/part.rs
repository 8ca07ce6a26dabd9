//! A pattern placed on the ranks of a schedule: one copy, or several copies side by side, run
//! forwards or backwards.

use super::binomial_tree::Binomial;
use super::bruck::{BruckExchange, BruckGather};
use super::double_binary_tree::TwoTree;
use super::flat::{Pairwise, Star};
use super::in_switch::{Multicast, SwitchGather};
use super::nccl_trees::NcclTrees;
use super::neighbours::Neighbours;
use super::pattern::{Move, Pattern};
use super::placement::Placement;
use super::recursive_doubling::{Doubling, Exchange, Fold};
use super::ring::{Chain, Ring};
use super::scatter_allgather::{Halves, Scatter};
use super::transfer::{Content, Hop, Kind, Span, Transfer};
use super::two_level::TwoLevel;

/// A pattern of any kind.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Star(Star),
    Pairwise(Pairwise),
    Ring(Ring),
    Chain(Chain),
    Binomial(Binomial),
    Scatter(Scatter),
    Halves(Halves),
    Exchange(Exchange),
    Doubling(Doubling),
    Fold(Fold),
    TwoTree(TwoTree),
    NcclTrees(NcclTrees),
    BruckGather(BruckGather),
    BruckExchange(BruckExchange),
    Multicast(Multicast),
    SwitchGather(SwitchGather),
    TwoLevel(TwoLevel),
    Neighbours(Neighbours),
}

impl Shape {
    pub(super) fn pattern(&self) -> &dyn Pattern {
        match self {
            Shape::Star(pattern) => pattern,
            Shape::Pairwise(pattern) => pattern,
            Shape::Ring(pattern) => pattern,
            Shape::Chain(pattern) => pattern,
            Shape::Binomial(pattern) => pattern,
            Shape::Scatter(pattern) => pattern,
            Shape::Halves(pattern) => pattern,
            Shape::Exchange(pattern) => pattern,
            Shape::Doubling(pattern) => pattern,
            Shape::Fold(pattern) => pattern,
            Shape::TwoTree(pattern) => pattern,
            Shape::NcclTrees(pattern) => pattern,
            Shape::BruckGather(pattern) => pattern,
            Shape::BruckExchange(pattern) => pattern,
            Shape::Multicast(pattern) => pattern,
            Shape::SwitchGather(pattern) => pattern,
            Shape::TwoLevel(pattern) => pattern,
            Shape::Neighbours(pattern) => pattern,
        }
    }
}

/// A step of an algorithm: a pattern, and in which direction it runs.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) shape: Shape,
    /// Whether the pattern runs backwards: the last phase first, and receivers send to senders.
    pub(super) backwards: bool,
    /// What receivers do with the bytes; `None` to do as the pattern says.
    pub(super) kind: Option<Kind>,
    /// Whether the step runs only among a power-of-two number of ranks, because the other ranks
    /// have been folded in: each of them has sent its data to a partner.
    pub(super) folded: bool,
}

impl Step {
    pub(super) fn new(shape: Shape) -> Step {
        Step { shape, backwards: false, kind: None, folded: false }
    }

    pub(super) fn backwards(self, kind: Kind) -> Step {
        Step { backwards: !self.backwards, kind: Some(kind), ..self }
    }
}

/// Copies of one step on different ranks, side by side.
#[derive(Debug, Clone)]
pub(super) struct StepCopies {
    pub(super) step: Step,
    pub(super) place: Placement,
    /// Offset of the first copy's bytes in the buffer, and distance between the bytes of two
    /// successive copies [B].
    pub(super) window: (u64, u64),
}

impl StepCopies {
    pub(super) fn pattern(&self) -> &dyn Pattern {
        self.step.shape.pattern()
    }

    pub(super) fn phases(&self) -> u64 {
        self.pattern().phases()
    }

    /// Returns the phase of the pattern that runs in `phase` of the step; `None` after the last
    /// one.
    fn inner(&self, phase: u64) -> Option<u64> {
        let phases = self.phases();
        let inside = phase < phases;
        inside.then(|| if self.step.backwards { phases - 1 - phase } else { phase })
    }

    fn transfer(&self, copy: u64, from: u64, inner: &Move) -> Transfer {
        let (from, to, kind) = self.ends(copy, from, inner.to, inner.kind);
        let start = self.window.0 + copy * self.window.1;
        let moved = |span: Span| Span { start: span.start + start, ..span };
        let content = match inner.content {
            Content::Spans(spans) => Content::Spans(spans.map(moved)),
            blocks => blocks,
        };
        Transfer { from, to, bytes: inner.bytes, kind, content }
    }

    /// Returns all transfers of a phase.
    pub(super) fn transfers(&self, phase: u64) -> impl Iterator<Item = Transfer> + '_ {
        let pattern = self.pattern();
        let inner = self.inner(phase);
        let copies = if inner.is_some() { self.place.copies } else { 0 };
        let inner = inner.unwrap_or(0);
        (0..copies).flat_map(move |copy| {
            (0..pattern.ends()).flat_map(move |end| {
                let moves =
                    (0..pattern.sends(end)).filter_map(move |s| pattern.send(inner, end, s));
                moves.map(move |inner| self.transfer(copy, end, &inner))
            })
        })
    }

    /// Calls `told` with each transfer of a phase that the rank or switch `id` sends or receives.
    pub(super) fn visit(&self, phase: u64, id: u64, told: &mut impl FnMut(Hop)) {
        let pattern = self.pattern();
        let Some((phase, (copy, end))) = self.inner(phase).zip(self.place.end(id)) else { return };
        if end >= pattern.ends() {
            return;
        }
        for slot in 0..pattern.sends(end) {
            if let Some(inner) = pattern.hop(phase, end, slot) {
                told(self.hop(copy, end, inner));
            }
        }
        for slot in 0..pattern.receives(end) {
            let Some((from, slot)) = pattern.source(phase, end, slot) else { continue };
            if let Some(inner) = pattern.hop(phase, from, slot).filter(|inner| inner.0 == end) {
                told(self.hop(copy, from, inner));
            }
        }
    }

    #[inline]
    fn hop(&self, copy: u64, from: u64, (to, bytes, kind): (u64, u64, Kind)) -> Hop {
        let (from, to, kind) = self.ends(copy, from, to, kind);
        Hop { from, to, bytes, kind }
    }

    /// Returns the ids of sender and receiver of a transfer, and what the receiver does with the
    /// bytes.
    #[inline]
    fn ends(&self, copy: u64, from: u64, to: u64, kind: Kind) -> (u32, u32, Kind) {
        let ends = (self.place.id(copy, from) as u32, self.place.id(copy, to) as u32);
        let (from, to) = if self.step.backwards { (ends.1, ends.0) } else { ends };
        (from, to, self.step.kind.unwrap_or(kind))
    }
}

/// Returns the sender of the transfer that an end of the pattern (a rank or the switch) receives in
/// a slot, and the transfer; `None` if there is none.
pub(super) fn receive(
    pattern: &dyn Pattern,
    phase: u64,
    end: u64,
    slot: u64,
) -> Option<(u64, Move)> {
    let (from, slot) = pattern.source(phase, end, slot)?;
    let inner = pattern.send(phase, from, slot)?;
    (inner.to == end).then_some((from, inner))
}
