//! Learners that average their models (Koliousis et al., *Crossbow*, PVLDB 12(11), 2019): each learner moves its model towards
//! the reference model of its GPU (a correction); when all learners have done so, the reference models are averaged among
//! GPUs.
//!
//! Order of events: a learner makes its n-th correction after it has trained for n periods and after the reference models were
//! averaged n − 1 times. The correction begins with the averaging's latency (launches of kernels for each learner of the GPU, one
//! after the other; waits between streams). With `overlap` the learner goes on training right after its correction, while the
//! others still train or correct their models, and while the reference models are averaged; otherwise it waits for the average.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_scenario::Averaging;

use super::communicators::Communicators;
use crate::env::{Delay, Env};
use crate::ids::{AveragesId, CommunicatorId, DeviceId, IdVec, Ids, PartId};

/// Number of passes over a model's bytes for a learner's correction: it reads its own model, the reference model and the sum
/// of corrections, and writes its own model and the sum.
const OWN_PASSES: f64 = 5.0;

/// Number of passes over a model's bytes for an average: it reads the reference model, the previous one and the sum of
/// corrections, and writes the new reference model.
const SHARED_PASSES: f64 = 4.0;

/// The averages of the models of a job copy's learners.
#[derive(Debug)]
pub(crate) struct Averages {
    /// Steps from one averaging to the next.
    period: u64,
    /// Whether learners go on training while the reference models are averaged.
    overlap: bool,
    /// Time that an averaging takes for each learner on a GPU, besides moving the bytes below [s].
    latency: f64,
    /// Bytes that a learner's correction moves in the memory of each GPU of a stage, by stage [B].
    own: IdVec<PartId, f64>,
    /// Time of one update of a GPU's reference model.
    shared: Delay,
    /// Number of times that the reference models have been averaged among GPUs.
    over: u64,
    /// Number of learners that have corrected their models since the last average.
    drawn: u32,
    /// The learner that was the last one to correct its model for the current average, and when its correction began.
    last: Option<(DeviceId, Time)>,
    /// Learners that wait for the average before their next correction.
    waiting: VecDeque<DeviceId>,
}

impl Averages {
    /// Returns the averaging of models of which each GPU of a stage has `bytes` bytes, in memory of `bandwidth` [B/s]. `overlap`:
    /// learners go on training while reference models are averaged.
    pub(crate) fn new(
        averaging: Averaging,
        overlap: bool,
        bytes: &[f64],
        bandwidth: f64,
    ) -> Averages {
        let most = bytes.iter().copied().fold(0.0, f64::max);
        Averages {
            period: averaging.period,
            overlap,
            latency: averaging.latency,
            own: bytes.iter().map(|bytes| OWN_PASSES * bytes).collect(),
            shared: Delay::once(SHARED_PASSES * most / bandwidth),
            over: 0,
            drawn: 0,
            last: None,
            waiting: VecDeque::new(),
        }
    }

    /// Returns whether learners go on training while the reference models are averaged.
    pub(crate) fn overlaps(&self) -> bool {
        self.overlap
    }

    /// Returns the time of a correction besides moving bytes, where a GPU has `learners` learners [s].
    pub(crate) fn latency(&self, learners: u32) -> f64 {
        self.latency * f64::from(learners)
    }

    /// Returns the bytes that a learner's correction of stage `stage` of its model moves in the memory of each GPU [B].
    pub(crate) fn bytes_of(&self, stage: PartId) -> f64 {
        self.own[stage]
    }

    /// Returns the time of one update of a GPU's reference model.
    pub(crate) fn update(&self) -> Delay {
        self.shared
    }

    /// Returns whether the last average that is due after `steps` steps has been made.
    pub(crate) fn is_made(&self, steps: u64) -> bool {
        steps / self.period <= self.over
    }

    /// Lets learner `d` wait for the average before its next correction.
    pub(crate) fn add_waiting(&mut self, d: DeviceId) {
        self.waiting.push_back(d);
    }

