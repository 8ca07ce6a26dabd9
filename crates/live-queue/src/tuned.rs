//! Stages in which only some of the workers work at the same time, by the rules of the simulation (`sim::tuned`).

use super::loader::LoaderRun;
use super::state::{State, WorkerRun};
use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY, Tuner};

impl State {
    /// Returns whether worker `w` may look for input. If not, it rests until the tuner calls it.
    pub(super) fn may_work(&mut self, now: Time, w: u32) -> bool {
        let may = self.tuner_of(w).is_none_or(|(tuner, stage, place)| tuner.enter(stage, place));
        if !may {
            self.note(now, w, Activity::Idle(NOBODY));
        }
        may
    }

    /// Reports to the tuner that worker `w` has looked for input, and whether it `found` some.
    pub(super) fn tuned_input(&mut self, now: Time, w: u32, found: bool) {
        match self.tuner_of(w) {
            Some((tuner, stage, place)) if found => tuner.begin(stage, place, now),
            Some((tuner, stage, place)) => tuner.leave(stage, place),
            None => {}
        }
    }

    /// Reports to the tuner that worker `w` has finished its item. If the tuner then changes the number of workers, lets the
    /// workers that the tuner calls look for input.
    pub(super) fn tune(&mut self, now: Time, w: u32) {
        let Some((tuner, stage, place)) = self.tuner_of(w) else { return };
        tuner.finish(stage, place, now);
        if !tuner.tune(now) {
            return;
        }
        let stages = self.loaders[self.workers[w as usize].loader].stages.clone();
        for (stage, s) in stages.enumerate() {
            let called = self.tuner_of(w).map(|(tuner, ..)| tuner.called(stage));
            let first = self.first_worker(s);
            self.runnable.extend(called.into_iter().flatten().map(|place| first + place));
        }
    }

    /// Returns the tuner of worker `w`, with the index of its stage in the loader and its own index in the stage; `None` if
    /// nothing is tuned.
    fn tuner_of(&mut self, w: u32) -> Option<(&mut Tuner, usize, u32)> {
        let WorkerRun { loader, stage, .. } = self.workers[w as usize];
        self.loaders[loader].tuner.as_ref()?;
        let place = w - self.first_worker(stage);
        let LoaderRun { tuner, stages, .. } = &mut self.loaders[loader];
        Some((tuner.as_mut()?, stage - stages.start, place))
    }

    /// Returns the number of the first worker in `stage`; workers are in order of stages.
    fn first_worker(&self, stage: usize) -> u32 {
        self.workers.partition_point(|worker| worker.stage < stage) as u32
    }
}
