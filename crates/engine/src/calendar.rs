//! Future events in order of time, then of scheduling.
//!
//! Three ways in, one order out. Most events go to a 4-ary heap. Events that all wait equally
//! long go to a lane, which is a queue. Events that may be cancelled go to a heap of their own,
//! so that the others do not pay for it.

use super::{Heap, Time};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Time in the upper half, order of scheduling in the lower: one comparison decides.
type Key = u128;
const NO_KEY: Key = Key::MAX;

/// A queue of the calendar for events that are scheduled in order of time: which one, counted from one, so that
/// none takes no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneId(NonZeroU32);

impl LaneId {
    #[inline]
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// An event that may be cancelled; harmless once it has happened or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerId {
    slot: u32,
    generation: u32,
}

/// A cancellable event; empty slots are reused under the next generation.
#[derive(Debug, Clone)]
struct Timer<E> {
    generation: u32,
    event: Option<E>,
}

/// A queue of events, the first and the last of which have these keys.
#[derive(Debug, Clone)]
struct Lane<E> {
    /// [`NO_KEY`] if there is none.
    head: Key,
    /// Of the latest one that came in, whether or not it has happened.
    tail: Key,
    events: VecDeque<(Key, E)>,
}

/// Future events in order of time; events of one instant in order of scheduling, whichever
/// way they came in.
#[derive(Debug, Clone)]
pub struct Calendar<E> {
    sequence: u64,
    now: Time,
    /// Key of the next event.
    next: Key,
    heap: Heap<Key, E>,
    timers: Heap<Key, TimerId>,
    timer_slots: Vec<Timer<E>>,
    free_slots: Vec<u32>,
    /// Lanes are few: all are looked at when one has moved on.
    lanes: Vec<Lane<E>>,
    first_lane: usize,
    /// Key of its first event.
    lane_key: Key,
    /// Key of the first event that is in no lane.
    rest: Key,
    in_lanes: usize,
}

impl<E: Copy> Default for Calendar<E> {
    fn default() -> Self {
        Self::new()
    }
}

fn time_of(key: Key) -> Time {
    Time((key >> 64) as u64)
}

impl<E: Copy> Calendar<E> {
    /// A calendar without events, at the start of simulated time.
    pub fn new() -> Self {
        Calendar {
            sequence: 0,
            now: Time::ZERO,
            next: NO_KEY,
            heap: Heap::new(),
            timers: Heap::new(),
            timer_slots: Vec::new(),
            free_slots: Vec::new(),
            lanes: Vec::new(),
            first_lane: 0,
            lane_key: NO_KEY,
            rest: NO_KEY,
            in_lanes: 0,
        }
    }

    /// Number of events to come.
    pub fn len(&self) -> usize {
        self.heap.len() + self.in_lanes + self.timer_slots.len() - self.free_slots.len()
    }

    /// Number of events that were scheduled and are not to come: handled, or taken back.
    pub fn past(&self) -> u64 {
        self.sequence - self.len() as u64
    }

    /// Whether there are no events to come.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event at an instant that is not past.
    #[inline]
    pub fn schedule(&mut self, at: Time, event: E) {
        let key = self.key(at);
        self.next = self.next.min(key);
        self.rest = self.rest.min(key);
        self.heap.push(key, event);
    }

