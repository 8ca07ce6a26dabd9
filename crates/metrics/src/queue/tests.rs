//! Tests of queues whose results were computed by hand.

use super::*;
use forebay_engine::Span;
use forebay_report::Series;

const S: u64 = 1_000_000_000_000;

#[test]
fn littles_law_holds_exactly_when_the_queue_ends_empty() {
    // System: 2 samples at 0, 1 at 1 s; 1 taken at 2 s, 2 at 5 s. Expectation: the level's
    // integral is 2 + 3 + 2·3 = 11, and so is the time spent inside, 2 + 5 + 4.
    let mut queue = Queue::new(10, 1, false, 0, Time(0));
    queue.put(Time(0), 2);
    queue.put(Time(S), 1);
    assert_eq!(queue.take(Time(2 * S)), 1);
    assert_eq!((queue.take(Time(5 * S)), queue.take(Time(5 * S))), (1, 1));
    let totals = queue.totals(Time(7 * S));
    assert_eq!(totals.level_seconds, 11.0);
    assert_eq!(totals.residence_seconds, 11.0);
    assert_eq!((totals.enqueued, totals.dequeued), (3, 3));
}

#[test]
fn queue_exhaustion_counts_only_after_a_batch_is_served_without_wait() {
    let mut queue = Queue::new(4, 1, false, 0, Time(0));
    queue.begin_wait(Time(0)); // never ready before: filling, not exhaustion
    queue.end_wait(Time(S));
    queue.served_at_once();
    queue.begin_wait(Time(2 * S));
    queue.end_wait(Time(3 * S));
    queue.begin_wait(Time(4 * S)); // still starving: the same drought
    queue.end_wait(Time(5 * S));
    let mut outcome = QueueOutcome::default();
    queue.collect(Time(6 * S), &mut outcome);
    assert_eq!(outcome.exhaustions, [Exhaustion { start: 2.0, duration: 1.0 }]);
    assert_eq!(queue.totals(Time(6 * S)).empty_seconds, 3.0);
}

#[test]
fn a_circular_queue_counts_fresh_samples_and_how_often_samples_are_read() {
    // System: 2 slots filled at 0; both read at 1 s and again at 2 s; one overwritten at 3 s, and both read at 4 s. Expectation:
    // 2 fresh samples, then 0, then 1 (the new one); the overwritten sample had been read twice.
    let mut queue = Queue::new(2, 2, true, 0, Time(0));
    queue.put(Time(0), 2);
    assert_eq!(queue.take(Time(S)), 2);
    assert_eq!(queue.take(Time(2 * S)), 0);
    queue.put(Time(3 * S), 1);
    assert_eq!(queue.take(Time(4 * S)), 1);
    assert_eq!((queue.overwritten(), queue.left()), (0, 0));
    queue.put(Time(5 * S), 2);
    queue.put(Time(5 * S), 1);
    assert_eq!((queue.overwritten(), queue.left()), (1, 2));
    let mut outcome = QueueOutcome::default();
    queue.collect(Time(5 * S), &mut outcome);
    assert_eq!(outcome.reuse, [1, 1, 1, 1], "unread, once, twice and three times read");
}

/// Simulates cycle number `cycle` of a queue, which takes 7 s: 4 samples come and go in pairs, and a model copy waits for the second
/// pair.
fn pass(queue: &mut Queue, cycle: u64) {
    let at = |tenths: u64| Time((70 * cycle + tenths) * S / 10);
    queue.put(at(3), 2);
    queue.set_blocked(at(7), true);
    queue.served_at_once();
    queue.take(at(20));
    queue.begin_wait(at(31));
    queue.set_blocked(at(31), false);
    queue.put(at(44), 2);
    queue.end_wait(at(44));
    queue.take(at(44));
}

#[test]
fn a_queue_that_leaves_repeated_cycles_out_has_the_records_of_all_cycles() {
    // System: 203 cycles of 7 s, all of them passed, or 4 passed, 195 left out and 4 passed. Expectation: the same totals, history
    // and exhaustions, also if the interval of the history changes meanwhile.
    let end = Time(203 * 7 * S);
    let mut full = Queue::new(10, 2, false, 0, Time(0));
    full.record(Time(0), 0.0);
    (0..203).for_each(|cycle| pass(&mut full, cycle));
    let mut short = Queue::new(10, 2, false, 0, Time(0));
    short.record(Time(0), 0.0);
    (0..3).for_each(|cycle| pass(&mut short, cycle));
    short.begin_cycle(Time(3 * 7 * S));
    pass(&mut short, 3);
    let left_out = Span(7 * S);
    short.repeat_cycle(Time(4 * 7 * S), left_out, 195);
    (4..8).for_each(|cycle| pass(&mut short, cycle));
    let now = Time(8 * 7 * S);
    let (all, some) = (full.totals(end), short.totals(now));
    let counts = |of: QueueTotals| (of.enqueued, of.dequeued);
    assert_eq!(counts(some), counts(all));
    let times = |of: QueueTotals| {
        [of.level_seconds, of.empty_seconds, of.blocked_seconds, of.residence_seconds]
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a}, not {b}");
    times(some).into_iter().zip(times(all)).for_each(|(a, b)| near(a, b));
    let history = |queue: &Queue, totals: QueueTotals| {
        let mut series = Series::default();
        queue.snapshots().expect("a history").add_to(totals, &mut series);
        series
    };
    let (a, b) = (history(&short, some), history(&full, all));
    assert_eq!((a.width, a.bins.len()), (b.width, b.bins.len()));
    for (a, b) in a.bins.iter().zip(&b.bins) {
        assert_eq!((a.enqueued, a.dequeued), (b.enqueued, b.dequeued));
        near(a.level_seconds, b.level_seconds);
        near(a.blocked_seconds, b.blocked_seconds);
    }
    let exhausted = |mut queue: Queue, now: Time| {
        let mut outcome = QueueOutcome::default();
        queue.collect(now, &mut outcome);
        outcome.exhaustions
    };
    let (a, b) = (exhausted(short, now), exhausted(full, end));
    assert_eq!((a.len(), b.len()), (203, 203));
    a.iter().zip(&b).for_each(|(a, b)| near(a.start, b.start));
}
