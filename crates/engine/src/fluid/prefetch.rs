//! What the next completions will need of memory, fetched before they come.

use super::core::Core;
use super::group::Group;
use super::{GroupId, Network};
use crate::prefetch;

impl<T: Copy> Core<T> {
    /// Whose flow may be due after the first one. Fetches what the flows behind it need.
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
    /// What a flow that starts or ends needs of it.
    #[inline]
    fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.path);
    }

    /// The same of its flows; the group itself was fetched.
    #[inline]
    fn prefetch_flows(&self) {
        if let [first, .., last] = self.flows.as_slice() {
            prefetch(first);
            prefetch(last);
        }
    }
}

impl<T: Copy> Network<T> {
    /// Whose flow, and of which group, may be due after the next one; what the network needs for that and
    /// those behind it is fetched from memory.
    #[inline]
    pub fn peek_second(&self) -> Option<(GroupId, T)> {
        self.core.peek_second()
    }

    /// A flow of this group will start soon.
    #[inline]
    pub fn prefetch(&self, group: GroupId) {
        self.core.groups[group.index()].prefetch();
    }

    /// A flow of this group, which was fetched, will start at once.
    #[inline]
    pub fn prefetch_flows(&self, group: GroupId) {
        self.core.groups[group.index()].prefetch_flows();
    }
}
