//! Future events in order of time, then of scheduling.
//!
//! Events are added in three ways and leave in one order. Most events go to a radix heap. Events that all wait
//! equally long go to a lane, which is a queue. Events that may be cancelled go to a heap of their own, so that the
//! other events do not pay for cancellation.

use super::radix_heap::{Key, NO_KEY, RadixHeap};
use super::{Heap, Time};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Identifies a lane: a queue of the calendar for events that are scheduled in order of time. Lanes are counted from
/// one, so that an `Option<LaneId>` takes no more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneId(NonZeroU32);

impl LaneId {
    #[inline]
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Identifies an event that may be cancelled. Cancelling has no effect once the event has happened or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerId {
    slot: u32,
    generation: u32,
}

/// The slot of a cancellable event. An empty slot is reused under the next generation number.
#[derive(Debug, Clone)]
struct Timer<E> {
    generation: u32,
    event: Option<E>,
}

/// A queue of events that were scheduled in order of time.
#[derive(Debug, Clone)]
struct Lane<E> {
    /// Key of the first event; [`NO_KEY`] if the lane is empty.
    head: Key,
    /// Key of the event that was added last, whether or not it has happened; 0 before the first one.
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
    heap: RadixHeap<E>,
    timers: Heap<Key, TimerId>,
    timer_slots: Vec<Timer<E>>,
    free_slots: Vec<u32>,
    /// All lanes. They are few, so all are examined after an event has left one of them.
    lanes: Vec<Lane<E>>,
    first_lane: usize,
    /// The lane that the last event was in; `None` if it was in no lane.
    last: Option<usize>,
    /// Key of the first event of lane `first_lane`; [`NO_KEY`] if all lanes are empty.
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
    /// Creates a calendar without events, at the start of simulated time.
    pub fn new() -> Self {
        Calendar {
            sequence: 0,
            now: Time::ZERO,
            next: NO_KEY,
            heap: RadixHeap::new(),
            timers: Heap::new(),
            timer_slots: Vec::new(),
            free_slots: Vec::new(),
            lanes: Vec::new(),
            first_lane: 0,
            last: None,
            lane_key: NO_KEY,
            rest: NO_KEY,
            in_lanes: 0,
        }
    }

    /// Returns the number of events to come.
    pub fn len(&self) -> usize {
        self.heap.len() + self.in_lanes + self.timer_slots.len() - self.free_slots.len()
    }

    /// Returns the number of scheduled events that will not happen any more, because they were handled, cancelled or
    /// removed.
    pub fn past(&self) -> u64 {
        self.sequence - self.len() as u64
    }

    /// Whether there are no events to come.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event at an instant that is not in the past.
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

    /// Cancels an event and returns it; `None` if it has happened or was cancelled before.
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

    /// Removes and returns all events for which `is` holds, in no particular order; events that can be cancelled
    /// stay.
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

    /// Adds a lane: a queue for events that are scheduled in order of time, such as events after one constant delay.
    /// An event in a lane costs no heap operation.
    pub fn lane(&mut self) -> LaneId {
        self.lanes.push(Lane { head: NO_KEY, tail: 0, events: VecDeque::new() });
        let number = u32::try_from(self.lanes.len()).ok().and_then(NonZeroU32::new);
        LaneId(number.expect("fewer than 2^32 lanes"))
    }

    /// Adds an event at the end of a lane; `at` must not lie before the lane's last event. Always inlined, as `pop`
    /// is.
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

    /// Returns an event that will happen soon, without removing it: the event `number` places behind the last one that
    /// happened, in that event's lane or among the events that are in no lane. `None` if it is not known.
    #[inline]
    pub fn peek_event(&self, number: usize) -> Option<E> {
        match self.last {
            Some(lane) => self.lanes[lane].events.get(number).map(|event| event.1),
            None => self.heap.peek(number),
        }
    }

    /// Returns the instant of the next event; `None` if there is none.
    #[inline]
    pub fn peek(&self) -> Option<Time> {
        let at = time_of(self.next);
        (at != Time::NEVER).then_some(at)
    }

    /// Removes the next event and returns it with its instant; `None` if there is none. Always inlined, so that the
    /// result does not pass through memory.
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
        self.rest = self.heap.first().min(self.timer_key());
    }

    #[inline]
    fn key(&mut self, at: Time) -> Key {
        assert!(at >= self.now, "an event is scheduled in the past");
        self.sequence += 1;
        Key::from(at.0) << 64 | Key::from(self.sequence)
    }

    #[inline]
    fn timer_key(&self) -> Key {
        self.timers.peek().map_or(NO_KEY, |entry| entry.0)
    }

    #[inline]
    fn pop_lane(&mut self) -> Option<E> {
        let lane = &mut self.lanes[self.first_lane];
        let (_, event) = lane.events.pop_front()?;
        self.last = Some(self.first_lane);
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

    /// Removes and returns the first event that is in no lane.
    #[inline(never)]
    fn pop_rest(&mut self) -> Option<E> {
        self.last = None;
        let event = if self.next == self.heap.first() { self.heap.pop() } else { self.pop_timer() };
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

    /// Removes cancelled timers from the head of the heap, so that `timer_key` can look at the head without changing
    /// anything.
    fn drop_stale_timers(&mut self) {
        while let Some((_, id)) = self.timers.peek() {
            if self.timer_slots[id.slot as usize].generation == id.generation {
                break;
            }
            self.timers.pop();
        }
    }

    /// Returns the number of timers in the heap, cancelled ones included.
    #[cfg(test)]
    pub(super) fn timers_held(&self) -> usize {
        self.timers.len()
    }
}
