//! The state of the network, and the start and cancellation of single flows. `settle` finds the rates, `finish` the flows that
//! are done.

use super::clock::Clock;
use super::group::{FlowRef, Group, UseState};
use super::indexed_heap::{HeapEntry, IndexedHeap, NONE};
use super::link::Link;
use super::{Capacity, Demand, FlowId, LinkUse};
use crate::{PS_PER_SECOND, Span, Time};
use std::collections::BTreeMap;

/// Time between two rebases of the clocks [ps]: the error of a clock is about 2^-53 of the time since its last
/// rebase.
const REBASE: u64 = 64_000_000_000_000;

/// Maximum number of times that the level of one link is computed in one call of `settle`. After that, the levels of
/// all links connected with it are computed together, by progressive filling.
const PATIENCE: u32 = 64;

/// Key of a flow that is done and has left its group's heap, but that `finish` has not returned yet.
pub(super) const DONE: f64 = f64::NEG_INFINITY;

/// A flow, or several flows that were started together. Aligned to lie in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct Slot<T> {
    /// Number of the flow in order of start; 0 if the slot is free. The lower 32 bits are the generation, which
    /// distinguishes successive flows of the slot.
    pub(super) sequence: u64,
    pub(super) key: f64,
    group: u32,
    pub(super) count: u32,
    /// Token of the caller.
    pub(super) token: T,
}

impl<T> Slot<T> {
    /// Whether the slot still holds the flow of this generation.
    #[inline]
    pub(super) fn holds(&self, generation: u32) -> bool {
        self.sequence as u32 == generation && self.sequence != 0
    }
}

/// Puts a flow into a free slot, or into a new one; returns the number of the slot.
#[inline]
fn occupy<T>(slots: &mut Vec<Slot<T>>, free: &mut Vec<u32>, flow: Slot<T>) -> u32 {
    if let Some(slot) = free.pop() {
        slots[slot as usize] = flow;
        return slot;
    }
    slots.push(flow);
    slots.len() as u32 - 1
}

/// The state of the network.
#[derive(Debug, Clone)]
pub(super) struct Core<T> {
    pub(super) now: Time,
    pub(super) links: Vec<Link>,
    pub(super) groups: Vec<Group>,
    pub(super) uses: Vec<UseState>,
    pub(super) clocks: Vec<Clock>,
    /// For each group, its place in the heap of the clock that the group rides (its home); `NONE` for a group without a
    /// home.
    pub(super) places: Vec<u32>,
    /// Clocks in order of the instant at which their first flow is due; a clock whose flows never end is not among
    /// them.
    pub(super) dues: IndexedHeap<Time>,
    /// For each clock, its place in `dues`; `NONE` if it is not there.
    due_places: Vec<u32>,
    known: BTreeMap<Box<[u64]>, u32>,
    pub(super) slots: Vec<Slot<T>>,
    pub(super) free: Vec<u32>,
    sequence: u64,
    /// Groups in which flows started or ended since the last call of `settle`.
    pub(super) dirty: Vec<u32>,
    /// Links whose level, the rate ÷ weight to which they limit groups, must be found again.
    pub(super) queue: Vec<u32>,
    pub(super) settlings: u64,
    pub(super) touched_groups: Vec<u32>,
    pub(super) touched_clocks: Vec<u32>,
    pub(super) crossed: Vec<u32>,
    pub(super) patience: u32,
    /// Sequence number and slot of each flow that is done at `now`; `finish` has returned the first `told` of them.
    pub(super) done: Vec<(u64, u32)>,
    pub(super) told: usize,
    /// Whether all flows that are due at `now` have been moved to `done` or returned.
    pub(super) swept: bool,
    pub(super) due_clocks: Vec<u32>,
    pub(super) ripe: Vec<u32>,
    rebased: Time,
    /// Whether an idle network counts as rebased, so that rounding errors do not depend on what came before.
    pub(super) forgets: bool,
    pub(super) cancelled_at: Time,
}

impl<T: Copy> Core<T> {
    pub(super) fn new() -> Self {
        Core {
            now: Time::ZERO,
            links: Vec::new(),
            groups: Vec::new(),
            uses: Vec::new(),
            clocks: Vec::new(),
            places: Vec::new(),
            dues: IndexedHeap::default(),
            due_places: Vec::new(),
            known: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            dirty: Vec::new(),
            queue: Vec::new(),
            settlings: 0,
            touched_groups: Vec::new(),
            touched_clocks: Vec::new(),
            crossed: Vec::new(),
            patience: PATIENCE,
            done: Vec::new(),
            told: 0,
            swept: false,
            due_clocks: Vec::new(),
            ripe: Vec::new(),
            rebased: Time::ZERO,
            forgets: false,
            cancelled_at: Time::NEVER,
        }
    }

