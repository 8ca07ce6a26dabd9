//! Loaders that make batches on request, by the rules of the simulation (`sim::requests`).

use super::loader::LoaderRun;
use super::state::{Item, State};
use forebay_engine::Time;

impl State {
    /// Requests a batch for the trainer of loader `l`.
    pub(super) fn want_request(&mut self, now: Time, l: usize) {
        if let Some(requests) = &mut self.loaders[l].requests {
            requests.want(now);
            self.ask(now, l);
        }
    }

    /// Replaces the request for a batch that the trainer of loader `l` has taken.
    pub(super) fn replace_request(&mut self, now: Time, l: usize) {
        if let Some(requests) = &mut self.loaders[l].requests {
            requests.take(now);
            self.ask(now, l);
        }
    }

    /// Sends to loader `l` all requests that are due, and starts idle workers for them.
    pub(super) fn ask(&mut self, now: Time, l: usize) {
        let loader = &mut self.loaders[l];
        let idle = &mut self.stages[loader.stages.start].buffer.idle;
        while let Some(requests) = &mut loader.requests
            && let Some(inbox) = requests.ask(now)
        {
            let place = match requests.in_turn() {
                true => idle.iter().position(|w| *w == loader.workers.start + inbox),
                false => (!idle.is_empty()).then_some(0),
            };
            if let Some(w) = place.and_then(|place| idle.remove(place)) {
                loader.queue.set_blocked(now, false);
                self.runnable.push_back(w);
            }
        }
    }
}

impl LoaderRun {
    /// Returns the next item that worker `w` of the first stage was asked for; `None` if there is none.
    pub(super) fn next_request(&mut self, w: u32) -> Option<Item> {
        let request = self.requests.as_mut()?.next(w - self.workers.start)?;
        let samples = request.samples;
        self.started += samples;
        self.in_progress += samples;
        let (first, sequence, ready) = (request.first, request.batch, request.ready);
        Some(Item { first, samples, sequence, ready, ..Item::default() })
    }
}