    /// Adds an event that can be cancelled.
    pub fn schedule_timer(&mut self, at: Time, event: E) -> TimerId {
        let key = self.key(at);
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.timer_slots.push(Timer { generation: 0, event: None });
            self.timer_slots.len() as u32 - 1
        });
        let timer = &mut self.timer_slots[slot as usize];
        timer.event = Some(event);
        let id = TimerId { slot, generation: timer.generation };
        self.next = self.next.min(key);
        self.rest = self.rest.min(key);
        self.timers.push(key, id);
        id
    }

    /// Takes back an event; none if it has happened or was cancelled before.
    pub fn cancel(&mut self, id: TimerId) -> Option<E> {
        let event = self.take_timer(id)?;
        let live = self.timer_slots.len() - self.free_slots.len();
        if self.timers.len() > 2 * live + 64 {
            let slots = &self.timer_slots;
            self.timers.retain(|(_, id)| slots[id.slot as usize].generation == id.generation);
        }
        self.drop_stale_timers();
        self.find_next();
        Some(event)
    }

    /// Takes back all events for which `is` holds, in no order; those that can be cancelled stay.
    #[cold]
    pub fn remove_all(&mut self, is: impl Fn(&E) -> bool) -> Vec<E> {
        let mut removed = Vec::new();
        let mut keep = |(_, event): &(Key, E)| {
            let goes = is(event);
            removed.extend(goes.then_some(*event));
            !goes
        };
        self.heap.retain(&mut keep);
        for lane in &mut self.lanes {
            lane.events.retain(&mut keep);
            lane.head = lane.events.front().map_or(NO_KEY, |entry| entry.0);
        }
        self.in_lanes = self.lanes.iter().map(|lane| lane.events.len()).sum();
        self.find_first_lane();
        self.find_next();
        removed
    }

    /// A new queue for events that are scheduled in order of time, such as those after one
    /// constant delay. Such an event costs no heap operation.
    pub fn lane(&mut self) -> LaneId {
        self.lanes.push(Lane { head: NO_KEY, tail: 0, events: VecDeque::new() });
        let number = u32::try_from(self.lanes.len()).ok().and_then(NonZeroU32::new);
        LaneId(number.expect("fewer than 2^32 lanes"))
    }

    /// Adds an event at the end of a lane, not before the lane's last one. Always inlined, as `pop` is.
    #[inline(always)]
    pub fn schedule_in(&mut self, lane: LaneId, at: Time, event: E) {
        let key = self.key(at);
        let queue = &mut self.lanes[lane.index()];
        assert!(queue.tail < key, "a lane's events are scheduled in order");
        queue.tail = key;
        queue.events.push_back((key, event));
        self.in_lanes += 1;
        if queue.head == NO_KEY {
            queue.head = key;
            if key < self.lane_key {
                (self.lane_key, self.first_lane) = (key, lane.index());
            }
            self.next = self.next.min(key);
        }
    }

    /// An event that will happen after about `number` others, where the next one is a lane's or a heap's; in
    /// a lane after that many of its own.
    #[inline]
    pub fn peek_event(&self, number: usize) -> Option<E> {
        if self.next == self.lane_key {
            self.lanes.get(self.first_lane)?.events.get(number).map(|event| event.1)
        } else {
            self.heap.as_slice().get(number).map(|event| event.1)
        }
    }

    /// The instant of the next event.
    #[inline]
    pub fn peek(&self) -> Option<Time> {
        let at = time_of(self.next);
        (at != Time::NEVER).then_some(at)
    }

    /// Removes the next event and its instant. Always inlined: what it gives then never passes through memory.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        if self.next == NO_KEY {
            return None;
        }
        self.now = time_of(self.next);
        let event = if self.next == self.lane_key { self.pop_lane()? } else { self.pop_rest()? };
        self.next = self.lane_key.min(self.rest);
        Some((self.now, event))
    }

    #[inline]
    fn find_next(&mut self) {
        self.find_rest();
        self.next = self.lane_key.min(self.rest);
    }

    #[inline]
    fn find_rest(&mut self) {
        self.rest = self.heap_key().min(self.timer_key());
    }

    #[inline]
    fn key(&mut self, at: Time) -> Key {
        assert!(at >= self.now, "an event is scheduled in the past");
        self.sequence += 1;
        Key::from(at.0) << 64 | Key::from(self.sequence)
    }

    #[inline]
    fn heap_key(&self) -> Key {
        self.heap.peek().map_or(NO_KEY, |entry| entry.0)
    }

    #[inline]
    fn timer_key(&self) -> Key {
        self.timers.peek().map_or(NO_KEY, |entry| entry.0)
    }

    #[inline]
    fn pop_lane(&mut self) -> Option<E> {
        let lane = &mut self.lanes[self.first_lane];
        let (_, event) = lane.events.pop_front()?;
        self.in_lanes -= 1;
        lane.head = lane.events.front().map_or(NO_KEY, |entry| entry.0);
        self.find_first_lane();
        Some(event)
    }

    #[inline]
    fn find_first_lane(&mut self) {
        let (mut key, mut first) = (NO_KEY, 0);
        for (number, lane) in self.lanes.iter().enumerate() {
            if lane.head < key {
                (key, first) = (lane.head, number);
            }
        }
        (self.lane_key, self.first_lane) = (key, first);
    }

    /// Removes the first event that is in no lane.
    #[inline(never)]
    fn pop_rest(&mut self) -> Option<E> {
        let event = if self.next == self.heap_key() {
            self.heap.pop().map(|entry| entry.1)
        } else {
            self.pop_timer()
        };
        self.find_rest();
        event
    }

    #[cold]
    fn pop_timer(&mut self) -> Option<E> {
        let (_, id) = self.timers.pop()?;
        let event = self.take_timer(id).expect("the head of the timers is live");
        self.drop_stale_timers();
        Some(event)
    }

    fn take_timer(&mut self, id: TimerId) -> Option<E> {
        let timer = self.timer_slots.get_mut(id.slot as usize)?;
        if timer.generation != id.generation {
            return None;
        }
        timer.generation = timer.generation.wrapping_add(1);
        self.free_slots.push(id.slot);
        timer.event.take()
    }

    /// Keeps the head of the timers live, so that looking at it changes nothing.
    fn drop_stale_timers(&mut self) {
        while let Some((_, id)) = self.timers.peek() {
            if self.timer_slots[id.slot as usize].generation == id.generation {
                break;
            }
            self.timers.pop();
        }
    }

    /// Timers in the heap, cancelled ones included.
    #[cfg(test)]
    pub(super) fn timers_held(&self) -> usize {
        self.timers.len()
    }
}
