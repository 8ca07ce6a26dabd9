//! Loaders that make batches on request: the rules of the simulated world (`sim::requests`).

use super::state::{Item, State};
use crate::engine::Time;

impl State {
    /// The trainer wants a batch.
    pub(super) fn want_request(&mut self, now: Time) {
        if let Some(requests) = &mut self.requests {
            requests.want(now);
            self.ask(now);
        }
    }

    /// The trainer has taken a batch.
    pub(super) fn replace_request(&mut self, now: Time) {
        if let Some(requests) = &mut self.requests {
            requests.take(now);
            self.ask(now);
        }
    }

    /// Asks for all that is due; idle workers begin.
    pub(super) fn ask(&mut self, now: Time) {
        while let Some(requests) = &mut self.requests
            && let Some(inbox) = requests.ask(now)
        {
            let idle = &mut self.stages[0].idle;
            // Workers of the first stage come first.
            let place = match requests.in_turn() {
                true => idle.iter().position(|w| *w == inbox),
                false => (!idle.is_empty()).then_some(0),
            };
            if let Some(w) = place.and_then(|place| idle.remove(place)) {
                self.queue.set_blocked(now, false);
                self.runnable.push_back(w);
            }
        }
    }

    /// What worker `w` of the first stage was asked for next.
    pub(super) fn next_request(&mut self, w: u32) -> Option<Item> {
        let request = self.requests.as_mut()?.next(w)?;
        let samples = request.samples;
        self.started += samples;
        self.in_progress += samples;
        let (first, sequence, ready) = (request.first, request.batch, request.ready);
        Some(Item { first, samples, sequence, ready, ..Item::default() })
    }

    /// Worker `w` has made `item` for the trainer.
    pub(super) fn deliver(&mut self, now: Time, w: u32, item: &Item) {
        let Some(requests) = &mut self.requests else {
            return self.enqueue(now, w, item.samples);
        };
        requests.finish(now, item.sequence);
        while let Some(requests) = &mut self.requests
            && let Some(samples) = requests.hand_out()
        {
            self.enqueue(now, w, samples);
        }
    }
}
