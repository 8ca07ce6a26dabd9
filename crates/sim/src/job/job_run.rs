//! A job copy: its parts, its plan, and the state of its ranks.

use std::collections::BTreeMap;

use forebay_engine::{Fingerprint, Time};
use forebay_metrics::Steps;
use forebay_model::law::StepLaw;
use forebay_model::random::Sampler;
use forebay_report::StallCause;
use forebay_scenario::{BatchInterval, Goal};

use super::learners::LearnersRun;
use super::program::{Programs, Spread};
use super::sampled::SampledJob;
use super::tally::Tally;
use crate::device::{CpuThreads, LaunchRun};
use crate::env::{Delay, broken};
use crate::ids::{IdVec, PartId, Parts};

/// One copy of a job: its parts, its plan, and the state of its ranks.
#[derive(Debug)]
pub(crate) struct JobRun {
    /// Index into the scenario's jobs.
    pub(crate) job: usize,
    pub(crate) copy: u32,
    /// Start time. If data sets are copied to the job copy's nodes first, this becomes the end of the copying as soon as the
    /// copying has ended.
    start: Time,
    pub(crate) parts: Parts,
    pub(crate) plan: Plan,
    /// The number of learners on each GPU, and the policy that chooses it.
    pub(super) learners: LearnersRun,
    /// Transfers between pipeline stages, and micro-batches. Empty if each model copy is one device that computes on whole
    /// batches.
    pub(crate) spread: Spread,
    open: OpenSteps,
    tally: Tally,
    /// What the job copy needs if only some of its nodes are simulated.
    pub(crate) sampled: Option<Box<SampledJob>>,
    finished: bool,
    pub(super) steps: Steps,
}

/// Settings that determine what the ranks of a job copy do. They stay the same during the run, except for the goal, which moves
/// when steps are repeated.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Samples of one step of a model copy.
    pub(crate) batch: u64,
    pub(crate) batches: Batches,
    /// Step time by batch size, over all pipeline stages.
    pub(crate) step: StepLaw,
    /// Time of each pipeline stage before jitter.
    pub(crate) stage_times: IdVec<PartId, Delay>,
    pub(crate) jitter: Option<Sampler>,
    /// The programs that the job copy's devices run in each step.
    pub(crate) programs: Programs,
    /// Threads of each model copy on the node's cores, if it trains on cores.
    pub(crate) threads: Option<CpuThreads>,
    /// Host-side work of each trainer on the node's cores, such as launching kernels, if there is any.
    pub(crate) launch: Option<Box<LaunchRun>>,
    pub(crate) goal: Goal,
    /// Maximum number of steps in progress at once.
    pub(crate) window: u64,
    /// Number of steps from one exchange between model copies to the next; at an exchange all model copies are at the same
    /// step.
    pub(crate) period: u64,
    /// Whether fresh samples count when all model copies have completed their step, instead of when a device takes them: model
    /// copies may be at different steps.
    pub(crate) counts_late: bool,
    /// Cause of a model copy's wait for the permission to begin its next step.
    pub(crate) gate: StallCause,
}

/// When the devices of a job copy need batches, and when their hosts take them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batches {
    pub(crate) interval: BatchInterval,
    /// Maximum number of steps for which hosts take batches beyond the step in progress.
    pub(crate) ahead: u64,
}

/// Steps of a job copy that are in progress.
#[derive(Debug, Default)]
struct OpenSteps {
    /// If model copies can be at different steps, or hosts take batches ahead: number of fresh samples of each step in
    /// progress.
    fresh: BTreeMap<u64, u64>,
    /// Steps in progress on smaller batches.
    smaller: Vec<SmallerBatch>,
}

/// A model copy's step on a batch that is smaller than a full one.
#[derive(Debug, Clone, Copy)]
struct SmallerBatch {
    model: u32,
    step: u64,
    /// Number of samples that the batch lacks, compared with a full one.
    missing: u64,
}

impl OpenSteps {
    /// Returns the number of samples that the batch of `model` lacks in `step`.
    fn missing(&self, model: u32, step: u64) -> u64 {
        let of = |smaller: &&SmallerBatch| smaller.model == model && smaller.step == step;
        self.smaller.iter().find(of).map_or(0, |smaller| smaller.missing)
    }

    /// Removes the smaller batches of `step`, of one model copy or of all, and returns the number of samples that they lack.
    fn take_missing(&mut self, model: Option<u32>, step: u64) -> u64 {
        let of = |smaller: &mut SmallerBatch| {
            smaller.step == step && model.is_none_or(|model| smaller.model == model)
        };
        self.smaller.extract_if(.., of).map(|smaller| smaller.missing).sum()
    }
}

