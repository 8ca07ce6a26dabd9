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

use crate::env::Delay;
use crate::ids::{DeviceId, IdVec, PartId};

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
    pub(crate) period: u64,
    /// Whether learners go on training while the reference models are averaged.
    pub(crate) overlap: bool,
    /// Time that an averaging takes for each learner on a GPU, besides moving the bytes below [s].
    pub(crate) latency: f64,
    /// Bytes that a learner's correction moves in the memory of each GPU of a stage, by stage [B].
    pub(crate) own: IdVec<PartId, f64>,
    /// Time of one update of a GPU's reference model.
    pub(crate) shared: Delay,
    /// Number of times that the reference models have been averaged among GPUs.
    pub(crate) over: u64,
    /// Number of learners that have corrected their models since the last average.
    pub(crate) drawn: u32,
    /// The learner that was the last one to correct its model for the current average, and when its correction began.
    pub(crate) last: Option<(DeviceId, Time)>,
    /// Learners that wait for the average before their next correction.
    pub(crate) waiting: VecDeque<DeviceId>,
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
