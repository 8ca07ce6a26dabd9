//! A group: all flows with one demand. They all have one rate, so a flow is stored as a key that never changes: the
//! group's value (work per flow and weight) at the flow's start, plus the flow's own work ÷ weight.

use super::clock::Clock;
use super::core::{DONE, Slot};
use super::indexed_heap::{HeapEntry, NONE};
use crate::{Heap, Time};

/// A flow in its group's heap. Flows with equal keys are returned in order of start, which is stored in their slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowRef {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// State of a group at one link of its route. Aligned to lie in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct UseState {
    pub(super) group: u32,
    pub(super) link: u32,
    /// Capacity that one flow uses per unit of level.
    pub(super) load: f64,
    /// Place among the link's members; `NONE` while the group is inactive.
    pub(super) member: u32,
    /// Place in the link's list of coupled uses, whose groups have another contended link; `NONE` if the use is not
    /// coupled.
    pub(super) coupled: u32,
    /// Whether this link and the rest of the route limit the group equally, up to rounding; the use is then in the
    /// link's list of tied uses.
    pub(super) tied: bool,
}

/// What is known about a group's route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// A route that must be examined again.
    Unknown,
    /// A route with at most one contended link, and without capacities that depend on the number of flows. What
    /// limits the group follows from its number of flows and the level of that link.
    Plain,
    /// A plain route on which the cap may limit the group when it has few flows.
    Capped,
    Other,
}

/// What can limit a group on a plain route. It must be found again when a link begins or ceases to be contended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// The tightest of the links that the group has alone: its capacity [unit/ps], the capacity
    /// used per level by one flow, and its clock.
    pub(super) limit: f64,
    pub(super) load: f64,
    pub(super) clock: u32,
    /// The contended link, if there is one, and the capacity used there per level by one flow.
    pub(super) hub: u32,
    pub(super) hub_load: f64,
}

impl Path {
    /// The path of a route without links.
    pub(super) const FREE: Path =
        Path { limit: f64::INFINITY, load: 1.0, clock: NONE, hub: NONE, hub_load: 0.0 };
}

/// All flows of one demand. The fields that the usual changes need lie in the first two cache lines.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Group {
    /// The flows, ordered by key.
    pub(super) flows: Heap<f64, FlowRef>,
    /// The group's value minus the value of its home, the clock that it rides.
    pub(super) offset: f64,
    /// Key of the group's first flow, as last filed in the heap of the home.
    pub(super) head: f64,
    /// The clock that the group rides; `NONE` while it is inactive.
    pub(super) home: u32,
    /// The group's place among the members of its path's hub, the contended link.
    pub(super) member: u32,
    /// Number of active flows.
    pub(super) active: u32,
    /// Number of active flows with which the links calculate; it is updated when the group is settled.
    pub(super) settled: u32,
    /// Number of cancelled flows that are still in the heap.
    pub(super) cancelled: u32,
    pub(super) dirty: bool,
    pub(super) touched: bool,
    /// Whether the uncontended links of the route have yet to be updated to the group's number of active flows.
    pub(super) stale: bool,
    pub(super) route: Route,
    /// Account of the time that flows were active [flow·ps]: each flow adds the instant of its end minus the instant
    /// of its start, so that only starts and ends change it.
    flow_ps: i128,
    /// Account of the work done: each flow adds the group's value at its end minus the value at its start, times
    /// weight.
    work: f64,
    pub(super) weight: f64,
    pub(super) path: Path,
    /// The level that the cap allows, cap ÷ weight [1/ps].
    pub(super) ceiling: f64,
    /// The clock that runs at the ceiling.
    pub(super) clock: u32,
    /// The group's use of the path's hub; `NONE` without a hub.
    pub(super) hub: u32,
    /// The group's uses, in the network's list of uses.
    pub(super) uses: std::ops::Range<u32>,
    /// Number of contended links of which the group is a member.
    pub(super) contended: u32,
    /// Sum of the `turns` of the route's links when the path was found; if it differs now, the path is outdated.
    pub(super) turns: u64,
}

const _: () = assert!(std::mem::offset_of!(Group, ceiling) == 128, "two cache lines of 64 bytes");

