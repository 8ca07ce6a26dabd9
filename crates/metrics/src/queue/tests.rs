//! Tests of queues whose results were computed by hand.

use super::*;

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
