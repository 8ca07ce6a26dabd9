//! Prefetching of the memory that the next completions will need.

use super::core::Core;
use super::group::Group;
use super::link::Link;
use super::{GroupId, Network};
use crate::prefetch;

impl<T: Copy> Core<T> {
    /// Returns the group and the token of a flow that may be due after the next one. Prefetches the memory that the
    /// network needs for this flow and for the flows behind it.
    #[inline]
    fn peek_second(&self) -> Option<(GroupId, T)> {
        let entries = &self.clocks.get(self.dues.first_entry().id() as usize)?.entries;
        let (second, others) = entries.next()?;
        for entry in others {
            if let Some(group) = self.groups.get(entry.id() as usize)
                && let Some(slot) = self.slots.get(entry.slot() as usize)
            {
                group.prefetch();
                prefetch(slot);
            }
        }
        let slot = self.slots.get(second.slot() as usize)?;
        self.groups[second.id() as usize].prefetch_flows();
        Some((GroupId(second.id()), slot.token))
    }
}

impl Group {
    /// Prefetches the parts of the group that the start or end of a flow needs.
    #[inline]
    fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.path);
        prefetch(&self.ceiling);
    }

    /// Prefetches both ends of the group's heap of flows; the group itself must have been prefetched before.
    #[inline]
    fn prefetch_flows(&self) {
        if let [first, .., last] = self.flows.as_slice() {
            prefetch(first);
            prefetch(last);
        }
    }
}

impl<T: Copy> Core<T> {
    /// Returns the links of a group's route.
    #[inline]
    fn links_of(&self, group: GroupId) -> impl Iterator<Item = &Link> {
        let uses = self.groups[group.index()].uses.clone();
        self.uses[uses.start as usize..uses.end as usize]
            .iter()
            .map(|u| &self.links[u.link as usize])
    }
}

impl<T: Copy> Network<T> {
    /// Returns the group and the token of a flow that may be due after the next one; `None` if no such flow is known.
    /// Prefetches the memory that the network needs for it and for the flows behind it.
    #[inline]
    pub fn peek_second(&self) -> Option<(GroupId, T)> {
        self.core.peek_second()
    }

    /// Prefetches a group in which a flow will start soon.
    #[inline]
    pub fn prefetch(&self, group: GroupId) {
        self.core.groups[group.index()].prefetch();
    }

    /// Prefetches the links of a group in which a flow will start soon; to be called some time after `prefetch`.
    #[inline]
    pub fn prefetch_links(&self, group: GroupId) {
        if self.core.groups[group.index()].active == 0 {
            self.core.links_of(group).for_each(Link::prefetch);
        }
    }

    /// Prefetches the flows of a group in which a flow will start at once, or what its first flow needs; to be called some time
    /// after `prefetch_links`.
    #[inline]
    pub fn prefetch_flows(&self, group: GroupId) {
        let g = &self.core.groups[group.index()];
        if g.active > 0 {
            return g.prefetch_flows();
        }
        for link in self.core.links_of(group) {
            let clock = &self.core.clocks[link.clock as usize];
            prefetch(clock);
            prefetch(&clock.entries);
        }
    }
}
