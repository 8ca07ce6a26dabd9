//! A group: all flows of one demand. They progress alike, so a flow is a key that never changes:
//! the group's work per flow and weight at its start, plus its own.

use super::clock::Clock;
use super::core::{DONE, Slot};
use super::indexed_heap::{HeapEntry, NONE};
use crate::{Heap, Time};

/// A flow in its group's heap. Those of equal key are told in order of start, which their slots
/// know.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowRef {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// A group at one of its links. Aligned to lie in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct UseState {
    pub(super) group: u32,
    pub(super) link: u32,
    /// Capacity used per level, by one flow.
    pub(super) load: f64,
    /// Place among the link's members.
    pub(super) member: u32,
    /// Place among the link's coupled uses.
    pub(super) coupled: u32,
    /// Listed among the link's tied uses.
    pub(super) tied: bool,
}

/// What is known of a group's route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// Nothing: it is to be looked at again.
    Unknown,
    /// At most one link is contended, and no capacity depends on the number of flows: what limits the group
    /// follows from its number of flows and the level of that link.
    Plain,
    /// The same, and with few flows the cap may be what limits it.
    Capped,
    Other,
}

/// What limits a group on a plain route. To be found again when a link begins or ceases to be contended.
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
    /// Of a route without links.
    pub(super) const FREE: Path =
        Path { limit: f64::INFINITY, load: 1.0, clock: NONE, hub: NONE, hub_load: 0.0 };
}

/// All flows of one demand. Laid out so that the usual changes fetch two cache lines of it.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Group {
    /// Flows under their keys.
    pub(super) flows: Heap<f64, FlowRef>,
    /// Own value minus the value of the clock.
    pub(super) offset: f64,
    /// Key under which the home knows the first flow.
    pub(super) head: f64,
    /// The clock that it rides.
    pub(super) home: u32,
    /// Place among the members of the path's hub.
    pub(super) member: u32,
    /// Active flows.
    pub(super) active: u32,
    /// Active flows as far as the links know.
    pub(super) settled: u32,
    /// Cancelled flows that are still in the heap.
    pub(super) cancelled: u32,
    pub(super) dirty: bool,
    pub(super) touched: bool,
    /// The links that the group has alone are yet to be told how many flows are active.
    pub(super) stale: bool,
    pub(super) route: Route,
    /// What it has done: what each flow had at its end, less what it had at its start, so that only starts
    /// and ends change it. Of the time [ps].
    flow_ps: i128,
    /// The same of the group's value, times weight.
    work: f64,
    pub(super) weight: f64,
    pub(super) path: Path,
    /// The level of the cap [1/ps].
    pub(super) ceiling: f64,
    /// The clock that runs at the ceiling.
    pub(super) clock: u32,
    /// Its use of the path's hub.
    pub(super) hub: u32,
    /// Its uses, in the network's list.
    pub(super) uses: std::ops::Range<u32>,
    /// Links of the route where several groups compete.
    pub(super) contended: u32,
    /// How often the links of the route had begun or ceased to be contended when the path was found.
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

    /// The group's own value at `now`: work per flow and weight since its origin.
    #[inline]
    pub(super) fn value(&self, clocks: &[Clock], now: Time) -> f64 {
        if self.home == NONE { 0.0 } else { clocks[self.home as usize].at(now) + self.offset }
    }

    /// Notes that flows started or left; whether that is news.
    #[inline]
    pub(super) fn mark(&mut self) -> bool {
        !std::mem::replace(&mut self.dirty, true)
    }

    /// The first key in the heap by the value of the clock; infinite if there is none.
    #[inline]
    pub(super) fn head_on_clock(&self) -> f64 {
        self.flows.peek().map_or(f64::INFINITY, |first| first.0 - self.offset)
    }

    /// Moves the flows that are done at `now`, where the clock's keys up to `limit` are due, from the
    /// heap to `done`.
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

    /// The group, number `id`, as its home knows it.
    #[inline]
    pub(super) fn entry(&self, id: u32) -> HeapEntry<f64> {
        let slot = self.flows.peek().map_or(NONE, |(_, first)| first.slot);
        HeapEntry::new(self.head - self.offset, id, slot)
    }

    /// Files the group, number `id`, under its first flow on the clock that it rides; no cancelled
    /// flow is in the heap.
    #[inline]
    pub(super) fn follow_head(&mut self, id: u32, home: &mut Clock, places: &mut [u32]) {
        let head = self.flows.peek().map_or(f64::INFINITY, |first| first.0);
        if head != self.head {
            self.head = head;
            home.entries.update(places, self.entry(id));
        }
    }

    /// What `flows` flows reach beside the contended link of a plain path, and on which clock.
    #[inline]
    pub(super) fn beside(&self, flows: f64) -> (f64, u32) {
        let alone = self.path.limit / (self.path.load * flows);
        if self.route == Route::Capped && alone >= self.ceiling {
            return (self.ceiling, self.clock);
        }
        (alone, self.path.clock)
    }

    /// So many flows start, where the group's own value is `value`.
    #[inline]
    pub(super) fn count_in(&mut self, now: Time, value: f64, flows: u32) {
        self.active += flows;
        self.work -= f64::from(flows) * self.weight * value;
        self.flow_ps -= i128::from(now.0) * i128::from(flows);
    }

    /// So many flows end, which have come to `value`.
    #[inline]
    pub(super) fn count_out(&mut self, now: Time, value: f64, flows: u32) {
        self.active -= flows;
        self.work += f64::from(flows) * self.weight * value;
        self.flow_ps += i128::from(now.0) * i128::from(flows);
    }

    /// Work done and flow-picoseconds up to `now`, when the group's own value is `value`.
    pub(super) fn done(&self, now: Time, value: f64) -> (f64, f64) {
        let flow_ps = self.flow_ps + i128::from(now.0) * i128::from(self.active);
        (self.work + f64::from(self.active) * self.weight * value, flow_ps as f64)
    }

    /// The group's own value, now `value`, is counted from a new origin.
    pub(super) fn rebase(&mut self, value: f64) {
        self.offset = 0.0;
        self.work += f64::from(self.active) * self.weight * value;
    }
}
