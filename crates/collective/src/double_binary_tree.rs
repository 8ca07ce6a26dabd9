//! Two binary trees, each of which carries half of the bytes; an inner rank of one tree is a leaf of the other
//! (Sanders, Speck and Träff, *Two-tree algorithms for full bandwidth broadcast, reduction and scan*, 2009).
//!
//! These trees are for operations with a root; allreduces have [`super::nccl_trees`].
//!
//! The root stands outside of both trees and feeds their tops. The other ranks are numbered from 1. The first tree is
//! in order over these numbers: the lowest set bit of a rank's number says how far above the leaves the rank is. The
//! second tree is the first tree with the numbers mirrored if there is an even number of ranks, and shifted by one if
//! there is an odd number.

use super::pattern::{Move, Pattern, chunk_at, steady};
use super::shards::{chunks, piece};
use super::transfer::Span;
use std::ops::Range;

/// Number of slots in which a rank can send to its children in a phase: two for each tree.
const DOWN: u64 = 4;

/// A broadcast that sends chunks down both trees.
#[derive(Debug, Clone)]
pub(super) struct TwoTree {
    /// Number of ranks without the root.
    inside: u64,
    bytes: u64,
    chunks: u64,
}

impl TwoTree {
    pub(super) fn new(ranks: u64, bytes: u64, chunk: Option<u64>) -> TwoTree {
        TwoTree { inside: ranks - 1, bytes, chunks: chunks(bytes.div_ceil(2), chunk) }
    }

    /// Returns the number of edges between the top of a tree and its lowest leaf.
    fn height(&self) -> u64 {
        u64::from(self.inside.ilog2())
    }

    /// Returns the place of a rank in a tree; the method `rank` is the inverse.
    fn place(&self, tree: u64, rank: u64) -> u64 {
        match (rank, tree) {
            (0, _) | (_, 0) => rank,
            _ if self.inside.is_multiple_of(2) => self.inside + 1 - rank,
            _ => rank % self.inside + 1,
        }
    }

    fn rank(&self, tree: u64, place: u64) -> u64 {
        match (place, tree) {
            (0, _) | (_, 0) => place,
            _ if self.inside.is_multiple_of(2) => self.inside + 1 - place,
            _ => (place + self.inside - 2) % self.inside + 1,
        }
    }

    fn parent(&self, place: u64) -> u64 {
        let low = 1 << place.trailing_zeros();
        let up = (place ^ low) | (low << 1);
        if up <= self.inside { up } else { place ^ low }
    }

    fn child(&self, place: u64, side: u64) -> Option<u64> {
        if place == 0 {
            return (side == 0).then(|| 1 << self.height());
        }
        let mut step = (1u64 << place.trailing_zeros()) / 2;
        if side == 0 {
            return (step > 0).then(|| place - step);
        }
        while place + step > self.inside {
            step /= 2;
        }
        (step > 0).then(|| place + step)
    }

    /// Returns the phase in which the first chunk comes down to a place.
    fn down(&self, place: u64) -> u64 {
        self.height() - u64::from(place.trailing_zeros())
    }

    fn chunk(&self, tree: u64, phase: u64, first: u64) -> Option<Span> {
        let chunk = chunk_at(phase, first, self.chunks)?;
        let half = piece(Span { start: 0, bytes: self.bytes }, 2, tree);
        Some(piece(half, self.chunks, chunk))
    }
}

impl Pattern for TwoTree {
    fn ends(&self) -> u64 {
        self.inside + 1
    }

    fn phases(&self) -> u64 {
        self.height() + self.chunks
    }

    fn send(&self, phase: u64, rank: u64, slot: u64) -> Option<Move> {
        let (tree, side) = (slot / 2, slot % 2);
        let child = self.child(self.place(tree, rank), side)?;
        let span = self.chunk(tree, phase, self.down(child))?;
        Some(Move::span(self.rank(tree, child), span))
    }

    /// Returns the parent of `rank` in tree number `tree`, and the slot in which the parent sends to the rank. A rank
    /// receives in one slot for each tree.
    fn source(&self, _phase: u64, rank: u64, tree: u64) -> Option<(u64, u64)> {
        let place = Some(self.place(tree, rank)).filter(|&place| place > 0)?;
        let parent = self.parent(place);
        let side = u64::from(parent > 0 && place > parent);
        Some((self.rank(tree, parent), 2 * tree + side))
    }

    fn sends(&self, _rank: u64) -> u64 {
        DOWN
    }

    fn receives(&self, _rank: u64) -> u64 {
        2
    }

    fn pairs_stay(&self) -> bool {
        true
    }

    fn alike(&self) -> Range<u64> {
        steady(self.phases() + 1 - self.chunks, self.chunks)
    }
}
