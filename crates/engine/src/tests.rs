//! Tests of the calendar against a plain list, and of the event loop.

use super::{Calendar, LaneId, Model, Time, TimerId, run};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Act {
    Schedule(u64),
    Timer(u64),
    Cancel(usize),
    RemoveAll(u32),
    Lane(usize, u64),
    Pop,
}

/// Few instants, so that many events tie; and spans of any magnitude.
fn any_wait() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..6, (0u64..6, 0u32..50).prop_map(|(wait, bits)| wait << bits)]
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => any_wait().prop_map(Act::Schedule),
        3 => any_wait().prop_map(Act::Timer),
        2 => (0usize..50).prop_map(Act::Cancel),
        1 => (0u32..3).prop_map(Act::RemoveAll),
        3 => (0usize..5, any_wait()).prop_map(|(lane, wait)| Act::Lane(lane, wait)),
        4 => Just(Act::Pop),
    ]
}

/// The calendar by definition: a list of (instant [ps], number in order of scheduling), in which the smallest entry
/// comes first.
#[derive(Default)]
struct Naive {
    events: Vec<(u64, u32)>,
}

impl Naive {
    fn pop(&mut self) -> Option<(Time, u32)> {
        let first = self.events.iter().copied().min()?;
        self.events.retain(|&event| event != first);
        Some((Time(first.0), first.1))
    }

    fn cancel(&mut self, id: u32) -> Option<u32> {
        let at = self.events.iter().position(|event| event.1 == id)?;
        Some(self.events.remove(at).1)
    }
}

proptest! {
    #[test]
    fn events_leave_the_queue_in_order_of_time_and_then_of_scheduling(
        acts in prop::collection::vec(any_act(), 0..200),
    ) {
        let (mut calendar, mut naive) = (Calendar::new(), Naive::default());
        let lanes: Vec<LaneId> = (0..5).map(|_| calendar.lane()).collect();
        let mut last_in_lane = [0; 5];
        let mut timers: Vec<(TimerId, u32)> = Vec::new();
        let (mut now, mut id) = (0, 0);
        for act in acts {
            id += 1;
            let at = match act {
                Act::Schedule(wait) => {
                    calendar.schedule(Time(now + wait), id);
                    now + wait
                }
                Act::Timer(wait) => {
                    timers.push((calendar.schedule_timer(Time(now + wait), id), id));
                    now + wait
                }
                Act::Lane(lane, wait) => {
                    let at = last_in_lane[lane].max(now + wait);
                    last_in_lane[lane] = at;
                    calendar.schedule_in(lanes[lane], Time(at), id);
                    at
                }
                Act::Cancel(which) => {
                    if !timers.is_empty() {
                        let (timer, id) = timers[which % timers.len()];
                        prop_assert_eq!(calendar.cancel(timer), naive.cancel(id));
                    }
                    continue;
                }
                Act::RemoveAll(third) => {
                    let goes = |id: &u32| id % 3 == third;
                    let is_timer = |id: &u32| timers.iter().any(|(_, timer)| timer == id);
                    let mut removed = calendar.remove_all(goes);
                    removed.sort_unstable();
                    let goes = |id: &u32| goes(id) && !is_timer(id);
                    let mut expected: Vec<u32> = naive.events.iter().map(|event| event.1).collect();
                    expected.retain(goes);
                    expected.sort_unstable();
                    prop_assert_eq!(removed, expected);
                    naive.events.retain(|(_, id)| !goes(id));
                    continue;
                }
                Act::Pop => {
                    let next = naive.pop();
                    prop_assert_eq!(calendar.peek(), next.map(|(at, _)| at));
                    prop_assert_eq!(calendar.pop(), next);
                    now = next.map_or(now, |(at, _)| at.0);
                    continue;
                }
            };
            naive.events.push((at, id));
            prop_assert_eq!(calendar.len(), naive.events.len());
        }
        while let Some(next) = naive.pop() {
            prop_assert_eq!(calendar.pop(), Some(next));
        }
        prop_assert!(calendar.pop().is_none() && calendar.is_empty());
    }
}

