//! Loaders that make batches on request: the choice of workers for the batches, and the start of their work.

use forebay_metrics::{Activity, NOBODY};
use forebay_report::Cause;

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::ids::{LoaderId, WorkerId};
use super::invariant::broken;
use super::loaders::Loaders;
use super::worker::{Item, Phase};

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
    pub(super) fn replace_request(&mut self, env: &mut Env, l: LoaderId) {
        let Some(requests) = &mut self.loaders[l].requests else {
            return broken("only loaders that make batches on request are asked for them");
        };
        requests.take(env.now);
        self.ask(env, l);
    }

    /// Makes all requests to loader `l` that are due, and lets idle workers begin on them.
    pub(super) fn ask(&mut self, env: &mut Env, l: LoaderId) {
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
