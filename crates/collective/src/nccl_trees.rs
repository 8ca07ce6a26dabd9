//! An allreduce by two binary trees over nodes, each with half of the bytes, as NCCL builds them.
//!
//! `ncclGetDtree` (`src/graph/trees.cc`) makes both trees over the *nodes*. The first tree is in order: node 0 is its
//! root and has one child; the lowest set bit of any other node's number says how far above the leaves the node is. The
//! second tree is the first tree with the nodes mirrored if their number is even, and shifted by one if it is odd. So
//! an inner node of one tree is a leaf of the other, and the two roots are different nodes. There is one exception: if
//! the number of nodes is odd, node 0 is an inner node of both trees. (Sanders, Speck and Träff, *Two-tree algorithms
//! for full bandwidth broadcast, reduction and scan*, 2009, keep a common root outside of both trees, as a broadcast
//! needs it: [`super::double_binary_tree`].)
//!
//! Inside a node the ranks form a chain (`ncclTopoPreset` in `src/graph/connect.cc`). The chain's first rank sends to
//! the parent node and receives from the second child node; the chain's second rank receives from the first child node
//! (`NCCL_TOPO_PATTERN_BALANCED_TREE`, the default), so that two GPUs share the node's traffic. NCCL tries several
//! orders of GPUs, one for each channel. Here the chain is in the order of the ranks, but channel c
//! begins it at the node's rank c.
//!
//! Chunks go up the trees one behind the other, are added on the way, and come down again. Chunks on the way up and
//! chunks on the way down move at the same time.

use super::pattern::{Move, Pattern, chunk_at, steady};
use super::shards::{chunks, piece};
use super::transfer::Span;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of children of a rank in a tree: two on other nodes, and the next rank of the chain on its own node.
const CHILDREN: u64 = 3;
const CHAIN: u64 = 2;
/// Number of slots in which a rank sends to its children, both trees together. The slots in which it sends to its
/// parents follow.
const DOWN: u64 = 2 * CHILDREN;

/// An allreduce that sends chunks up both trees and down again.
#[derive(Debug, Clone)]
pub(super) struct NcclTrees {
    ranks: u64,
    /// First rank of each node, then the number of ranks; `None` if each rank is on a node of its own.
    firsts: Option<Arc<[u64]>>,
    /// Depth of the deeper tree: edges from its root to its lowest leaf.
    height: u64,
    bytes: u64,
    chunks: u64,
}

impl NcclTrees {
    /// Creates the trees for `ranks` ranks; `nodes` has the number of ranks on each node, and is empty if each rank
    /// is on a node of its own.
    pub(super) fn new(ranks: u64, nodes: &[u32], bytes: u64, chunk: Option<u64>) -> NcclTrees {
        let mut firsts = vec![0];
        let sizes = nodes.iter().map(|&size| u64::from(size));
        sizes.for_each(|size| firsts.push(firsts[firsts.len() - 1] + size));
        let firsts = (!nodes.is_empty()).then(|| firsts.into());
        let chunks = chunks(bytes.div_ceil(2), chunk);
        let trees = NcclTrees { ranks, firsts, height: 0, bytes, chunks };
        NcclTrees { height: trees.greatest_depth(), ..trees }
    }

    /// Returns the depth of the deeper tree: the number of edges from its root to its lowest leaf.
    pub(super) fn height(&self) -> u64 {
        self.height
    }

    fn greatest_depth(&self) -> u64 {
        if self.firsts.is_none() {
            // The tree is in order over ranks 1 to p - 1, with the root above.
            return self.ranks.checked_sub(2).map_or(0, |last| 1 + u64::from((last + 1).ilog2()));
        }
        let last = |node: u64| self.first(node + 1) - 1;
        let depths = |node| [0, 1].map(|tree| self.depth(tree, last(node)));
        (0..self.nodes()).flat_map(depths).max().unwrap_or(0)
    }

    fn nodes(&self) -> u64 {
        self.firsts.as_ref().map_or(self.ranks, |firsts| firsts.len() as u64 - 1)
    }

    fn first(&self, node: u64) -> u64 {
        self.firsts.as_ref().map_or(node, |firsts| firsts[node as usize])
    }

    fn size(&self, node: u64) -> u64 {
        self.first(node + 1) - self.first(node)
    }

    /// Returns the node of a rank, and the rank's index on the node.
    fn at(&self, rank: u64) -> (u64, u64) {
        let Some(firsts) = &self.firsts else { return (rank, 0) };
        let node = firsts.partition_point(|&first| first <= rank) as u64 - 1;
        (node, rank - self.first(node))
    }

    /// Returns the place of a node in a tree; the method `node` is the inverse.
    fn place(&self, tree: u64, node: u64) -> u64 {
        match (tree, self.nodes() % 2) {
            (0, _) => node,
            (_, 0) => self.nodes() - 1 - node,
            _ => (node + self.nodes() - 1) % self.nodes(),
        }
    }

