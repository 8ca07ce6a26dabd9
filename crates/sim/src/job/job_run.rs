//! A job copy: its parts, its plan, and the state of its ranks.

use std::collections::BTreeMap;

use forebay_engine::Time;
use forebay_metrics::Steps;
use forebay_model::law::StepLaw;
use forebay_model::random::Sampler;
use forebay_report::StallCause;
use forebay_scenario::{BatchInterval, Goal};

use super::learners::LearnersRun;
use super::program::{Programs, Spread};
use super::tally::Tally;
use crate::device::{CpuThreads, LaunchRun};
use crate::env::Delay;
use crate::ids::{IdVec, PartId, Parts};

/// One copy of a job: its parts, its plan, and the state of its ranks.
#[derive(Debug)]
pub(crate) struct JobRun {
    /// Index into the scenario's jobs.
    pub(crate) job: usize,
    pub(crate) copy: u32,
    /// Start time. If data sets are copied to the job copy's nodes first, this becomes the end of the copying as soon as the
    /// copying has ended.
    pub(crate) start: Time,
    pub(crate) parts: Parts,
    pub(crate) plan: Plan,
    /// The number of learners on each GPU, and the policy that chooses it.
    pub(crate) learners: LearnersRun,
    /// Transfers between pipeline stages, and micro-batches. Empty if each model copy is one device that computes on whole
    /// batches.
    pub(crate) spread: Spread,
    pub(crate) open: OpenSteps,
    pub(crate) tally: Tally,
    pub(crate) finished: bool,
    pub(crate) steps: Steps,
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
pub(crate) struct OpenSteps {
    /// If model copies can be at different steps, or hosts take batches ahead: number of fresh samples of each step in
    /// progress.
    pub(super) fresh: BTreeMap<u64, u64>,
    /// Steps in progress on smaller batches.
    pub(super) smaller: Vec<SmallerBatch>,
}

/// A model copy's step on a batch that is smaller than a full one.
#[derive(Debug, Clone, Copy)]
pub(super) struct SmallerBatch {
    model: u32,
    step: u64,
    /// Number of samples that the batch lacks, compared with a full one.
    missing: u64,
}

impl JobRun {
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

    /// Returns whether any step in progress has a smaller batch.
    pub(super) fn has_smaller_batch(&self) -> bool {
        !self.open.smaller.is_empty()
    }

    /// Returns the number of samples that the batch of `model` lacks in `step`.
    pub(super) fn missing(&self, model: u32, step: u64) -> u64 {
        let of = |smaller: &&SmallerBatch| smaller.model == model && smaller.step == step;
        self.open.smaller.iter().find(of).map_or(0, |smaller| smaller.missing)
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
        others && step < self.learners.held_at
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

    /// Returns the number of samples in `step` of `model` after the step has ended, and drops the entry for a smaller batch in
    /// that step.
    pub(super) fn take_samples(&mut self, model: u32, step: u64) -> u64 {
        let missing = self.missing(model, step);
        self.open.smaller.retain(|smaller| smaller.model != model || smaller.step != step);
        self.plan.batch - missing
    }

    /// Returns the number of samples in the step that all model copies have just completed, and drops the entries for smaller
    /// batches in that step.
    pub(super) fn samples_of_step(&mut self) -> u64 {
        let step = self.steps.completed();
        let full = self.plan.batch * u64::from(self.models());
        let missing = self.open.smaller.iter().filter(|smaller| smaller.step == step);
        let missing: u64 = missing.map(|smaller| smaller.missing).sum();
        self.open.smaller.retain(|smaller| smaller.step != step);
        full - missing
    }
}