impl JobRun {
    /// Returns a job copy that has no parts yet: copy number `copy` of the scenario's job number `job`.
    pub(crate) fn new(
        (job, copy): (usize, u32),
        start: Time,
        plan: Plan,
        learners: LearnersRun,
        spread: Spread,
        tally: Tally,
        steps: Steps,
    ) -> JobRun {
        let (parts, open, finished) = (Parts::default(), OpenSteps::default(), false);
        let sampled = None;
        JobRun {
            job,
            copy,
            start,
            parts,
            plan,
            learners,
            spread,
            open,
            tally,
            sampled,
            finished,
            steps,
        }
    }

    /// Returns when the job copy starts.
    pub(super) fn start(&self) -> Time {
        self.start
    }

    /// Sets the start time to `now`, because it was not known before.
    pub(super) fn begin_at(&mut self, now: Time) {
        (self.start, self.steps) = (now, Steps::new(now));
    }

    /// Returns whether the job copy has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Ends the job copy.
    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    /// Returns whether the job copy has done all its steps, or trained on all its fresh samples.
    pub(super) fn has_reached_goal(&self) -> bool {
        let Goal { steps, fresh, .. } = self.plan.goal;
        self.steps.completed() == steps || self.steps.fresh() >= fresh
    }

    /// Returns how much of its goal the job copy has reached, as a share: of the steps or of the fresh samples, whichever share is
    /// larger.
    pub(crate) fn share_done(&self) -> f64 {
        let Goal { steps, fresh, .. } = self.plan.goal;
        let of_steps = self.steps.completed() as f64 / steps.max(1) as f64;
        of_steps.max(self.steps.fresh() as f64 / fresh.max(1) as f64)
    }

    /// Returns the number of model copies that are in use.
    pub(super) fn models(&self) -> u32 {
        match &self.tally {
            Tally::Together(barrier) => barrier.parties() / self.stages(),
            Tally::Apart(apart) => apart.models(),
        }
    }

    /// Returns the number of pipeline stages of each model copy.
    pub(crate) fn stages(&self) -> u32 {
        self.plan.stage_times.len().max(1) as u32
    }

    /// Returns the number of devices of the model copies that are in use.
    pub(super) fn devices_in_use(&self) -> u32 {
        self.models() * self.stages()
    }

    /// Remembers that the batch of `model` in `step` lacks `missing` samples.
    pub(super) fn add_smaller(&mut self, model: u32, step: u64, missing: u64) {
        self.open.smaller.push(SmallerBatch { model, step, missing });
    }

    /// Returns whether no batch has been recorded for a step in progress.
    pub(super) fn open_is_empty(&self) -> bool {
        self.open.fresh.is_empty() && self.open.smaller.is_empty()
    }

    /// Adds which devices have ended steps that are not complete to a fingerprint, if model copies train together.
    pub(super) fn describe_tally(&self, to: &mut Fingerprint) {
        if let Tally::Together(barrier) = &self.tally {
            barrier.describe(to);
        }
    }

    /// Returns whether any step in progress has a smaller batch.
    pub(super) fn has_smaller_batch(&self) -> bool {
        !self.open.smaller.is_empty()
    }

    /// Returns the number of samples that the batch of `model` lacks in `step`.
    pub(super) fn missing(&self, model: u32, step: u64) -> u64 {
        self.open.missing(model, step)
    }

    /// Returns the time of an operation on a batch that lacks `missing` samples; on a full batch it takes `full`.
    pub(super) fn time_of_smaller(&self, full: Delay, missing: u64) -> Delay {
        let of = |batch: u64| self.plan.step.seconds(batch as f64);
        let part = of(self.plan.batch - missing) / of(self.plan.batch);
        if missing == 0 || !part.is_finite() {
            return full;
        }
        Delay::once(full.span.seconds() * part)
    }

    /// Returns whether the job copy has a single device, and each wait of this device for a batch ends before anything else
    /// happens to the device.
    pub(crate) fn waits_alone(&self) -> bool {
        self.parts.devices.len() == 1 && self.counts_taken()
    }

    /// Returns whether model copies can be at different steps.
    pub(super) fn ranks_may_diverge(&self) -> bool {
        self.plan.counts_late || self.trains_apart()
    }