    /// Removes all learners that wait, and returns them, the longest wait first.
    pub(crate) fn take_waiting(&mut self) -> VecDeque<DeviceId> {
        std::mem::take(&mut self.waiting)
    }

    /// Counts the correction that learner `d` began at `start`; returns true if it is the last one of `learners` learners, so that
    /// the reference models can be averaged.
    pub(crate) fn add_correction(&mut self, (d, start): (DeviceId, Time), learners: u32) -> bool {
        self.drawn += 1;
        let all = self.drawn == learners;
        if all {
            self.last = Some((d, start));
        }
        all
    }

    /// Returns the learner that was the last one of `learners` learners to correct its model for the current average, and when its
    /// correction began; `None` as long as not all have.
    pub(crate) fn last_correction(&self, learners: u32) -> Option<(DeviceId, Time)> {
        self.last.filter(|_| self.drawn == learners)
    }

    /// Ends an average: the reference models of all GPUs are up to date.
    pub(crate) fn end(&mut self) {
        (self.over, self.drawn) = (self.over + 1, 0);
    }

    /// Returns the number of steps of each learner that the reference models include.
    pub(super) fn averaged_steps(&self) -> u64 {
        self.over * self.period
    }

    /// Sets the averages, none of which is in progress, back to the ones that include `steps` steps: all learners have the
    /// reference models that they made.
    pub(super) fn restore(&mut self, steps: u64) {
        (self.over, self.drawn) = (steps / self.period, 0);
        self.waiting.clear();
    }

    /// Returns whether all averages due up to step `steps` have been made. If no learner may begin a step after that one, all
    /// learners then stand still.
    pub(crate) fn rests_at(&self, steps: u64) -> bool {
        steps / self.period == self.over
    }

    /// Returns the earliest number of steps after which all learners can be held (kept from beginning further steps), if the
    /// slowest learner has completed `completed` steps.
    pub(crate) fn rest_after(&self, completed: u64) -> u64 {
        (completed / self.period + 2) * self.period
    }
}

impl Communicators {
    /// Adds the averaging of a job copy's models, unless they are not averaged; returns its id, as a range that may be empty.
    pub(crate) fn add_averages(&mut self, averages: Option<Averages>) -> Ids<AveragesId> {
        let first = self.averages.next_id();
        self.averages.extend(averages);
        self.averages.ids_from(first)
    }

    /// Returns the averages of a job copy's models; `None` if its model copies do not average their models.
    pub(crate) fn averages(&self, of: Ids<AveragesId>) -> Option<&Averages> {
        self.averages[of].first()
    }

    /// Returns the averages of a job copy's models, to change them.
    pub(crate) fn averages_mut(&mut self, of: Ids<AveragesId>) -> Option<&mut Averages> {
        self.averages[of].first_mut()
    }

    /// Returns the number of steps of each model copy that the averages `of` include, which is what a checkpoint of them
    /// contains; `None` if no models are averaged.
    pub(crate) fn averaged_steps(&self, of: Ids<AveragesId>) -> Option<u64> {
        self.averages(of).map(Averages::averaged_steps)
    }

    /// Starts the allreduces of learners' corrections among the GPUs of a job copy with communicators `of`; returns false if there
    /// are none, because the job copy has a single GPU.
    pub(crate) fn begin_averages(&mut self, env: &mut Env, of: Ids<CommunicatorId>) -> bool {
        let all: Vec<CommunicatorId> =
            of.iter().filter(|c| self.all[*c].averages_models()).collect();
        for c in &all {
            self.all[*c].start_all(env.now);
        }
        for c in &all {
            self.begin_next(env, *c);
        }
        !all.is_empty()
    }

    /// Returns whether all allreduces of learners' corrections of a job copy with communicators `of` are over.
    pub(crate) fn are_averaged(&self, of: Ids<CommunicatorId>) -> bool {
        self.all[of].iter().filter(|of| of.averages_models()).all(|of| of.is_over())
    }
}
