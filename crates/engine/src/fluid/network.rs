//! The public interface of the fluid network.

use super::core::Core;
use super::{Capacity, Demand, Finished, FlowId, GroupId, LinkId, LinkUse};
use crate::{PS_PER_SECOND, Span, Time};

/// Flows over links; rates are weighted max-min fair at every instant.
///
/// Every call that changes the network takes the present instant, which never goes back. `next`
/// returns the instant of the next completion and must be called again after every change. At that
/// instant the caller calls `finish` until it returns `None`.
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
    /// Creates a network without links.
    pub fn new() -> Self {
        Network { core: Core::new() }
    }

    /// Adds a link.
    pub fn link(&mut self, capacity: Capacity) -> LinkId {
        capacity.check();
        LinkId(self.core.link(capacity))
    }

    /// Returns the group of all flows with this demand; equal demands share a group.
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

    /// Starts `count` flows with `work` [unit of work] each, which finish together under one id.
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

    /// Cancels a flow, or all flows that were started together under this id. Returns the work left
    /// [unit of work] of each of them; `None` if the flow has finished or was cancelled before.
    pub fn cancel(&mut self, now: Time, flow: FlowId) -> Option<f64> {
        self.core.cancel(now, flow)
    }

    /// Cancels all flows whose token fulfils `is`; returns their number, where flows that were
    /// started together count as one.
    #[cold]
    pub fn cancel_all(&mut self, now: Time, mut is: impl FnMut(&T) -> bool) -> usize {
        let flows = self.core.flows();
        let of: Vec<FlowId> = flows.filter(|(_, token)| is(token)).map(|(flow, _)| flow).collect();
        of.iter().filter(|flow| self.core.cancel(now, **flow).is_some()).count()
    }

    /// Returns the number of flows in progress whose tokens satisfy `is`.
    pub fn count(&self, is: impl Fn(&T) -> bool) -> usize {
        self.core.flows().filter(|(_, token)| is(token)).count()
    }

    /// Whether no flow is in progress.
    pub fn is_idle(&self) -> bool {
        self.core.is_idle()
    }

    /// Lets completions depend on nothing that came before the network was last idle, not even by rounding errors.
    pub fn forget_when_idle(&mut self) {
        self.core.forgets = true;
    }

    /// Returns a span on which the rounding errors of flows that start at `now` or later may depend; `None` if they depend on
    /// these flows alone, because the network has been idle.
    pub fn memory(&self, now: Time) -> Option<Span> {
        self.core.memory(now)
    }

    /// Returns the number of links.
    pub fn links(&self) -> usize {
        self.core.links.len()
    }

    /// Iterates over the links of all demands; a link comes once for each demand that uses it.
    pub fn used_links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.core.uses.iter().map(|of| LinkId(of.link))
    }

    /// Returns the capacity of a link.
    pub fn capacity(&self, link: LinkId) -> &Capacity {
        self.core.links[link.index()].capacity()
    }

    /// Changes the capacity of a link from `now` on.
    pub fn set_capacity(&mut self, now: Time, link: LinkId, capacity: Capacity) {
        capacity.check();
        self.core.reach(now);
        self.core.set_capacity(link.0, capacity);
    }

    /// Returns the instant of the next completion, which may be the present one; `None` if no flow
    /// will finish.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the next instant, not an iterator's item")]
    pub fn next(&mut self) -> Option<Time> {
        self.core.next()
    }

    /// Removes and returns a flow that finishes at `now`; flows of one instant come in order of
    /// start. `None` once all flows that finish at `now` have been returned.
    #[inline(always)]
    pub fn finish(&mut self, now: Time) -> Option<Finished<T>> {
        self.core.finish(now)
    }

    /// Whether some flows are known to be finished but have not been returned by `finish` yet.
    #[inline]
    pub fn has_finished(&self) -> bool {
        self.core.has_finished()
    }

    /// Returns the rate of one flow of the group [unit of work/s], as of the last `next`; zero if
    /// the group had no active flow then.
    pub fn rate(&self, group: GroupId) -> f64 {
        self.core.level(group.0) * self.core.groups[group.index()].weight * PS_PER_SECOND
    }

    /// Returns the number of active flows of the group; flows without work are never active.
    pub fn active(&self, group: GroupId) -> u32 {
        self.core.groups[group.index()].active
    }

    /// Returns the usage of a link up to `now`. If the network was changed since the last `next`,
    /// `now` must be the instant of that change.
    pub fn usage(&self, now: Time, link: LinkId) -> LinkUse {
        self.core.usage(now, link.0)
    }

    /// Returns the inner state, for tests that set `patience`, force a rebase or look at cohorts.
    #[cfg(test)]
    pub(super) fn core_for_test(&mut self) -> &mut Core<T> {
        &mut self.core
    }
}