    pub(super) fn link(&mut self, capacity: Capacity) -> u32 {
        let clock = self.clock(f64::INFINITY);
        self.links.push(Link::new(capacity, clock));
        self.links.len() as u32 - 1
    }

    pub(super) fn clock(&mut self, rate: f64) -> u32 {
        self.clocks.push(Clock::new(rate));
        self.due_places.push(NONE);
        self.clocks.len() as u32 - 1
    }

    pub(super) fn group(&mut self, demand: Demand) -> u32 {
        let demand = demand.normal();
        if let Some(&known) = self.known.get(&demand.key()) {
            return known;
        }
        let (id, first) = (self.groups.len() as u32, self.uses.len() as u32);
        for u in &demand.route {
            let load = u.per_unit * demand.weight;
            self.links[u.link.index()].users.push((id, u.per_unit));
            self.uses.push(UseState {
                group: id,
                link: u.link.0,
                load,
                member: NONE,
                coupled: NONE,
                tied: false,
            });
        }
        let ceiling = demand.cap / demand.weight / PS_PER_SECOND;
        let clock = self.clock(ceiling);
        let uses = first..self.uses.len() as u32;
        self.groups.push(Group::new(demand.weight, ceiling, uses, clock));
        self.places.push(NONE);
        self.known.insert(demand.key(), id);
        id
    }

    #[inline]
    pub(super) fn start(
        &mut self,
        now: Time,
        group: u32,
        work: f64,
        count: u32,
        token: T,
    ) -> FlowId {
        assert!(work >= 0.0, "work is not negative");
        assert!(count > 0, "there is a flow to start");
        self.reach(now);
        self.sequence += 1;
        let sequence = self.sequence;
        let g = &mut self.groups[group as usize];
        let value = g.value(&self.clocks, now);
        let key = value + work * (1.0 / g.weight);
        let flow = Slot { sequence, key, group, count, token };
        let slot = occupy(&mut self.slots, &mut self.free, flow);
        let flow = FlowId { slot, generation: sequence as u32 };
        if work == 0.0 {
            self.slots[slot as usize].key = DONE;
            self.done.push((sequence, slot));
            return flow;
        }
        g.flows.push(key, FlowRef { slot, generation: flow.generation });
        g.count_in(now, value, count);
        if g.mark() {
            self.dirty.push(group);
        }
        flow
    }

    /// Returns the group's value at the present instant: work done per flow and weight since its origin.
    #[inline]
    pub(super) fn value(&self, group: u32) -> f64 {
        self.value_at(self.now, group)
    }

    #[inline]
    fn value_at(&self, now: Time, group: u32) -> f64 {
        self.groups[group as usize].value(&self.clocks, now)
    }

    /// Whether groups or links have changed since the last call of `settle`, so that rates must be found again.
    #[inline]
    pub(super) fn unsettled(&self) -> bool {
        !self.dirty.is_empty() || !self.queue.is_empty()
    }

    /// Moves time on to `now`.
    #[inline]
    pub(super) fn reach(&mut self, now: Time) {
        if now != self.now {
            self.pass(now);
        }
    }

    fn pass(&mut self, now: Time) {
        assert!(now > self.now, "time went backwards");
        if self.unsettled() {
            self.settle();
        }
        assert!(
            self.told == self.done.len() && now <= self.first_due(),
            "a completion was skipped"
        );
        self.now = now;
        self.swept = false;
        if self.forgets && self.is_idle() {
            self.rebased = now;
        } else if now.since(self.rebased).0 >= REBASE {
            self.rebase();
        }
    }

    /// Whether no flow is in progress.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Returns the time since the last rebase if what flows do from `now` on may depend on it, by rounding errors; `None` if the
    /// network has been idle.
    pub(super) fn memory(&self, now: Time) -> Option<Span> {
        let rests = self.forgets && self.is_idle() && !self.unsettled() && now > self.now;
        (!rests).then(|| now.since(self.rebased))
    }

    /// Whether some flows are done but have not been returned by `finish` yet.
    #[inline]
    pub(super) fn has_finished(&self) -> bool {
        self.told < self.done.len()
    }

    pub(super) fn next(&mut self) -> Option<Time> {
        if self.has_finished() {
            return Some(self.now);
        }
        if self.unsettled() {
            self.settle();
        }
        let next = self.first_due();
        (next != Time::NEVER).then_some(next)
    }

