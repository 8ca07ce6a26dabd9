//! Maps the ranks of a pattern to the ranks of a schedule, and back.

use super::pattern::around;
use super::recursive_doubling::extra;
use std::sync::Arc;

/// A mapping from (copy, end of the pattern) to the ids of a schedule, and back. An end is a rank or the switch of
/// the pattern.
#[derive(Debug, Clone)]
pub(super) struct Placement {
    /// Number of ranks of a copy, including the ranks that are folded in.
    pub(super) size: u64,
    /// Whether the pattern leaves out the even ranks of the first pairs.
    pub(super) folded: bool,
    /// Index, within a copy, of the rank that is the pattern's rank 0.
    pub(super) root: u64,
    pub(super) base: Base,
    /// Id of the first copy's switch.
    pub(super) switch: u64,
    pub(super) copies: u64,
}

/// The ranks of the copies.
#[derive(Debug, Clone)]
pub(super) enum Base {
    /// Copies one after the other, from rank `first` on.
    Blocks { first: u64 },
    /// Copies beside each other: copy c begins at rank `first` + c, and its ranks are `apart` ranks from each other.
    Strided { first: u64, apart: u64 },
    /// One copy on these ranks, in ascending order.
    List(Arc<[u32]>),
    /// One copy on all ranks in the order of `ranks`; `places` has the place of each rank in that order.
    Order { ranks: Arc<[u32]>, places: Arc<[u32]> },
}

impl Placement {
    /// Places one copy on all ranks, with `root` as rank 0 of the pattern.
    pub(super) fn whole(ranks: u64, root: u64) -> Placement {
        let base = Base::Blocks { first: 0 };
        Placement { size: ranks, folded: false, root, base, switch: ranks, copies: 1 }
    }

    /// Places one copy on all ranks, node after node; `nodes` has the number of ranks on each. Within a node, the order
    /// begins at the node's rank number `by` and wraps around. With a root, the whole order begins at the root.
    pub(super) fn turned(nodes: &[u32], by: u64, root: Option<u32>) -> Placement {
        let mut ranks = Vec::new();
        for &size in nodes {
            let first = ranks.len() as u64;
            let turned = (0..u64::from(size))
                .map(|at| first + around(at + by % u64::from(size), size.into()));
            ranks.extend(turned.map(|rank| rank as u32));
        }
        let mut places = vec![0; ranks.len()];
        for (place, &rank) in (0..).zip(&ranks) {
            places[rank as usize] = place;
        }
        let root = root.and_then(|root| places.get(root as usize).copied()).unwrap_or(0);
        let size = ranks.len() as u64;
        let base = Base::Order { ranks: ranks.into(), places: places.into() };
        Placement { base, ..Placement::whole(size, root.into()) }
    }

    /// Returns the number of pairs of which only one rank takes part in the pattern, on behalf of both.
    fn pairs(&self) -> u64 {
        if self.folded { extra(self.size) } else { 0 }
    }

    /// Returns the id in the schedule of an end (a rank or the switch) of a copy of the pattern.
    #[inline]
    pub(super) fn id(&self, copy: u64, end: u64) -> u64 {
        if end >= self.size {
            return self.switch + copy;
        }
        let pairs = self.pairs();
        let unfolded = if end < pairs { 2 * end + 1 } else { end + pairs };
        let at = around(unfolded + self.root, self.size);
        match &self.base {
            Base::Blocks { first } => first + copy * self.size + at,
            Base::Strided { first, apart } => first + copy + at * apart,
            Base::List(ranks) | Base::Order { ranks, .. } => ranks[at as usize].into(),
        }
    }

    /// Returns the copy, and the end of the pattern in this copy, to which the schedule's `id` belongs; `None` if `id`
    /// takes no part.
    #[inline]
    pub(super) fn end(&self, id: u64) -> Option<(u64, u64)> {
        if id >= self.switch {
            return Some((id - self.switch, self.size)).filter(|&(copy, _)| copy < self.copies);
        }
        let (copy, at) = self.at(id)?;
        let unfolded = around(at + self.size - self.root, self.size);
        let pairs = self.pairs();
        let left_out = unfolded < 2 * pairs && unfolded.is_multiple_of(2);
        let end = if unfolded < 2 * pairs { unfolded / 2 } else { unfolded - pairs };
        (!left_out && copy < self.copies && at < self.size).then_some((copy, end))
    }

    fn at(&self, id: u64) -> Option<(u64, u64)> {
        match &self.base {
            Base::List(ranks) => Some((0, ranks.binary_search(&(id as u32)).ok()? as u64)),
            Base::Order { places, .. } => Some((0, (*places.get(id as usize)?).into())),
            Base::Blocks { first } => {
                let past = id.checked_sub(*first)?;
                let copy = if past < self.size { 0 } else { past / self.size };
                Some((copy, past - copy * self.size))
            }
            Base::Strided { first, apart } => {
                let past = id.checked_sub(*first)?;
                Some((past % apart, past / apart))
            }
        }
    }
}
