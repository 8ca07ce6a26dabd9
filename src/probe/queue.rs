//! The bounded queue between loaders and trainer: what the live world hands samples through, and
//! what the probe `queue` times.
//!
//! A lock around a ring and two condition variables, as in TensorFlow's queues. A wake-up costs a
//! system call and a switch, hundreds of times the lock, so nobody is woken who could not go on:
//! [`Queue::take_many`] sleeps until all that it wants is there.
//!
//! ```
//! let queue = forebay::probe::Queue::new(4);
//! std::thread::scope(|threads| {
//!     threads.spawn(|| {
//!         (0..10).for_each(|i| queue.put(i).unwrap()); // blocks while full
//!         queue.close(); // what is in it can still be taken
//!     });
//!     let mut batch = Vec::new();
//!     assert_eq!(queue.take_many(8, &mut batch), 8); // blocks until all 8 are there
//!     assert_eq!(queue.take(), Some(8)); // blocks while empty
//!     assert_eq!((queue.take(), queue.take()), (Some(9), None)); // closed and empty
//! });
//! ```

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A queue of at most `capacity` items, for any number of producers and consumers; first in, first
/// out.
#[derive(Debug)]
pub struct Queue<T> {
    capacity: usize,
    state: Mutex<State<T>>,
    not_full: Condvar,
    enough: Condvar,
}

/// What the lock protects.
#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Producers asleep and not yet woken: never fewer than there are.
    putters: usize,
    /// For each consumer asleep and not yet woken, the items that it waits for.
    wants: Vec<usize>,
}

/// The queue takes no more; here is the item back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed")]
pub struct Closed<T>(pub T);

impl<T> Queue<T> {
    /// An empty queue for `capacity` items, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Queue<T> {
        let state = State { items: VecDeque::new(), closed: false, putters: 0, wants: Vec::new() };
        Queue {
            capacity: capacity.max(1),
            state: Mutex::new(state),
            not_full: Condvar::new(),
            enough: Condvar::new(),
        }
    }

    /// Most items that it holds.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Items in it now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Whether nothing is in it now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an item behind all others; waits while the queue is full.
    ///
    /// # Errors
    ///
    /// The queue is or becomes closed.
    pub fn put(&self, item: T) -> Result<(), Closed<T>> {
        let mut state = self.lock();
        while state.items.len() >= self.capacity && !state.closed {
            state.putters += 1;
            state = wait(&self.not_full, state);
        }
        if state.closed {
            return Err(Closed(item));
        }
        state.items.push_back(item);
        self.wake_takers(state);
        Ok(())
    }

    /// Puts an item if there is room: `Ok(None)`; else gives it back: `Ok(Some(item))`.
    ///
    /// # Errors
    ///
    /// The queue is closed.
    pub fn try_put(&self, item: T) -> Result<Option<T>, Closed<T>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Closed(item));
        }
        if state.items.len() >= self.capacity {
            return Ok(Some(item));
        }
        state.items.push_back(item);
        self.wake_takers(state);
        Ok(None)
    }

    /// Takes the first item; waits while there is none. `None`: closed, and nothing is left.
    pub fn take(&self) -> Option<T> {
        let mut state = self.wait_for(1, self.lock());
        let item = state.items.pop_front();
        self.wake_putters(state, usize::from(item.is_some()));
        item
    }

    /// Takes the first item if there is one.
    pub fn try_take(&self) -> Option<T> {
        let mut state = self.lock();
        let item = state.items.pop_front();
        self.wake_putters(state, usize::from(item.is_some()));
        item
    }

    /// Takes `count` items at once, as soon as that many are there, and appends them to `into`; if
    /// the queue cannot hold that many, in several goes. Returns how many: fewer only if the queue
    /// was closed and nothing is left.
    pub fn take_many(&self, count: usize, into: &mut Vec<T>) -> usize {
        let mut got = 0;
        while got < count {
            let goal = (count - got).min(self.capacity);
            let mut state = self.wait_for(goal, self.lock());
            let now = state.items.len().min(goal);
            into.extend(state.items.drain(..now));
            self.wake_putters(state, now);
            got += now;
            if now < goal {
                break;
            }
        }
        got
    }

    /// Lets nothing more in: producers get their items back, consumers what is left and then
    /// nothing.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.putters = 0;
        state.wants.clear();
        drop(state);
        self.not_full.notify_all();
        self.enough.notify_all();
    }

    /// The state; a thread that panicked with the lock cannot have left it half changed.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until `count` items are there or the queue is closed.
    fn wait_for<'a>(
        &'a self,
        count: usize,
        mut state: MutexGuard<'a, State<T>>,
    ) -> MutexGuard<'a, State<T>> {
        while state.items.len() < count && !state.closed {
            state.wants.push(count);
            state = wait(&self.enough, state);
        }
        state
    }

    /// Wakes whom the items satisfy. Who is woken leaves the list at once, or every later item
    /// would call it again until it runs.
    fn wake_takers(&self, mut state: MutexGuard<'_, State<T>>) {
        let there = state.items.len();
        if !state.wants.iter().any(|&want| want <= there) {
            return;
        }
        let alike = state.wants.iter().all(|&want| want == state.wants[0]);
        if alike {
            state.wants.pop();
            drop(state);
            self.enough.notify_one();
        } else {
            // No way to choose who hears a single call.
            state.wants.clear();
            drop(state);
            self.enough.notify_all();
        }
    }

    /// Wakes as many producers as places became free, and consumers for whom enough is left.
    fn wake_putters(&self, mut state: MutexGuard<'_, State<T>>, freed: usize) {
        let wake = state.putters.min(freed);
        state.putters -= wake;
        if state.items.is_empty() {
            drop(state);
        } else {
            // Two items may have come before the first consumer that was called took one.
            self.wake_takers(state);
        }
        (0..wake).for_each(|_| self.not_full.notify_one());
    }
}