    fn node(&self, tree: u64, place: u64) -> u64 {
        match (tree, self.nodes() % 2) {
            (0, _) => place,
            (_, 0) => self.nodes() - 1 - place,
            _ => (place + 1) % self.nodes(),
        }
    }

    /// Returns the parent of a place, and which child of the parent the place is; `None` for the root.
    fn above(&self, place: u64) -> Option<(u64, u64)> {
        let low = 1 << (place > 0).then(|| place.trailing_zeros())?;
        let up = (place ^ low) | (low << 1);
        let up = if up < self.nodes() { up } else { place ^ low };
        Some((up, u64::from(place > up)))
    }

    /// Returns the child of a place on a side; the root has only its second child.
    fn below(&self, place: u64, side: u64) -> Option<u64> {
        if place == 0 {
            return (side == 1 && self.nodes() > 1).then(|| 1 << (self.nodes() - 1).ilog2());
        }
        let mut step = (1u64 << place.trailing_zeros()) / 2;
        if side == 0 {
            return (step > 0).then(|| place - step);
        }
        while place + step >= self.nodes() {
            step /= 2;
        }
        (step > 0).then(|| place + step)
    }

    /// Returns the index, within `node`, of the rank that exchanges data with the node's child on `side`.
    fn to_child(&self, node: u64, side: u64) -> u64 {
        (1 - side).min(self.size(node) - 1)
    }

    /// Returns the parent of a rank in a tree, and the slot in which the parent sends to this rank; `None` for the
    /// root.
    fn parent(&self, tree: u64, rank: u64) -> Option<(u64, u64)> {
        let (node, within) = self.at(rank);
        if within > 0 {
            return Some((rank - 1, CHILDREN * tree + CHAIN));
        }
        let (up, side) = self.above(self.place(tree, node))?;
        let up = self.node(tree, up);
        Some((self.first(up) + self.to_child(up, side), CHILDREN * tree + side))
    }

    fn child(&self, tree: u64, rank: u64, which: u64) -> Option<u64> {
        let (node, within) = self.at(rank);
        if which == CHAIN {
            return (within + 1 < self.size(node)).then_some(rank + 1);
        }
        let mine = self.to_child(node, which) == within;
        let below = mine.then(|| self.below(self.place(tree, node), which))??;
        Some(self.first(self.node(tree, below)))
    }

    /// Returns the number of edges between a rank and the root of a tree.
    fn depth(&self, tree: u64, rank: u64) -> u64 {
        let (node, within) = self.at(rank);
        let (mut place, mut edges) = (self.place(tree, node), within);
        while let Some((up, side)) = self.above(place) {
            edges += 1 + self.to_child(self.node(tree, up), side);
            place = up;
        }
        edges
    }

    /// Returns the chunk that passes an edge in `phase`, if the first chunk passes it in phase `first`; `None` if no
    /// chunk does.
    fn chunk(&self, tree: u64, phase: u64, first: u64) -> Option<Span> {
        let chunk = chunk_at(phase, first, self.chunks)?;
        let half = piece(Span { start: 0, bytes: self.bytes }, 2, tree);
        Some(piece(half, self.chunks, chunk))
    }
}

impl Pattern for NcclTrees {
    fn ends(&self) -> u64 {
        self.ranks
    }

    fn phases(&self) -> u64 {
        2 * self.height + self.chunks - 1
    }

    fn send(&self, phase: u64, rank: u64, slot: u64) -> Option<Move> {
        if slot < DOWN {
            let tree = slot / CHILDREN;
            let child = self.child(tree, rank, slot % CHILDREN)?;
            let span = self.chunk(tree, phase, self.height + self.depth(tree, rank))?;
            return Some(Move::span(child, span));
        }
        let tree = slot - DOWN;
        let (parent, _) = self.parent(tree, rank)?;
        let span = self.chunk(tree, phase, self.height - self.depth(tree, rank))?;
        Some(Move::span(parent, span).reduce())
    }

    fn source(&self, _phase: u64, rank: u64, slot: u64) -> Option<(u64, u64)> {
        if slot < DOWN {
            let tree = slot / CHILDREN;
            return Some((self.child(tree, rank, slot % CHILDREN)?, DOWN + tree));
        }
        self.parent(slot - DOWN, rank)
    }

    fn sends(&self, _rank: u64) -> u64 {
        DOWN + 2
    }

    fn receives(&self, _rank: u64) -> u64 {
        DOWN + 2
    }

    fn pairs_stay(&self) -> bool {
        true
    }

    fn alike(&self) -> Range<u64> {
        steady(2 * self.height, self.chunks)
    }
}
