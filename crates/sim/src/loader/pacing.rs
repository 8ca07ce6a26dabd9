//! What makes workers rest or begin although nothing else does: batches made on request, pipelines that each epoch builds anew, a tuned
//! number of active workers, and polling instead of being woken.

use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY, Promise};
use forebay_report::Cause;

use super::loader_run::{LoaderProgress, LoaderRun};
use super::loaders::Loaders;
use super::worker::{Item, Phase, Worker};
use crate::env::{ActivityId, Delay, Env, Event, broken};
use crate::ids::{DeviceId, LoaderId, WorkerId};

impl Loaders {
    /// Records that a trainer of loader `l` wants a batch, and makes the requests that are due.
    pub(super) fn want_request(&mut self, env: &mut Env, l: LoaderId) {
        let Some(requests) = &mut self.loaders[l].requests else {
            return broken("only loaders that make batches on request are asked for them");
        };
        requests.want(env.now);
        self.ask(env, l);
    }

    /// Records that a trainer of loader `l` has taken a batch, and requests the next.
    pub(crate) fn replace_request(&mut self, env: &mut Env, l: LoaderId) {
        let Some(requests) = &mut self.loaders[l].requests else {
            return broken("only loaders that make batches on request are asked for them");
        };
        requests.take(env.now);
        self.ask(env, l);
    }

    /// Makes all requests to loader `l` that are due, and lets idle workers begin on them.
    pub(crate) fn ask(&mut self, env: &mut Env, l: LoaderId) {
        while let Some(requests) = &mut self.loaders[l].requests
            && let Some(inbox) = requests.ask(env.now)
        {
            let of = requests.in_turn().then_some(inbox);
            self.call(env, l, of);
        }
    }

    /// Wakes worker number `of` of the first stage of loader `l` if the worker is idle. With `None`, wakes any idle worker.
    fn call(&mut self, env: &mut Env, l: LoaderId, of: Option<u32>) {
        let loader = &mut self.loaders[l];
        let idle = &mut self.stages[loader.stages.first()].buffer.idle;
        let first = loader.stages.workers.start;
        let place = match of {
            Some(of) => idle.iter().position(|w| *w == (first + of).number()),
            None => (!idle.is_empty()).then_some(0),
        };
        if let Some(w) = place.and_then(|place| idle.remove(place)) {
            loader.queue.set_blocked(env.now, false);
            self.make_ready(WorkerId::new(w));
        }
    }

    /// Gives worker `w` of a first stage its next requested batch; returns false if no batch is requested from the worker, or
    /// if the worker is still starting.
    pub(super) fn take_request(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &self.workers[w];
        let (s, l) = (worker.stage, worker.loader);
        let loader = &mut self.loaders[l];
        let request = match &mut loader.requests {
            Some(requests) => requests.next(w - loader.stages.workers.start),
            None => None,
        };
        let Some(request) = request else {
            loader.queue.set_blocked(env.now, true);
            self.note(env, w, Activity::Idle(NOBODY)).phase = Phase::Idle;
            self.stages[s].buffer.idle.push_back(w.number());
            return false;
        };
        loader.progress.start(request.samples);
        let (first, samples) = (request.first, request.samples as u32);
        let item = Item { first, samples, sequence: request.batch, ..Item::default() };
        self.workers[w].begin_item(item);
        if request.ready > env.now {
            self.enter(env, w, Phase::Starting, Cause::Restart);
            let wait = Delay { span: request.ready.since(env.now), lane: None };
            env.after(wait, Event::Waited(ActivityId::Worker(w)));
            return false;
        }
        true
    }
}

impl LoaderRun {
    /// Returns the number of samples that the first stage may start now: those left of the epoch, if the pipeline is built anew.
    pub(super) fn left_of_epoch(&self) -> u64 {
        let started = self.progress.started;
        self.pacing.rebuilds.as_ref().map_or(u64::MAX, |of| of.left(started))
    }
}

impl Loaders {
    /// Begins the next epoch of loader `l`, if its pipeline is built anew and all batches of the last epoch have been taken: workers of the
    /// first stage take samples again.
    pub(super) fn begin_epoch_if_over(&mut self, env: &mut Env, l: LoaderId) {
        let loader = &self.loaders[l];
        let Some(rebuilds) = &loader.pacing.rebuilds else { return };
        let LoaderProgress { started, in_progress, .. } = loader.progress;
        if rebuilds.left(started) == 0 && in_progress == 0 && !loader.queue.has_batch() {
            self.begin_epoch(env, l);
        }
    }

