//! Loaders in which nobody is woken: who finds nothing sleeps, and looks again.

use crate::report::Cause;

use super::event::{Clock, Customer, Delay, Event};
use super::index::{DeviceId, LoaderId, WorkerId};
use super::workers::Phase;
use super::world::World;

impl World<'_> {
    /// Whether worker `w` finds enough batches in its queue, and sleeps before it looks again.
    #[cold]
    pub(super) fn finds_enough(&mut self, clock: &mut Clock, w: WorkerId) -> bool {
        let loader = &mut self.loaders[self.workers[w].loader];
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
    pub(super) fn look_again(&mut self, clock: &mut Clock, w: WorkerId) {
        let worker = &mut self.workers[w];
        worker.phase = Phase::Ready;
        self.loaders[worker.loader].queue.set_blocked(clock.now, false);
        self.run_worker(clock, w);
    }

    /// Worker `w` has put a batch in: devices that sleep will find it.
    #[cold]
    pub(super) fn promise(&mut self, clock: &mut Clock, l: LoaderId, w: WorkerId) {
        let loader = &mut self.loaders[l];
        let Some(polling) = &mut loader.polling else { return };
        let waiter = |place: usize| loader.waiters.get(place).copied().map(DeviceId::number);
        while let Some(d) = polling.promise(clock.now, w.number(), waiter, &loader.queue) {
            let d = DeviceId::new(d);
            let look = polling.next_look(self.devices[d].since, clock.now);
            let delay = Delay { span: look.since(clock.now), lane: None };
            clock.after(delay, Event::Waited(Customer::Sleeper(d)));
        }
    }

    /// Device `d` looks, and finds its batch.
    pub(super) fn awake(&mut self, clock: &mut Clock, d: DeviceId) {
        let l = self.devices[d].loader;
        let Some(polling) = &mut self.loaders[l].polling else { return };
        let Some(found) = polling.find(d.number()) else { return };
        let Some(place) = self.loaders[l].waiters.iter().position(|waiter| *waiter == d) else {
            // Its job is over.
            return;
        };
        self.loaders[l].waiters.remove(place);
        self.end_starving(clock.now, d, WorkerId::new(found.worker), Some(found.slept(clock.now)));
        self.take_batch(clock, d);
        self.unblock_last(clock, l);
    }
}