impl Group {
    pub(super) fn new(weight: f64, ceiling: f64, uses: std::ops::Range<u32>, clock: u32) -> Group {
        Group {
            flows: Heap::new(),
            offset: 0.0,
            head: f64::INFINITY,
            home: NONE,
            member: NONE,
            active: 0,
            settled: 0,
            cancelled: 0,
            dirty: false,
            touched: false,
            stale: false,
            route: Route::Unknown,
            flow_ps: 0,
            work: 0.0,
            weight,
            path: Path::FREE,
            ceiling,
            clock,
            hub: NONE,
            uses,
            contended: 0,
            turns: 0,
        }
    }

    /// Returns the group's value at `now`: work done per flow and weight since its origin; 0 while it is inactive.
    #[inline]
    pub(super) fn value(&self, clocks: &[Clock], now: Time) -> f64 {
        if self.home == NONE { 0.0 } else { clocks[self.home as usize].at(now) + self.offset }
    }

    /// Marks the group as dirty; returns whether it was not dirty before.
    #[inline]
    pub(super) fn mark(&mut self) -> bool {
        !std::mem::replace(&mut self.dirty, true)
    }

    /// Returns the value that the group's clock (its home) has when the first flow in the heap is done; infinite if
    /// the heap is empty.
    #[inline]
    pub(super) fn head_on_clock(&self) -> f64 {
        self.flows.peek().map_or(f64::INFINITY, |first| first.0 - self.offset)
    }

    /// Moves all flows that are done at `now` from the heap to `done`. `limit` is the greatest value of the home at
    /// which a flow counts as done.
    #[inline]
    pub(super) fn sweep<T>(
        &mut self,
        now: Time,
        limit: f64,
        slots: &mut [Slot<T>],
        done: &mut Vec<(u64, u32)>,
    ) {
        while let Some(&(key, ticket)) =
            self.flows.peek().filter(|(key, _)| key - self.offset <= limit)
        {
            self.flows.pop();
            let slot = &mut slots[ticket.slot as usize];
            if !slot.holds(ticket.generation) {
                self.cancelled -= 1;
                continue;
            }
            slot.key = DONE;
            self.count_out(now, key, slot.count);
            done.push((slot.sequence, ticket.slot));
        }
    }

    /// Returns the entry of the group, whose number is `id`, for the heap of its clock (its home).
    #[inline]
    pub(super) fn entry(&self, id: u32) -> HeapEntry<f64> {
        let slot = self.flows.peek().map_or(NONE, |(_, first)| first.slot);
        HeapEntry::new(self.head - self.offset, id, slot)
    }

    /// Files the group, whose number is `id`, at its home under its first flow. The heap must hold no cancelled flow.
    #[inline]
    pub(super) fn follow_head(&mut self, id: u32, home: &mut Clock, places: &mut [u32]) {
        let head = self.flows.peek().map_or(f64::INFINITY, |first| first.0);
        if head != self.head {
            self.head = head;
            home.entries.update(places, self.entry(id));
        }
    }

    /// Returns the level that `flows` flows reach on a plain route if its hub, the contended link, is left out, and
    /// the clock of the link or cap that limits them.
    #[inline]
    pub(super) fn beside(&self, flows: f64) -> (f64, u32) {
        let alone = self.path.limit / (self.path.load * flows);
        if self.route == Route::Capped && alone >= self.ceiling {
            return (self.ceiling, self.clock);
        }
        (alone, self.path.clock)
    }

    /// Counts `flows` flows that start at `now`, when the group's value is `value`.
    #[inline]
    pub(super) fn count_in(&mut self, now: Time, value: f64, flows: u32) {
        self.active += flows;
        self.work -= f64::from(flows) * self.weight * value;
        self.flow_ps -= i128::from(now.0) * i128::from(flows);
    }

    /// Counts `flows` flows that end at `now` and were served up to the group's value `value`.
    #[inline]
    pub(super) fn count_out(&mut self, now: Time, value: f64, flows: u32) {
        self.active -= flows;
        self.work += f64::from(flows) * self.weight * value;
        self.flow_ps += i128::from(now.0) * i128::from(flows);
    }

    /// Returns the work done and the flow-picoseconds up to `now`, when the group's value is `value`.
    pub(super) fn done(&self, now: Time, value: f64) -> (f64, f64) {
        let flow_ps = self.flow_ps + i128::from(now.0) * i128::from(self.active);
        (self.work + f64::from(self.active) * self.weight * value, flow_ps as f64)
    }

    /// Moves the origin of the group to its present value, which is `value`.
    pub(super) fn rebase(&mut self, value: f64) {
        self.offset = 0.0;
        self.work += f64::from(self.active) * self.weight * value;
    }
}
