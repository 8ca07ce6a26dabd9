//! Counts the steps that the ranks of a job copy have done: all together, or each model copy by itself.

use std::collections::VecDeque;

use forebay_engine::Fingerprint;

use crate::env::broken;
use crate::ids::{IdVec, ModelId};

/// The count of a job copy's steps.
#[derive(Debug, Clone)]
pub(crate) enum Tally {
    /// A step is complete when all devices have ended it.
    Together(Barrier),
    /// Model copies train by themselves: a step of the job is complete each time that they have done, together, as many steps as
    /// there are model copies.
    Apart(Apart),
}

/// The steps of model copies that train by themselves.
#[derive(Debug, Clone)]
pub(crate) struct Apart {
    /// Number of steps that each model copy has done.
    own: IdVec<ModelId, u64>,
    /// Number of devices of a model copy. For each model copy, `ended` holds the steps that some of its devices have ended and
    /// others have not, each with the number of devices that have.
    parts: u32,
    ended: IdVec<ModelId, VecDeque<(u64, u32)>>,
    /// For each model copy, the fresh samples that it has taken for each step in progress.
    fresh: IdVec<ModelId, VecDeque<(u64, u64)>>,
    /// Number of steps done, summed over model copies. `samples` counts the samples of the steps done since a step of the job was
    /// last complete.
    done: u64,
    samples: u64,
    /// Whether a model copy may do more steps than the job has.
    pub(super) goes_beyond: bool,
}

impl Apart {
    /// Returns the count of `models` model copies of `parts` devices each before their first steps.
    pub(crate) fn new((models, parts): (u32, u32), goes_beyond: bool) -> Apart {
        let (own, fresh) = (IdVec::filled(0, models), IdVec::filled(VecDeque::new(), models));
        let ended = IdVec::filled(VecDeque::new(), models);
        Apart { own, parts, ended, fresh, done: 0, samples: 0, goes_beyond }
    }

    /// Records that one more device of a model copy has ended `step`; returns whether all have.
    pub(super) fn arrive(&mut self, model: u32, step: u64) -> bool {
        if self.parts == 1 {
            return true;
        }
        let ended = &mut self.ended[ModelId::new(model)];
        if ended.back().is_none_or(|(last, _)| *last < step) {
            ended.push_back((step, 0));
        }
        let Some(of) = ended.iter_mut().find(|(of, _)| *of == step) else {
            broken("a device ends a step that its model copy has open");
            return false;
        };
        of.1 += 1;
        let all = of.1 == self.parts;
        if all {
            ended.pop_front();
        }
        all
    }

    /// Returns the number of model copies.
    pub(super) fn models(&self) -> u32 {
        self.own.len() as u32
    }

    /// Counts `samples` fresh samples that a model copy has taken for `step`.
    pub(super) fn add_fresh(&mut self, model: u32, step: u64, samples: u64) {
        self.fresh[ModelId::new(model)].push_back((step, samples));
    }

    /// Counts `step` of a model copy, with `samples` samples; returns the number of fresh ones.
    pub(super) fn end(&mut self, model: u32, step: u64, samples: u64) -> u64 {
        self.done += 1;
        self.samples += samples;
        let model = ModelId::new(model);
        self.own[model] = step + 1;
        let mut sum = 0;
        while let Some((_, samples)) = self.fresh[model].pop_front_if(|(of, _)| *of <= step) {
            sum += samples;
        }
        sum
    }

    /// Ends a step of the job if the model copies have now done as many steps as there are model copies, and returns the number of
    /// its samples.
    pub(super) fn take_whole(&mut self) -> Option<u64> {
        let whole = self.done.is_multiple_of(self.own.len() as u64);
        whole.then(|| std::mem::take(&mut self.samples))
    }
}

impl Tally {
    /// Returns the steps of model copies that train by themselves; `None` if they train together.
    pub(super) fn apart(&self) -> Option<&Apart> {
        match self {
            Tally::Together(_) => None,
            Tally::Apart(apart) => Some(apart),
        }
    }

    /// Returns the number of steps of each model copy if they train by themselves; otherwise an empty list.
    pub(super) fn own_steps(&self) -> &[u64] {
        self.apart().map_or(&[], |apart| apart.own.as_slice())
    }

    /// Goes back to the state in which the model copies have done `own` steps, and none is in progress.
    pub(super) fn restart(&mut self, own: &[u64]) {
        match self {
            Tally::Together(barrier) => barrier.reset(),
            Tally::Apart(apart) => {
                *apart = Apart {
                    own: own.iter().copied().collect(),
                    done: own.iter().sum(),
                    ..Apart::new((own.len() as u32, apart.parts), apart.goes_beyond)
                };
            }
        }
    }
}

/// Counts arrivals in each round; consecutive rounds may overlap, up to a window.
#[derive(Debug, Clone)]
pub struct Barrier {
    parties: u32,
    arrived: Vec<u32>,
}

impl Barrier {
    /// Returns a barrier for `parties` parties; round `r` must be over before any party arrives at round `r + window`.
    pub fn new(parties: u32, window: u32) -> Barrier {
        Barrier { parties, arrived: vec![0; window.max(1) as usize] }
    }

    /// Counts the arrival of a party at `round`; returns true if it was the last one, so that the round is over.
    pub fn arrive(&mut self, round: u64) -> bool {
        let slot = (round % self.arrived.len() as u64) as usize;
        self.arrived[slot] += 1;
        let last = self.arrived[slot] == self.parties;
        if last {
            self.arrived[slot] = 0;
        }
        last
    }

    /// Adds the numbers of model copies that have ended each unfinished round to a fingerprint.
    pub(super) fn describe(&self, to: &mut Fingerprint) {
        to.add_all(self.arrived.iter().copied().map(u64::from));
    }

    /// Forgets all arrivals.
    pub fn reset(&mut self) {
        self.arrived.fill(0);
    }

    /// Sets the number of parties from the next round on; no party may have arrived at that round yet.
    pub fn set_parties(&mut self, parties: u32) {
        self.parties = parties;
    }

    /// Returns the number of parties.
    pub fn parties(&self) -> u32 {
        self.parties
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barrier_opens_with_the_last_arrival_of_each_round() {
        let mut barrier = Barrier::new(3, 1);
        for round in 0..3 {
            assert!(!barrier.arrive(round));
            assert!(!barrier.arrive(round));
            assert!(barrier.arrive(round));
        }
    }

    #[test]
    fn arrivals_of_different_barrier_rounds_are_counted_separately() {
        let mut barrier = Barrier::new(2, 2);
        assert!(!barrier.arrive(0));
        assert!(!barrier.arrive(1));
        assert!(barrier.arrive(1));
        assert!(!barrier.arrive(2 + 1));
        assert!(barrier.arrive(0));
    }
}
