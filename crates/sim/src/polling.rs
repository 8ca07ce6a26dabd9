//! Loaders that poll: a worker or device that finds nothing to do sleeps and looks again, instead of being woken.

use forebay_metrics::Promise;
use forebay_report::Cause;

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::ids::{DeviceId, LoaderId, WorkerId};
use super::invariant::broken;
use super::loaders::Loaders;
use super::worker::Phase;

impl Loaders {
    /// Returns whether the queue of the loader of worker `w` holds enough batches; if so, the worker sleeps before it looks
    /// again.
    #[cold]
    pub(super) fn finds_enough(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let loader = &mut self.loaders[self.workers[w].loader];
        let Some(polling) = &loader.pacing.polling else { return false };
        let delay = Delay { span: polling.period(), lane: None };
        if !polling.is_enough(loader.queue.level()) || loader.progress.left() == 0 {
            return false;
        }
        loader.queue.set_blocked(env.now, true);
        self.enter(env, w, Phase::Asleep, Cause::Latency);
        env.after(delay, Event::Waited(ActivityId::Worker(w)));
        true
    }

    /// Lets worker `w` look at the queue again after its sleep.
    pub(super) fn look_again(&mut self, env: &mut Env, w: WorkerId) {
        let worker = &mut self.workers[w];
        worker.phase = Phase::Ready;
        self.loaders[worker.loader].queue.set_blocked(env.now, false);
        self.run_worker(env, w);
    }

    /// Promises a sleeping device the batch that worker `w` has put into the queue, and schedules the poll at which that device
    /// will find the batch.
    #[cold]
    pub(super) fn promise(&mut self, env: &mut Env, l: LoaderId, w: WorkerId) {
        let loader = &mut self.loaders[l];
        let Some(polling) = &mut loader.pacing.polling else {
            return broken("only devices of loaders that poll are promised batches");
        };
        let waiter = |place: usize| loader.waiters.get(place).map(|waiter| waiter.device.number());
        while let Some(d) = polling.promise(env.now, w.number(), waiter, &loader.queue) {
            let Some(waiter) = loader.waiters.get(polling.promised() - 1) else {
                return broken("a batch is promised to a device that waits");
            };
            let look = polling.next_look(waiter.since, env.now);
            let delay = Delay { span: look.since(env.now), lane: None };
            env.after(delay, Event::Waited(ActivityId::Sleeper(DeviceId::new(d))));
        }
    }

    /// Returns the batch that was promised to device `d` and removes the device from the waiting ones. `None` if nothing was
    /// promised or the device no longer waits.
    pub(super) fn find_promised(&mut self, l: LoaderId, d: DeviceId) -> Option<Promise> {
        let loader = &mut self.loaders[l];
        let found = loader.pacing.polling.as_mut()?.find(d.number())?;
        loader.waiters.remove(d).then_some(found)
    }
}
