//! What the next completions will need of memory, fetched before they come.

use super::core::Core;
use super::group::Group;
use super::riders::NONE;
use super::{GroupId, Network};
use crate::engine::prefetch;

/// Groups whose flows were seen to be due next: the first, and the one behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Foreseen {
    first: u32,
    second: u32,
}

impl Foreseen {
    pub(super) const NOTHING: Foreseen = Foreseen { first: NONE, second: NONE };
}

impl Core {
    /// The slot of the flow that is due first, as far as is known, once that was fetched. What is behind it
    /// is fetched one step further with each call, because each step needs what the one before has brought.
    fn foresee(&mut self) -> Option<u32> {
        let riders = &self.clocks[self.first_due_clock()? as usize].riders;
        let (first, others) = riders.foremost();
        for &(_, group) in others {
            if let Some(group) = self.groups.get(group as usize) {
                group.prefetch();
            }
        }
        let (first, second) = (first?, riders.second());
        let seen = std::mem::replace(&mut self.foreseen, Foreseen { first, second });
        if seen.second == second
            && let Some(group) = self.groups.get(second as usize)
            && let Some(flow) = group.flows.peek()
        {
            prefetch(flow);
        }
        let slot = self.groups[first as usize].flows.peek()?.1.slot;
        if seen.first == first {
            return Some(slot);
        }
        prefetch(&self.slots[slot as usize]);
        None
    }
}

impl Group {
    /// What a flow that starts or ends needs of it.
    #[inline]
    fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.path);
        prefetch(&self.active);
    }
}

impl<T: Copy> Network<T> {
    /// Who is due first, as far as is known; what that needs has been fetched from memory.
    #[inline]
    pub fn foresee(&mut self) -> Option<T> {
        self.core.foresee().and_then(|slot| self.tokens.get(slot as usize).copied())
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
