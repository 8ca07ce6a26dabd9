//! Loaders whose workers and devices poll: instead of being woken, a worker that finds enough samples in the queue, or a device
//! that finds no batch, sleeps and looks again. Simulated and live runs record here which batches sleeping devices will find, and
//! how long they overslept.

use super::queue::Queue;
use super::timeline::Segment;
use forebay_engine::{Span, Time};
use forebay_report::{Cause, StallCause};
use forebay_scenario::{Generator, Job};

/// State of a loader whose workers and devices poll.
#[derive(Debug, Clone)]
pub struct Polling {
    period: Span,
    enough: u64,
    /// Share of the taken samples that had not been taken before (`distinct`), and fraction of such a sample that is carried over
    /// to the next call of [`Polling::fresh`] (`rest`).
    distinct: f64,
    rest: f64,
    /// Batches in the queue that are promised to the devices at the front of the waiting line, in order.
    promised: Vec<Promise>,
}

/// A batch that a device will find when it looks next.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    device: u32,
    /// Worker that put the batch into the queue.
    pub worker: u32,
    came: Time,
}

impl Promise {
    /// Returns the time by which the device has overslept: from the batch's arrival to `now`, when the device finds the batch.
    pub fn slept(&self, now: Time) -> Segment {
        Segment { start: self.came, end: now, cause: StallCause::own(Cause::Latency) }
    }
}

impl Polling {
    /// Returns the polling state of a loader of `job`; `None` if the loader does not poll.
    pub fn for_job(job: &Job) -> Option<Polling> {
        let Generator { period, enough, distinct } = job.loader.generator?;
        Some(Polling {
            period: Span(Span::from_seconds(period).0.max(1)),
            enough: enough.unwrap_or(u64::MAX),
            distinct,
            rest: 0.0,
            promised: Vec::new(),
        })
    }

    /// Returns the time for which a worker sleeps if it finds enough samples.
    pub fn period(&self) -> Span {
        self.period
    }

    /// Whether `samples` in the queue are enough for a worker to sleep.
    pub fn is_enough(&self, samples: u64) -> bool {
        samples >= self.enough
    }

    /// Returns the first time, at `now` or later, at which a device that has polled since `since` looks again.
    pub fn next_look(&self, since: Time, now: Time) -> Time {
        let looks = now.since(since).0.div_ceil(self.period.0).max(1);
        since + Span(looks.saturating_mul(self.period.0))
    }

    /// Returns the number of devices that have been promised a batch and have not found it yet.
    pub fn promised(&self) -> usize {
        self.promised.len()
    }

    /// Records that `worker` has put samples into `queue`. If there is now a batch for the next device in the waiting line,
    /// promises the batch to that device and returns the device. `waiter` returns the device at a position in this line.
    pub fn promise(
        &mut self,
        now: Time,
        worker: u32,
        waiter: impl FnOnce(usize) -> Option<u32>,
        queue: &Queue,
    ) -> Option<u32> {
        let known = self.promised.len();
        let device = waiter(known)?;
        if !queue.has_batches(known as u64 + 1) {
            return None;
        }
        self.promised.push(Promise { device, worker, came: now });
        Some(device)
    }

    /// Returns the batch that is promised to `device`; `None` if none is.
    pub fn promise_to(&self, device: u32) -> Option<Promise> {
        self.promised.iter().find(|promise| promise.device == device).copied()
    }

    /// Returns and removes the batch that `device` finds when it looks.
    pub fn find(&mut self, device: u32) -> Option<Promise> {
        let place = self.promised.iter().position(|promise| promise.device == device)?;
        Some(self.promised.remove(place))
    }

    /// Returns how many of `samples` had not been taken before.
    pub fn fresh(&mut self, samples: u64) -> u64 {
        self.rest += samples as f64 * self.distinct;
        let fresh = (self.rest + 1e-9).floor();
        self.rest -= fresh;
        fresh as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn polling() -> Polling {
        let period = Span(50);
        Polling { period, enough: u64::MAX, distinct: 1.0, rest: 0.0, promised: Vec::new() }
    }

    #[test]
    fn sleeping_devices_poll_again_after_one_or_more_whole_periods() {
        for (now, look) in [(7, 57), (8, 57), (57, 57), (58, 107), (107, 107)] {
            assert_eq!(polling().next_look(Time(7), Time(now)), Time(look), "{now}");
        }
        assert_eq!(polling().next_look(Time(1), Time::NEVER), Time::NEVER, "no overflow");
    }

    #[test]
    fn each_arriving_batch_is_promised_once_to_the_longest_waiting_device() {
        // System: devices 3, 1 and 2 wait; a batch of two is there, then another. Expectation: the first is promised to device 3,
        // the second to device 1, which finds its batch first; device 2 gets none.
        let (mut polling, mut waiters) = (polling(), VecDeque::from([3, 1, 2]));
        let mut queue = Queue::new(10, 2, false, 2, Time::ZERO);
        assert_eq!(
            polling.promise(Time(1), 7, |place| waiters.get(place).copied(), &queue),
            Some(3)
        );
        assert_eq!(polling.promise(Time(2), 7, |place| waiters.get(place).copied(), &queue), None);
        queue.put(Time(3), 2);
        assert_eq!(
            polling.promise(Time(3), 8, |place| waiters.get(place).copied(), &queue),
            Some(1)
        );
        let found = polling.find(1).expect("promised");
        assert_eq!((found.worker, found.slept(Time(9)).start), (8, Time(3)));
        waiters.retain(|device| *device != 1);
        queue.take(Time(9));
        assert!(polling.find(1).is_none() && polling.find(2).is_none());
        assert_eq!(polling.promise(Time(10), 8, |place| waiters.get(place).copied(), &queue), None);
        assert_eq!(polling.promised(), 1);
    }
}