    /// Returns the instant at which the next flow is due; `Time::NEVER` if none is.
    #[inline]
    pub(super) fn first_due(&self) -> Time {
        self.dues.first()
    }

    /// Records in `dues` that the first flow of `clock` is due at `due`, or never.
    #[inline]
    pub(super) fn set_due(&mut self, clock: u32, due: Time) {
        let known = self.due_places[clock as usize] != NONE;
        let entry = HeapEntry::new(due, clock, NONE);
        match (known, due == Time::NEVER) {
            (true, false) => self.dues.update(&mut self.due_places, entry),
            (false, false) => self.dues.insert(&mut self.due_places, entry),
            (true, true) => self.dues.remove(&mut self.due_places, clock),
            (false, true) => {}
        }
    }

    /// Iterates over all flows that `finish` has not returned, with their tokens, in no particular order.
    pub(super) fn flows(&self) -> impl Iterator<Item = (FlowId, &T)> {
        let live = self.slots.iter().zip(0..).filter(|(slot, _)| slot.sequence != 0);
        live.map(|(of, slot)| (FlowId { slot, generation: of.sequence as u32 }, &of.token))
    }

    /// Cancels a flow; returns its work left, or `None` if the id is no longer valid.
    pub(super) fn cancel(&mut self, now: Time, flow: FlowId) -> Option<f64> {
        self.reach(now);
        let s = *self.slots.get(flow.slot as usize)?;
        if !s.holds(flow.generation) {
            return None;
        }
        self.slots[flow.slot as usize].sequence = 0;
        self.free.push(flow.slot);
        self.cancelled_at = now;
        if s.key == DONE {
            return Some(0.0);
        }
        let value = self.value(s.group);
        let g = &mut self.groups[s.group as usize];
        g.count_out(now, value, s.count);
        g.cancelled += 1;
        if 2 * g.cancelled as usize > g.flows.len() + 16 {
            let slots = &self.slots;
            g.flows.retain(|(_, flow)| slots[flow.slot as usize].holds(flow.generation));
            g.cancelled = 0;
        }
        let left = (s.key - value) * g.weight;
        if g.mark() {
            self.dirty.push(s.group);
        }
        Some(left.max(0.0))
    }

    /// Returns the smallest key of the group's flows, and drops cancelled flows before it from the heap; infinite if
    /// the group has no flow.
    #[inline]
    pub(super) fn head(&mut self, group: u32) -> f64 {
        let g = &self.groups[group as usize];
        if g.cancelled > 0 {
            return self.head_among_cancelled(group);
        }
        g.flows.peek().map_or(f64::INFINITY, |first| first.0)
    }

    fn head_among_cancelled(&mut self, group: u32) -> f64 {
        let g = &mut self.groups[group as usize];
        while let Some(&(key, flow)) = g.flows.peek() {
            if self.slots[flow.slot as usize].holds(flow.generation) {
                return key;
            }
            g.flows.pop();
            g.cancelled -= 1;
        }
        f64::INFINITY
    }

    /// Returns the group's level (rate ÷ weight) as of the last call of `settle` [1/ps]; zero if it had no active
    /// flow.
    pub(super) fn level(&self, group: u32) -> f64 {
        let g = &self.groups[group as usize];
        if g.home == NONE { 0.0 } else { self.clocks[g.home as usize].rate() }
    }

    pub(super) fn usage(&self, now: Time, link: u32) -> LinkUse {
        assert!(now == self.now || !self.unsettled(), "rates are not known yet");
        let link = &self.links[link as usize];
        let (mut served, mut flow_seconds) = (0.0, 0.0);
        for &(group, per_unit) in &link.users {
            let (work, ps) = self.groups[group as usize].done(now, self.value_at(now, group));
            served += per_unit * work;
            flow_seconds += ps / PS_PER_SECOND;
        }
        link.usage(now, served, flow_seconds)
    }

    /// Moves the origin of every clock and every group to its present value.
    #[cold]
    pub(super) fn rebase(&mut self) {
        self.rebased = self.now;
        for at in 0..self.groups.len() as u32 {
            let value = self.value(at);
            let g = &mut self.groups[at as usize];
            if g.home == NONE {
                continue;
            }
            g.rebase(value);
            let to = |key: f64| (key - value).max(0.0);
            g.flows.rekey(to);
            g.head = to(g.head);
            for (key, flow) in g.flows.as_slice() {
                let s = &mut self.slots[flow.slot as usize];
                if s.holds(flow.generation) {
                    s.key = *key;
                }
            }
        }
        for clock in &mut self.clocks {
            let groups = &self.groups;
            clock.rebase(self.now, &mut self.places, |group| groups[group as usize].head);
        }
    }
}
