//! What the next completions will need of memory, fetched before they come.

use super::core::Core;
use super::group::Group;
use super::{GroupId, Network};
use crate::engine::prefetch;

impl<T: Copy> Core<T> {
    /// Whose flow is due first, as far as is known. Fetches what those behind it need, one step further
    /// the sooner they come.
    fn foresee(&self) -> Option<T> {
        let riders = &self.clocks[self.dues.foremost().0? as usize].riders;
        let (first, others) = riders.foremost();
        for &(_, group) in others {
            if let Some(group) = self.groups.get(group as usize) {
                group.prefetch();
            }
        }
        if let Some(group) = self.groups.get(riders.second() as usize)
            && let Some((_, flow)) = group.flows.peek()
        {
            prefetch(&self.slots[flow.slot as usize]);
        }
        let flow = self.groups[first? as usize].flows.peek()?.1;
        Some(self.slots[flow.slot as usize].token)
    }
}

impl Group {
    /// What a flow that starts or ends needs of it.
    #[inline]
    fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.path);
    }
}

impl<T: Copy> Network<T> {
    /// Who is due first, as far as is known; what that needs has been fetched from memory.
    #[inline]
    pub fn foresee(&self) -> Option<T> {
        self.core.foresee()
    }

    /// A flow of this group will start soon.
    #[inline]
    pub fn prefetch(&self, group: GroupId) {
        self.core.groups[group.index()].prefetch();
    }

    /// A flow of this group, which was fetched, will start at once.
    #[inline]
    pub fn prefetch_flows(&self, group: GroupId) {
        let flows = self.core.groups[group.index()].flows.as_slice();
        if let [first, .., last] = flows {
            prefetch(first);
            prefetch(last);
        }
    }
}