/// Sleeps; a poisoned lock is as good as any here.
fn wait<'a, T>(condition: &Condvar, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
    condition.wait(state).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn items_come_out_in_the_order_in_which_they_went_in() {
        let queue = Queue::new(3);
        for i in 0..3 {
            assert_eq!(queue.try_put(i), Ok(None));
        }
        assert_eq!(queue.try_put(9), Ok(Some(9)), "full");
        assert_eq!((queue.len(), queue.capacity()), (3, 3));
        assert_eq!([queue.take(), queue.try_take(), queue.take()], [Some(0), Some(1), Some(2)]);
        assert_eq!(queue.try_take(), None);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_closed_queue_gives_what_is_left_and_takes_nothing() {
        let queue = Queue::new(2);
        queue.put(1).unwrap();
        queue.close();
        assert_eq!(queue.put(2), Err(Closed(2)));
        assert_eq!(queue.try_put(2), Err(Closed(2)));
        assert_eq!((queue.take(), queue.take()), (Some(1), None));
    }

    #[test]
    fn closing_wakes_all_who_wait() {
        let (full, empty) = (Queue::new(1), Queue::<u8>::new(1));
        full.put(0).unwrap();
        thread::scope(|threads| {
            let putters: Vec<_> = (0..3)
                .map(|i| {
                    threads.spawn({
                        let full = &full;
                        move || full.put(i)
                    })
                })
                .collect();
            let taker = threads.spawn(|| empty.take());
            let many = threads.spawn(|| empty.take_many(5, &mut Vec::new()));
            full.close();
            empty.close();
            assert!(putters.into_iter().all(|putter| putter.join().unwrap().is_err()));
            assert_eq!((taker.join().unwrap(), many.join().unwrap()), (None, 0));
        });
    }

    /// Every item exactly once and never more than fit, with single and batch consumers at once.
    #[test]
    fn nothing_is_lost_doubled_or_too_many() {
        for (capacity, producers) in [(1, 1), (1, 4), (7, 2), (64, 3)] {
            let (queue, open) = (Queue::new(capacity), AtomicUsize::new(producers));
            let put = |from: usize| {
                (0..500).for_each(|i| queue.put(from * 500 + i).unwrap());
                if open.fetch_sub(1, Ordering::SeqCst) == 1 {
                    queue.close();
                }
            };
            let one = || {
                let next = || {
                    assert!(queue.len() <= capacity);
                    queue.take()
                };
                std::iter::from_fn(next).collect::<Vec<_>>()
            };
            let many = |size: usize| {
                let mut all = Vec::new();
                while queue.take_many(size, &mut all) == size {}
                all
            };
            let taken = thread::scope(|threads| {
                for producer in 0..producers {
                    threads.spawn(move || put(producer));
                }
                let takers = [
                    threads.spawn(one),
                    threads.spawn(one),
                    threads.spawn(move || many(3)),
                    threads.spawn(move || many(100)),
                ];
                takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(taken.len(), producers * 500);
            assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), producers * 500);
        }
    }
}