#[test]
fn many_events_leave_the_queue_in_order() {
    // System: 5,000 events, then two new ones for each that leaves, then none; the new ones come soon, late, or at a time that
    // many share. Expectation: all leave in order of time, then of scheduling.
    let (mut calendar, mut state, mut scheduled) = (Calendar::new(), 1u64, 0);
    let mut add = |calendar: &mut Calendar<(u64, u32)>, now: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let wait = match state >> 62 {
            0 => state >> 32 & 0xff,
            1 => state >> 32 & 0xff_ffff,
            2 => 1 << 20,
            _ => state >> 20 & 0xf_ffff_ffff,
        };
        scheduled += 1;
        calendar.schedule(Time(now + wait), (now + wait, scheduled));
    };
    (0..5_000).for_each(|_| add(&mut calendar, 0));
    let (mut last, mut left) = ((0, 0), 0);
    while let Some((now, event)) = calendar.pop() {
        assert!(now.0 == event.0 && last < event, "{last:?} before {event:?}");
        (last, left) = (event, left + 1);
        if left < 20_000 {
            (0..2).for_each(|_| add(&mut calendar, now.0));
        }
    }
    assert_eq!(left, scheduled);
}

#[test]
fn timers_that_are_always_cancelled_leave_no_garbage() {
    let mut calendar = Calendar::new();
    calendar.schedule(Time(1), 0);
    for id in 0..100_000 {
        let timer = calendar.schedule_timer(Time(1_000_000 - id), id);
        let other = calendar.schedule_timer(Time(2_000_000 + id), id);
        assert_eq!((calendar.cancel(timer), calendar.cancel(other)), (Some(id), Some(id)));
        assert_eq!(calendar.cancel(other), None, "stale");
    }
    assert_eq!(calendar.len(), 1);
    assert!(calendar.timers_held() < 100, "{}", calendar.timers_held());
}

#[test]
#[should_panic(expected = "in the past")]
fn scheduling_an_event_in_the_past_panics() {
    let mut calendar = Calendar::new();
    calendar.schedule(Time(5), 0);
    calendar.pop();
    calendar.schedule(Time(4), 1);
}

#[test]
#[should_panic(expected = "in order")]
fn scheduling_an_event_out_of_order_in_an_ordered_lane_panics() {
    let mut calendar = Calendar::new();
    let lane = calendar.lane();
    calendar.schedule_in(lane, Time(5), 0);
    calendar.schedule_in(lane, Time(4), 1);
}

/// A model that records what happens to it, and that completes something itself at the instants `own`.
struct Notes {
    calendar: Calendar<u64>,
    own: Vec<u64>,
    seen: Vec<(u64, &'static str)>,
}

impl Model for Notes {
    type Event = u64;

    fn calendar(&mut self) -> &mut Calendar<u64> {
        &mut self.calendar
    }

    fn handle(&mut self, now: Time, repeats: u64) {
        self.seen.push((now.0, "event"));
        if repeats > 0 {
            self.calendar.schedule(Time(now.0 + 10), repeats - 1);
        }
    }

    fn pending(&mut self) -> Option<Time> {
        self.own.last().map(|&at| Time(at))
    }

    fn advance(&mut self, now: Time) {
        self.own.pop();
        self.seen.push((now.0, "own"));
    }
}

#[test]
fn simultaneous_completions_run_before_events_and_the_end_time_is_included() {
    let mut model = Notes { calendar: Calendar::new(), own: vec![35, 20, 15], seen: Vec::new() };
    model.calendar.schedule(Time(10), 5);
    let handled = run(&mut model, Time(30));
    let expected = [(10, "event"), (15, "own"), (20, "own"), (20, "event"), (30, "event")];
    assert_eq!((handled, model.seen.as_slice()), (3, expected.as_slice()));
    assert_eq!(model.calendar.peek(), Some(Time(40)), "what comes after the end stays");
}

#[test]
fn peeking_at_later_events_leaves_the_event_queue_unchanged() {
    // System: a lane with three events, and an event in no lane between them. Expectation: behind an event of the lane,
    // the lane's events are shown, behind one in no lane none; all events leave as if nobody had looked.
    let mut calendar = Calendar::new();
    let lane = calendar.lane();
    for (at, event) in [(10, 'a'), (20, 'b'), (30, 'c')] {
        calendar.schedule_in(lane, Time(at), event);
    }
    calendar.schedule(Time(15), 'x');
    assert_eq!(calendar.pop(), Some((Time(10), 'a')));
    assert_eq!([0, 1, 2].map(|n| calendar.peek_event(n)), [Some('b'), Some('c'), None]);
    assert_eq!(calendar.pop(), Some((Time(15), 'x')));
    assert_eq!(calendar.peek_event(0), None);
    let left: String = std::iter::from_fn(|| calendar.pop()).map(|(_, event)| event).collect();
    assert_eq!(left, "bc");
}
