//! Tests that every sample is passed on exactly once, whichever thread waits.

use super::{Plain, Shared, Watch};
use forebay_engine::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A clock that advances each time it is read.
static TURNS: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy)]
struct Turns;

impl Watch for Turns {
    fn begun() -> Turns {
        Turns
    }

    fn now(self) -> Time {
        Time(TURNS.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn every_enqueued_sample_is_dequeued_or_still_in_the_buffer_at_the_end() {
    for (capacity, producers, consumers, batch) in
        [(1, 1, 1, 1), (1, 4, 1, 1), (7, 2, 2, 3), (64, 3, 1, 32)]
    {
        let plain = Plain { producers, capacity, consumers, batch };
        let shared: Shared<Turns> = plain.shared(Turns.now() + forebay_engine::Span(20_000));
        let (made, steps) = thread::scope(|threads| {
            let makers: Vec<_> = (0..producers)
                .map(|w| {
                    threads.spawn({
                        let s = &shared;
                        move || s.produce(w)
                    })
                })
                .collect();
            let takers: Vec<_> = (0..consumers)
                .map(|d| {
                    threads.spawn({
                        let s = &shared;
                        move || s.consume(d)
                    })
                })
                .collect();
            plain.start(&shared, Turns);
            let sum = |all: Vec<thread::ScopedJoinHandle<'_, u64>>| {
                all.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>()
            };
            (sum(makers), sum(takers))
        });
        let mut state = shared.lock();
        let end = state.ended.expect("it ended");
        let queue = &mut state.loaders[0].queue;
        let totals = queue.totals(end);
        assert!(made > 100 && steps > 10, "{made} samples, {steps} steps");
        // When time is up, each worker may hold one sample that it has made.
        assert!((totals.enqueued..=totals.enqueued + u64::from(producers)).contains(&made));
        assert_eq!(totals.enqueued, totals.dequeued + queue.left());
        assert!(queue.left() <= capacity, "never more than fit");
        // For each device, a batch may have been taken whose step has not ended.
        let taken = totals.dequeued / batch;
        assert!((steps..=steps + u64::from(consumers)).contains(&taken), "{steps} of {taken}");
    }
}