    /// Returns whether fresh samples are counted when a device takes them, instead of when their step is complete.
    pub(super) fn counts_taken(&self) -> bool {
        !self.ranks_may_diverge() && self.plan.batches.ahead == 0
    }

    /// Returns whether each model copy goes on by itself, whatever step the others are at.
    pub(super) fn trains_apart(&self) -> bool {
        self.tally.apart().is_some()
    }

    /// Counts `samples` fresh samples that model copy `model` takes for `step`.
    pub(super) fn add_fresh(&mut self, model: u32, step: u64, samples: u64) {
        let at_once = self.counts_taken();
        match &mut self.tally {
            Tally::Apart(apart) => apart.add_fresh(model, step, samples),
            Tally::Together(_) if !at_once => {
                *self.open.fresh.entry(step).or_default() += samples;
            }
            Tally::Together(_) => self.steps.add_fresh(samples),
        }
    }

    /// Returns whether a model copy may begin `step`, given the progress of the other model copies.
    pub(super) fn may_begin(&self, step: u64) -> bool {
        let round = step - step % self.plan.period;
        let others = self.trains_apart() || round < self.steps.completed() + self.plan.window;
        others && !self.learners.holds(step)
    }

    /// Returns whether all model copies wait for each other when `steps` steps are complete.
    pub(super) fn meets_after(&self, steps: u64) -> bool {
        self.plan.window == 1
            && (steps.is_multiple_of(self.plan.period) || steps == self.plan.goal.steps)
    }

    /// Returns whether `step` comes right after the job's last step, and no model copy may begin such a step.
    pub(super) fn is_beyond(&self, step: u64) -> bool {
        step == self.plan.goal.steps && !self.goes_beyond()
    }

    /// Returns whether a single model copy may do more steps than the job's number of steps: it may if the job counts the steps
    /// of all model copies together.
    pub(super) fn goes_beyond(&self) -> bool {
        self.tally.apart().is_some_and(|apart| apart.goes_beyond)
    }

    /// Counts one more device that has ended `step`; returns whether all have, if they count steps together.
    pub(super) fn arrive(&mut self, step: u64) -> bool {
        match &mut self.tally {
            Tally::Together(barrier) => barrier.arrive(step),
            Tally::Apart(_) => false,
        }
    }

    /// Counts the fresh samples of the step that all model copies have just completed, and forgets what was open of it; returns the
    /// number of samples in the step.
    pub(super) fn close_step(&mut self) -> u64 {
        let step = self.steps.completed();
        let full = self.plan.batch * u64::from(self.models());
        self.steps.add_fresh(self.open.fresh.remove(&step).unwrap_or_default());
        full - self.open.take_missing(None, step)
    }

    /// Counts one more device of model copy `model` that has ended `step`, where model copies train by themselves; the model copy's
    /// step is over when all its devices have ended it. Returns the number of samples in a step of the job if that completes one.
    pub(super) fn count_own_step(&mut self, model: u32, step: u64) -> Option<u64> {
        let Tally::Apart(apart) = &mut self.tally else {
            broken("model copies of servers count steps of their own");
            return None;
        };
        if !apart.arrive(model, step) {
            return None;
        }
        let samples = self.plan.batch - self.open.take_missing(Some(model), step);
        self.steps.add_fresh(apart.end(model, step, samples));
        apart.take_whole()
    }

    /// Returns the number of steps of each model copy if they train by themselves; otherwise an empty list.
    pub(super) fn own_steps(&self) -> &[u64] {
        self.tally.own_steps()
    }

    /// Goes back to the state after `steps` complete steps on `fresh` fresh samples, of which each model copy that trains by itself
    /// has done `own`.
    pub(super) fn roll_back(&mut self, (steps, fresh): (u64, u64), own: &[u64]) {
        self.steps.roll_back(steps, fresh, self.start);
        self.tally.restart(own);
    }

    /// Forgets the batches of all steps in progress.
    pub(super) fn forget_open_steps(&mut self) {
        self.open = OpenSteps::default();
    }

    /// Changes the number of learners on each GPU at `now` to the number that the policy decided on, and returns it; all learners
    /// stand still.
    pub(super) fn change_learners(&mut self, now: Time) -> u32 {
        let (gpus, stages) = (self.models() / self.learners.number(), self.stages());
        let number = self.learners.change(now, self.steps.completed());
        if let Tally::Together(barrier) = &mut self.tally {
            barrier.set_parties(gpus * number * stages);
        }
        self.steps.share_among(self.learners.share());
        number
    }
}
