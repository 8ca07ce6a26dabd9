//! Stages in which only some of the workers work at the same time, because the number of active workers is tuned.

use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY};

use super::env::Env;
use super::ids::WorkerId;
use super::loaders::Loaders;
use super::worker::Phase;

impl Loaders {
    /// Returns whether worker `w` may look for input; otherwise the worker rests until the tuner calls it.
    #[cold]
    pub(super) fn may_work(&mut self, env: &mut Env, w: WorkerId) -> bool {
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
