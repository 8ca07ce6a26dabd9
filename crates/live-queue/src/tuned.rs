//! Stages of which not all workers work at once: the rules of the simulated world (`sim::tuned`).

use super::loader::LoaderRun;
use super::state::{State, WorkerRun};
use forebay_engine::Time;
use forebay_metrics::{Activity, NOBODY, Tuner};

impl State {
    /// Whether worker `w` may look for input; otherwise it rests until it is called.
    pub(super) fn may_work(&mut self, now: Time, w: u32) -> bool {
        let may = self.tuner_of(w).is_none_or(|(tuner, stage, place)| tuner.enter(stage, place));
        if !may {
            self.note(now, w, Activity::Idle(NOBODY));
        }
        may
    }

    /// Worker `w` has looked for input, and found some or not.
    pub(super) fn tuned_input(&mut self, now: Time, w: u32, found: bool) {
        match self.tuner_of(w) {
            Some((tuner, stage, place)) if found => tuner.begin(stage, place, now),
            Some((tuner, stage, place)) => tuner.leave(stage, place),
            None => {}
        }
    }

    /// Worker `w` has done with its item: time to look at what all have taken, perhaps.
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

    /// What tunes the stages of worker `w`, if anything; its stage there, and which of the workers it is.
    fn tuner_of(&mut self, w: u32) -> Option<(&mut Tuner, usize, u32)> {
        let WorkerRun { loader, stage, .. } = self.workers[w as usize];
        self.loaders[loader].tuner.as_ref()?;
        let place = w - self.first_worker(stage);
        let LoaderRun { tuner, stages, .. } = &mut self.loaders[loader];
        Some((tuner.as_mut()?, stage - stages.start, place))
    }

    /// The first worker of `stage`: workers lie by stage.
    fn first_worker(&self, stage: usize) -> u32 {
        self.workers.partition_point(|worker| worker.stage < stage) as u32
    }
}
