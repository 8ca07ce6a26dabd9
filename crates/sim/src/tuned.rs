//! Stages in which only some of the workers work at the same time, because the number of active workers is tuned.

use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY};

use super::env::Env;
use super::index::WorkerId;
use super::loaders::Loaders;
use super::worker::Phase;

impl Loaders {
    /// Returns whether worker `w` may look for input; otherwise the worker rests until the tuner calls it.
    #[cold]
    pub(super) fn may_work(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let (stage, place) = self.place(w);
        let loader = &mut self.loaders[self.workers[w].loader];
        let Some(tuner) = &mut loader.tuner else { return true };
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
        match &mut loader.tuner {
            Some(tuner) if found => tuner.begin(stage, place, now),
            Some(tuner) => tuner.leave(stage, place),
            None => {}
        }
    }

    /// Tells the tuner that worker `w` has finished its item; if it is time to tune, starts the workers that the tuner calls.
    #[cold]
    pub(super) fn tune(&mut self, now: Time, w: WorkerId) {
        let (stage, place) = self.place(w);
        let l = self.workers[w].loader;
        let Some(tuner) = &mut self.loaders[l].tuner else { return };
        tuner.finish(stage, place, now);
        if !tuner.tune(now) {
            return;
        }
        for stage in 0..self.loaders[l].first_worker.len() {
            let first = self.loaders[l].first_worker[stage];
            let free = self.loaders[l].tuner.as_mut().map_or(Vec::new(), |t| t.called(stage));
            free.into_iter().for_each(|place| self.make_ready(first + place));
        }
    }

    /// Returns the index of the stage of worker `w` within its loader, and the worker's index within that stage.
    fn place(&self, w: WorkerId) -> (usize, u32) {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        let stage = (worker.stage - loader.stages.start) as usize;
        (stage, w - loader.first_worker[stage])
    }
}
