//! The network as its users see it.

use super::core::Core;
use super::{Capacity, Demand, Finished, FlowId, GroupId, LinkId, LinkUse};
use crate::{PS_PER_SECOND, Time};

/// Flows over links; rates are weighted max-min fair at every instant.
///
/// Time is given with every call and never goes back. `next` says when a flow finishes next,
/// and must be asked again after every change; when that instant comes, `finish` is called
/// until it gives none.
#[derive(Debug, Clone)]
pub struct Network<T> {
    pub(super) core: Core<T>,
}

impl<T: Copy> Default for Network<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> Network<T> {
    /// A network without links.
    pub fn new() -> Self {
        Network { core: Core::new() }
    }

    /// Adds a link.
    pub fn link(&mut self, capacity: Capacity) -> LinkId {
        capacity.check();
        LinkId(self.core.link(capacity))
    }

    /// The group of all flows with this demand; equal demands share a group.
    pub fn group(&mut self, demand: Demand) -> GroupId {
        GroupId(self.core.group(demand))
    }

    /// Starts a flow with `work` [unit of work] to do.
    ///
    /// Infinite work never ends. A flow without work, or one that nothing limits, finishes at
    /// `now`.
    #[inline]
    pub fn start(&mut self, now: Time, group: GroupId, work: f64, token: T) -> FlowId {
        self.start_many(now, group, work, 1, token)
    }

    /// Starts `count` flows with `work` [unit of work] each, which finish as one.
    #[inline]
    pub fn start_many(
        &mut self,
        now: Time,
        group: GroupId,
        work: f64,
        count: u32,
        token: T,
    ) -> FlowId {
        self.core.start(now, group.0, work, count, token)
    }

    /// Stops a flow; gives the work left [unit of work] of each of the flows that started as
    /// this one, or none if it has finished or was cancelled before.
    pub fn cancel(&mut self, now: Time, flow: FlowId) -> Option<f64> {
        self.core.cancel(now, flow)
    }

    /// Stops all flows for whose token `is` holds; how many.
    #[cold]
    pub fn cancel_all(&mut self, now: Time, is: impl Fn(&T) -> bool) -> usize {
        let flows = self.core.flows();
        let of: Vec<FlowId> = flows.filter(|(_, token)| is(token)).map(|(flow, _)| flow).collect();
        of.iter().filter(|flow| self.core.cancel(now, **flow).is_some()).count()
    }

    /// How many links there are.
    pub fn links(&self) -> usize {
        self.core.links.len()
    }

    /// Links that a demand names, as often as it is named.
    pub fn used_links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.core.uses.iter().map(|of| LinkId(of.link))
    }

    /// What a link can carry.
    pub fn capacity(&self, link: LinkId) -> &Capacity {
        self.core.links[link.index()].capacity()
    }

    /// Changes what a link can carry from `now` on.
    pub fn set_capacity(&mut self, now: Time, link: LinkId, capacity: Capacity) {
        capacity.check();
        self.core.reach(now);
        self.core.set_capacity(link.0, capacity);
    }

    /// The instant of the next completion, which may be the present one.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the next instant, not an iterator's item")]
    pub fn next(&mut self) -> Option<Time> {
        self.core.next()
    }

    /// A flow that finishes at `now`; those of one instant in order of start. Gives none when
    /// all that `next` announced have been told.
    #[inline(always)]
    pub fn finish(&mut self, now: Time) -> Option<Finished<T>> {
        self.core.finish(now)
    }

    /// Whether flows are known to be done that `finish` has yet to tell.
    #[inline]
    pub fn has_finished(&self) -> bool {
        self.core.has_finished()
    }

    /// Rate of one flow of the group [unit of work/s], as of the last `next`; zero if none was
    /// active then.
    pub fn rate(&self, group: GroupId) -> f64 {
        self.core.level(group.0) * self.core.groups[group.index()].weight * PS_PER_SECOND
    }

    /// Active flows of the group; those without work never are.
    pub fn active(&self, group: GroupId) -> u32 {
        self.core.groups[group.index()].active
    }

    /// What a link has done up to `now`, to be asked when no change has been made since the
    /// last `next`, or at the instant of that change.
    pub fn usage(&self, now: Time, link: LinkId) -> LinkUse {
        self.core.usage(now, link.0)
    }

    /// The inside, for tests that set a limit or force a rebase.
    #[cfg(test)]
    pub(super) fn core_for_test(&mut self) -> &mut Core<T> {
        &mut self.core
    }
}
