//! Loaders in which nobody is woken: who finds nothing sleeps, and looks again.

use crate::report::Cause;

use super::event::{Clock, Customer, Delay, Event};
use super::workers::Phase;
use super::world::World;

impl World<'_> {
    /// Whether worker `w` finds enough batches in its queue, and sleeps before it looks again.
    #[cold]
    pub(super) fn finds_enough(&mut self, clock: &mut Clock, w: u32) -> bool {
        let loader = &mut self.loaders[self.workers[w as usize].loader as usize];
        let Some(polling) = &loader.polling else { return false };
        let delay = Delay { span: polling.period(), lane: None };
        if !polling.is_enough(loader.queue.level()) || loader.started == loader.quota {
            return false;
        }
        loader.queue.set_blocked(clock.now, true);
        self.enter(clock.now, w, Phase::Asleep, Cause::Latency);
        clock.after(delay, Event::Waited(Customer::Worker(w)));
        true
    }

    /// Worker `w` looks again.
    pub(super) fn look_again(&mut self, clock: &mut Clock, w: u32) {
        let worker = &mut self.workers[w as usize];
        worker.phase = Phase::Ready;
        self.loaders[worker.loader as usize].queue.set_blocked(clock.now, false);
        self.run_worker(clock, w);
    }

    /// Worker `w` has put a batch in: devices that sleep will find it.
    #[cold]
    pub(super) fn promise(&mut self, clock: &mut Clock, l: u32, w: u32) {
        let loader = &mut self.loaders[l as usize];
        let Some(polling) = &mut loader.polling else { return };
        while let Some(d) = polling.promise(clock.now, w, &loader.waiters, &loader.queue) {
            let look = polling.next_look(self.devices[d as usize].since, clock.now);
            let delay = Delay { span: look.since(clock.now), lane: None };
            clock.after(delay, Event::Waited(Customer::Sleeper(d)));
        }
    }

    /// Device `d` looks, and finds its batch.
    pub(super) fn awake(&mut self, clock: &mut Clock, d: u32) {
        let l = self.devices[d as usize].loader as usize;
        let Some(polling) = &mut self.loaders[l].polling else { return };
        let Some(found) = polling.find(d) else { return };
        let Some(place) = self.loaders[l].waiters.iter().position(|waiter| *waiter == d) else {
            // Its job is over.
            return;
        };
        self.loaders[l].waiters.remove(place);
        self.end_starving(clock.now, d, found.worker, Some(found.slept(clock.now)));
        self.take_batch(clock, d);
        self.unblock_last(clock, l as u32);
    }
}
