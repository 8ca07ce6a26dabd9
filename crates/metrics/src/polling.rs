//! Loaders in which nobody is woken: who finds nothing, or enough, sleeps and looks again. Both worlds
//! keep here what sleepers will find, and what they were kept from by sleeping on.

use super::queue::Queue;
use super::timeline::Segment;
use forebay_engine::{Span, Time};
use forebay_report::{Cause, StallCause};
use forebay_scenario::{Generator, Job};

/// A loader's sleepers.
#[derive(Debug, Clone)]
pub struct Polling {
    period: Span,
    enough: u64,
    /// Share of the samples taken that had not been taken before, and what is left of it below one sample.
    distinct: f64,
    rest: f64,
    /// Batches for the devices that wait first.
    promised: Vec<Promise>,
}

/// A batch that a device will find when it looks next.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    device: u32,
    /// Who put it in.
    pub worker: u32,
    came: Time,
}

impl Promise {
    /// What its device, which finds it now, has slept too long.
    pub fn slept(&self, now: Time) -> Segment {
        Segment { start: self.came, end: now, cause: StallCause::own(Cause::Latency) }
    }
}

impl Polling {
    /// That of a loader of `job`, if it is one of these.
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

    /// How long a worker that finds enough sleeps.
    pub fn period(&self) -> Span {
        self.period
    }

    /// Whether so many samples in the queue are enough for a worker.
    pub fn is_enough(&self, samples: u64) -> bool {
        samples >= self.enough
    }

    /// When a device that has slept again and again since `since` looks next, at `now` or later.
    pub fn next_look(&self, since: Time, now: Time) -> Time {
        let looks = now.since(since).0.div_ceil(self.period.0).max(1);
        since + Span(looks.saturating_mul(self.period.0))
    }

    /// Devices for which a batch is there that they have not found yet.
    pub fn promised(&self) -> usize {
        self.promised.len()
    }

    /// `worker` has put samples in `queue`: the device that waits at the next place will find a batch there, if there is one
    /// for it; which. `waiter` says who waits at a place.
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

    /// What `device` finds when it looks.
    pub fn find(&mut self, device: u32) -> Option<Promise> {
        let place = self.promised.iter().position(|promise| promise.device == device)?;
        Some(self.promised.remove(place))
    }

    /// Of so many samples, those that had not been taken before.
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
    fn who_sleeps_looks_at_whole_periods_after_at_least_one() {
        for (now, look) in [(7, 57), (8, 57), (57, 57), (58, 107), (107, 107)] {
            assert_eq!(polling().next_look(Time(7), Time(now)), Time(look), "{now}");
        }
        assert_eq!(polling().next_look(Time(1), Time::NEVER), Time::NEVER, "no overflow");
    }

    #[test]
    fn batches_are_promised_in_order_of_arrival_and_once() {
        // System: devices 3, 1 and 2 wait; a batch of two is there, then another. Expectation: 3, then 1,
        // which finds it first; 2 has none.
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
