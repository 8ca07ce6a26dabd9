//! Stages of which not all workers work at once: the rules of the simulated world (`sim::tuned`).

use super::state::State;
use crate::account::{Activity, NOBODY};
use crate::engine::Time;

impl State {
    /// Whether worker `w` may look for input; otherwise it rests until it is called.
    pub(super) fn may_work(&mut self, now: Time, w: u32) -> bool {
        if self.tuner.is_none() {
            return true;
        }
        let (stage, place) = self.place(w);
        let may = self.tuner.as_mut().is_none_or(|tuner| tuner.enter(stage, place));
        if !may {
            self.note(now, w, Activity::Idle(NOBODY));
        }
        may
    }

    /// Worker `w` has looked for input, and found some or not.
    pub(super) fn tuned_input(&mut self, now: Time, w: u32, found: bool) {
        if self.tuner.is_none() {
            return;
        }
        let (stage, place) = self.place(w);
        match &mut self.tuner {
            Some(tuner) if found => tuner.begin(stage, place, now),
            Some(tuner) => tuner.leave(stage, place),
            None => {}
        }
    }

    /// Worker `w` has done with its item: time to look at what all have taken, perhaps.
    pub(super) fn tune(&mut self, now: Time, w: u32) {
        if self.tuner.is_none() {
            return;
        }
        let (stage, place) = self.place(w);
        let Some(tuner) = &mut self.tuner else { return };
        tuner.finish(stage, place, now);
        if !tuner.tune(now) {
            return;
        }
        for stage in 0..self.stages.len() {
            let free = self.tuner.as_mut().map_or(Vec::new(), |tuner| tuner.called(stage));
            let first = self.first_worker(stage);
            self.runnable.extend(free.into_iter().map(|place| first + place));
        }
    }

    /// Which stage worker `w` belongs to, and which of its workers it is.
    fn place(&self, w: u32) -> (usize, u32) {
        let stage = self.workers[w as usize].stage;
        (stage, w - self.first_worker(stage))
    }

    /// The first worker of `stage`: workers lie by stage.
    fn first_worker(&self, stage: usize) -> u32 {
        self.workers.partition_point(|worker| worker.stage < stage) as u32
    }
}
