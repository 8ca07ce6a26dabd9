//! Loaders whose threads poll instead of being woken, by the rules of the simulation (`sim::polling`). Each thread sleeps for a
//! while and then checks whether it can continue.

use super::state::State;
use forebay_engine::{Span, Time};
use forebay_metrics::Activity;
use forebay_report::Cause;

impl State {
    /// Returns whether worker `w` finds enough batches in its queue. If so, the worker sleeps before it looks again.
    pub(super) fn finds_enough(&mut self, now: Time, w: u32) -> bool {
        let worker = &mut self.workers[w as usize];
        let loader = &mut self.loaders[worker.loader];
        let Some(polling) = &loader.polling else { return false };
        if !polling.is_enough(loader.queue.level()) || loader.started == loader.quota {
            return false;
        }
        worker.asleep = Some(now + polling.period());
        loader.queue.set_blocked(now, true);
        self.wake_worker(w);
        self.note(now, w, Activity::Doing(Cause::Latency));
        true
    }

    /// Wakes worker `w` from its sleep, so that it looks for work.
    pub(super) fn look_again(&mut self, now: Time, w: u32) {
        let worker = &mut self.workers[w as usize];
        worker.asleep = None;
        self.loaders[worker.loader].queue.set_blocked(now, false);
        self.runnable.push_back(w);
        self.settle(now);
    }

    /// Promises the batch that worker `w` has completed to a sleeping device, which will find it.
    pub(super) fn promise(&mut self, now: Time, l: usize, w: u32) {
        let loader = &mut self.loaders[l];
        let Some(polling) = &mut loader.polling else { return };
        let waiter = |place: usize| loader.waiters.get(place).copied();
        while polling.promise(now, w, waiter, &loader.queue).is_some() {}
    }

    /// Lets device `d`, which slept, look for its batch: it takes the batch or sleeps again.
    pub(super) fn look(&mut self, now: Time, d: u32) {
        let device = &mut self.training.devices[d as usize];
        let (l, loader) = (device.loader, &mut self.loaders[device.loader]);
        let Some(polling) = &mut loader.polling else { return };
        let Some(found) = polling.find(d) else {
            device.asleep = Some(polling.next_look(device.since, now + Span(1)));
            return;
        };
        device.asleep = None;
        loader.waiters.retain(|waiter| *waiter != d);
        self.end_starving(now, d, found.worker, Some(found.slept(now)));
        self.take_batch(now, d);
        self.unblock_last(now, l);
        self.settle(now);
    }
}