    /// Begins the epoch of the next sample of loader `l`, if its pipeline is built anew.
    pub(super) fn begin_epoch(&mut self, env: &mut Env, l: LoaderId) {
        let loader = &mut self.loaders[l];
        let (started, left) = (loader.progress.started, loader.progress.left());
        let Some(rebuilds) = &mut loader.pacing.rebuilds else { return };
        let samples = rebuilds.begin(env.now, started).min(left);
        let ready = rebuilds.ready();
        loader.queue.begin_epoch();
        if let Some(tuner) = &mut loader.pacing.tuner {
            tuner.begin_epoch(ready);
        }
        let all = loader.stages.all;
        self.stages[all].iter_mut().for_each(|stage| stage.buffer.begin_epoch(samples));
        let idle = std::mem::take(&mut self.stages[all.start].buffer.idle);
        idle.into_iter().for_each(|w| self.make_ready(WorkerId::new(w)));
    }

    /// Lets worker `w` wait until the pipeline has been built, if it belongs to the first stage and has an item before that; returns whether
    /// it waits.
    #[cold]
    pub(super) fn waits_for_pipeline(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Worker { stage, loader, .. } = self.workers[w];
        let Some(rebuilds) = &self.loaders[loader].pacing.rebuilds else { return false };
        let ready = rebuilds.ready();
        if ready <= env.now || self.stages[stage].previous.is_some() {
            return false;
        }
        self.enter(env, w, Phase::Starting, Cause::Restart);
        let wait = Delay { span: ready.since(env.now), lane: None };
        env.after(wait, Event::Waited(ActivityId::Worker(w)));
        true
    }
}

impl Loaders {
    /// Lets worker `w` sleep before it looks again, if the queue of its loader holds enough batches; returns whether it sleeps.
    #[cold]
    pub(super) fn sleep_if_enough(&mut self, env: &mut Env, w: WorkerId) -> bool {
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

    /// Takes the batch that was promised to device `d`, which then waits no longer. `None` if nothing was promised or the device
    /// does not wait.
    pub(crate) fn take_promised(&mut self, l: LoaderId, d: DeviceId) -> Option<Promise> {
        let loader = &mut self.loaders[l];
        let found = loader.pacing.polling.as_mut()?.find(d.number())?;
        loader.waiters.remove(d).then_some(found)
    }
}

impl Loaders {
    /// Lets worker `w` look for input, or rest until the tuner calls it; returns whether it may look.
    #[cold]
    pub(super) fn enter_if_called(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let (stage, place) = self.place(w);
        let loader = &mut self.loaders[self.workers[w].loader];
        // A loader that polls and has no tuner lets all workers look.
        let Some(tuner) = &mut loader.pacing.tuner else { return true };
        let may = tuner.enter(stage, place);
        if !may {
            self.note(env, w, Activity::Idle(NOBODY)).phase = Phase::Idle;
        }
        may
    }

    /// Tells the tuner whether worker `w` has `found` input when it looked for some.
    #[cold]
    pub(super) fn tuned_input(&mut self, now: Time, w: WorkerId, found: bool) {
        let (stage, place) = self.place(w);
        let loader = &mut self.loaders[self.workers[w].loader];
        match &mut loader.pacing.tuner {
            Some(tuner) if found => {
                // The first stage begins when the pipeline has been built.
                let built = loader.pacing.rebuilds.as_ref().filter(|_| stage == 0);
                let since = built.map_or(now, |of| now.max(of.ready()));
                tuner.begin(stage, place, since);
            }
            Some(tuner) => tuner.leave(stage, place),
            None => {}
        }
    }

    /// Tells the tuner that worker `w` has finished its item; if it is time to tune, starts the workers that the tuner calls.
    #[cold]
    pub(super) fn tune(&mut self, now: Time, w: WorkerId) {
        let (stage, place) = self.place(w);
        let l = self.workers[w].loader;
        let Some(tuner) = &mut self.loaders[l].pacing.tuner else { return };
        tuner.finish(stage, place, now);
        if !tuner.tune(now) {
            return;
        }
        let all = self.loaders[l].stages.all;
        for s in all {
            let first = self.loaders[l].stages.first_worker[s];
            let tuner = self.loaders[l].pacing.tuner.as_mut();
            let free = tuner.map_or(Vec::new(), |tuner| tuner.called((s - all.start) as usize));
            free.into_iter().for_each(|place| self.make_ready(first + place));
        }
    }

    /// Returns the index of the stage of worker `w` within its loader, and the worker's index within that stage.
    fn place(&self, w: WorkerId) -> (usize, u32) {
        let worker = &self.workers[w];
        let stages = &self.loaders[worker.loader].stages;
        let number = worker.stage - stages.first();
        (number as usize, w - stages.first_worker[worker.stage])
    }
}
