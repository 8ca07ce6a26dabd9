//! A group: all flows of one demand. They progress alike, so a flow is a key that never changes:
//! the group's work per flow and weight at its start, plus its own.

use super::clock::Clock;
use super::core::{DONE, Slot};
use super::riders::NONE;
use crate::engine::{Heap, Time};

/// A flow in its group's heap. Those of equal key are told in order of start, which their slots
/// know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// A group at one of its links.
#[derive(Debug, Clone, Copy)]
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

/// A route where at most one link is contended: what limits a group there follows from its number
/// of flows and the level of that link. To be found again when that changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) known: bool,
    /// How often its links had begun or ceased to be contended when it was found.
    pub(super) turns: u64,
    /// The route is of this kind, and no capacity on it depends on the number of flows.
    pub(super) plain: bool,
    /// The use of the contended link, if there is one.
    pub(super) hub: u32,
    /// The tightest of the links that the group has alone: its capacity [unit/ps], the capacity
    /// used per level by one flow, and its clock.
    pub(super) limit: f64,
    pub(super) load: f64,
    pub(super) clock: u32,
}

impl Path {
    pub(super) const UNKNOWN: Path = Path {
        known: false,
        turns: 0,
        plain: false,
        hub: NONE,
        limit: f64::INFINITY,
        load: 1.0,
        clock: NONE,
    };
}

/// All flows of one demand. Aligned, because a group is all that most changes have to fetch.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Group {
    pub(super) weight: f64,
    pub(super) per_weight: f64,
    /// The level of the cap [1/ps].
    pub(super) ceiling: f64,
    /// Its uses, in the network's list.
    pub(super) uses: std::ops::Range<u32>,
    /// Links of the route where several groups compete.
    pub(super) contended: u32,
    /// The clock that runs at the ceiling.
    pub(super) clock: u32,
    /// The clock that it rides.
    pub(super) home: u32,
    /// Own value minus the value of the clock.
    pub(super) offset: f64,
    /// Key under which the home knows the first flow.
    pub(super) head: f64,
    /// Flows under their keys.
    pub(super) flows: Heap<f64, Ticket>,
    /// Cancelled flows that are still in the heap.
    pub(super) cancelled: u32,
    /// Active flows.
    pub(super) active: u32,
    /// Active flows as far as the links know.
    pub(super) settled: u32,
    pub(super) dirty: bool,
    pub(super) touched: bool,
    /// The links that the group has alone are yet to be told how many flows are active.
    pub(super) stale: bool,
    pub(super) path: Path,
    tally: Tally,
}

/// What a group has done: what each flow had at its end, less what it had at its start, so that only
/// starts and ends change it.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Of the group's value, times weight.
    work: f64,
    /// Of the time [ps].
    flow_ps: i128,
}

impl Group {
    pub(super) fn new(weight: f64, ceiling: f64, uses: std::ops::Range<u32>, clock: u32) -> Group {
        Group {
            weight,
            per_weight: 1.0 / weight,
            ceiling,
            uses,
            contended: 0,
            clock,
            home: NONE,
            offset: 0.0,
            head: f64::INFINITY,
            flows: Heap::new(),
            cancelled: 0,
            active: 0,
            settled: 0,
            dirty: false,
            touched: false,
            stale: false,
            path: Path::UNKNOWN,
            tally: Tally::default(),
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

    /// Moves the flows that are done at `now`, where the clock's keys up to `limit` are due, from the
    /// heap to `done`.
    #[inline]
    pub(super) fn sweep(
        &mut self,
        now: Time,
        limit: f64,
        slots: &mut [Slot],
        done: &mut Vec<(u64, u32)>,
    ) {
        while let Some(&(key, ticket)) =
            self.flows.peek().filter(|(key, _)| key - self.offset <= limit)
        {
            self.flows.pop();
            let slot = &mut slots[ticket.slot as usize];
            if slot.generation != ticket.generation {
                self.cancelled -= 1;
                continue;
            }
            slot.key = DONE;
            self.count_out(now, key, slot.count);
            done.push((slot.sequence, ticket.slot));
        }
    }

    /// Files the group, number `id`, under its first flow on the clock that it rides; no cancelled
    /// flow is in the heap.
    #[inline]
    pub(super) fn follow_head(&mut self, id: u32, home: &mut Clock, places: &mut [u32]) {
        let head = self.flows.peek().map_or(f64::INFINITY, |first| first.0);
        if head != self.head {
            self.head = head;
            home.riders.update(places, id, head - self.offset);
        }
    }

    /// What `flows` flows reach beside the contended link of a plain path, and on which clock.
    #[inline]
    pub(super) fn beside(&self, flows: f64) -> (f64, u32) {
        let alone = self.path.limit / (self.path.load * flows);
        if alone < self.ceiling { (alone, self.path.clock) } else { (self.ceiling, self.clock) }
    }

    /// So many flows start, where the group's own value is `value`.
    #[inline]
    pub(super) fn count_in(&mut self, now: Time, value: f64, flows: u32) {
        self.active += flows;
        self.tally.work -= f64::from(flows) * self.weight * value;
        self.tally.flow_ps -= i128::from(now.0) * i128::from(flows);
    }

    /// So many flows end, which have come to `value`.
    #[inline]
    pub(super) fn count_out(&mut self, now: Time, value: f64, flows: u32) {
        self.active -= flows;
        self.tally.work += f64::from(flows) * self.weight * value;
        self.tally.flow_ps += i128::from(now.0) * i128::from(flows);
    }

    /// Work done and flow-picoseconds up to `now`, when the group's own value is `value`.
    pub(super) fn done(&self, now: Time, value: f64) -> (f64, f64) {
        let flow_ps = self.tally.flow_ps + i128::from(now.0) * i128::from(self.active);
        (self.tally.work + f64::from(self.active) * self.weight * value, flow_ps as f64)
    }

    /// The group's own value, now `value`, is counted from a new origin.
    pub(super) fn rebase(&mut self, value: f64) {
        self.offset = 0.0;
        self.tally.work += f64::from(self.active) * self.weight * value;
    }
}
