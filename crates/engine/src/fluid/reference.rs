//! A reference network that serves every flow on its own and finds rates by `max_min_shares` at
//! every event: simple, exact and slow. The fast network is tested against it.

use super::{Capacity, Demand, Finished, FlowId, GroupId, LinkId, LinkUse, max_min_shares};
use crate::{PS_PER_SECOND, Time};

#[derive(Debug, Clone)]
struct Flow<T> {
    id: FlowId,
    group: GroupId,
    count: u32,
    left: f64,
    token: T,
}

/// Flows over links; rates are max-min fair at every instant.
#[derive(Debug, Clone)]
pub(super) struct Reference<T> {
    now: Time,
    links: Vec<(Capacity, LinkUse)>,
    groups: Vec<Demand>,
    flows: Vec<Flow<T>>,
    started: u32,
    rates: Option<Vec<f64>>,
}

impl<T> Default for Reference<T> {
    fn default() -> Self {
        Reference {
            now: Time::ZERO,
            links: Vec::new(),
            groups: Vec::new(),
            flows: Vec::new(),
            started: 0,
            rates: None,
        }
    }
}

impl<T: Copy> Reference<T> {
    /// Creates a network without links.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a link.
    pub(super) fn link(&mut self, capacity: Capacity) -> LinkId {
        capacity.check();
        self.links.push((capacity, LinkUse::default()));
        LinkId::new(self.links.len() - 1)
    }

    /// Returns the group of all flows with this demand; equal demands share a group.
    pub(super) fn group(&mut self, demand: Demand) -> GroupId {
        let demand = demand.normal();
        let known = self.groups.iter().position(|g| g.key() == demand.key());
        GroupId(known.unwrap_or_else(|| {
            self.groups.push(demand);
            self.rates = None;
            self.groups.len() - 1
        }) as u32)
    }

    /// Starts `count` flows with `work` [unit of work] each, which finish together under one id.
    pub(super) fn start_many(
        &mut self,
        now: Time,
        group: GroupId,
        work: f64,
        count: u32,
        token: T,
    ) -> FlowId {
        self.advance(now);
        self.rates = None;
        self.started += 1;
        let id = FlowId { slot: self.started, generation: 0 };
        self.flows.push(Flow { id, group, count, left: work, token });
        id
    }

    /// Cancels a flow, or all flows that were started together under this id. Returns the work left
    /// [unit of work] of each of them; `None` if the flow has finished or was cancelled before.
    pub(super) fn cancel(&mut self, now: Time, flow: FlowId) -> Option<f64> {
        self.advance(now);
        let at = self.flows.iter().position(|f| f.id == flow)?;
        self.rates = None;
        Some(self.flows.remove(at).left)
    }

    /// Changes the capacity of a link from `now` on.
    pub(super) fn set_capacity(&mut self, now: Time, link: LinkId, capacity: Capacity) {
        capacity.check();
        self.advance(now);
        self.rates = None;
        self.links[link.index()].0 = capacity;
    }

    /// Returns the instant of the next completion, which may be the present one; `None` if no flow
    /// will finish.
    pub(super) fn next(&mut self) -> Option<Time> {
        self.solve();
        let first = self.flows.iter().map(|f| self.left_ps(f)).fold(f64::INFINITY, f64::min);
        first.is_finite().then(|| Time(self.now.0 + first as u64))
    }

    /// Removes and returns a flow that finishes at `now`, in order of start; `None` if there is no
    /// other.
    pub(super) fn finish(&mut self, now: Time) -> Option<Finished<T>> {
        self.advance(now);
        self.solve();
        let at = self.flows.iter().position(|f| self.left_ps(f) <= 0.0)?;
        let flow = self.flows.remove(at);
        self.rates = None;
        for link in 0..self.links.len() {
            self.links[link].1.served += self.uses(&flow, link) * flow.left * f64::from(flow.count);
        }
        Some(Finished { token: flow.token, flow: flow.id, count: flow.count })
    }

    /// Returns the rate of one flow of the group [unit of work/s]; zero if no flow of the group is
    /// active.
    pub(super) fn rate(&self, group: GroupId) -> f64 {
        self.rates.as_ref().map_or(0.0, |rates| rates[group.index()])
    }

    /// Returns the number of active flows of the group.
    pub(super) fn active(&self, group: GroupId) -> u32 {
        self.flows.iter().filter(|f| f.group == group).map(|f| f.count).sum()
    }

    /// Returns the usage of a link up to `now`, which must be the present instant.
    pub(super) fn usage(&self, now: Time, link: LinkId) -> LinkUse {
        assert_eq!(now, self.now);
        self.links[link.index()].1
    }

    /// Returns the time until the flow is done, rounded up [ps].
    fn left_ps(&self, flow: &Flow<T>) -> f64 {
        let rate = self.rate(flow.group);
        if flow.left <= 0.0 || (rate.is_infinite() && flow.left.is_finite()) {
            return 0.0;
        }
        if rate == 0.0 || flow.left.is_infinite() {
            f64::INFINITY
        } else {
            (flow.left / rate * PS_PER_SECOND - 1e-3).ceil().max(0.0)
        }
    }

    fn solve(&mut self) {
        if self.rates.is_some() {
            return;
        }
        let demands: Vec<(Demand, u32)> = (0..self.groups.len())
            .map(|g| (self.groups[g].clone(), self.active(GroupId(g as u32))))
            .collect();
        let capacities: Vec<f64> =
            (0..self.links.len()).map(|l| self.links[l].0.at(self.flows_on(l))).collect();
        self.rates = Some(max_min_shares(&capacities, &demands));
    }

    fn flows_on(&self, link: usize) -> u64 {
        let on = |f: &&Flow<T>| self.uses(f, link) > 0.0;
        self.flows.iter().filter(on).map(|f| u64::from(f.count)).sum()
    }

    fn uses(&self, flow: &Flow<T>, link: usize) -> f64 {
        let route = &self.groups[flow.group.index()].route;
        route.iter().find(|u| u.link.index() == link).map_or(0.0, |u| u.per_unit)
    }

    fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went backwards");
        if now == self.now {
            return;
        }
        self.solve();
        let dt = now.since(self.now).seconds();
        self.now = now;
        for at in 0..self.flows.len() {
            let rate = self.rate(self.flows[at].group);
            let done = if rate.is_finite() { rate * dt } else { 0.0 };
            self.flows[at].left -= done;
            for link in 0..self.links.len() {
                let (uses, count) = (self.uses(&self.flows[at], link), self.flows[at].count);
                let usage = &mut self.links[link].1;
                usage.served += uses * done * f64::from(count);
                usage.flow_seconds += if uses > 0.0 { dt * f64::from(count) } else { 0.0 };
            }
        }
        for link in 0..self.links.len() {
            let busy = self.flows.iter().any(|f| self.uses(f, link) > 0.0);
            self.links[link].1.busy += if busy { dt } else { 0.0 };
        }
    }
}
