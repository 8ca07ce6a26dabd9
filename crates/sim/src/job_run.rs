//! A job copy: its parts, its plan, and the state of its ranks.

use std::collections::BTreeMap;

use forebay_engine::Time;
use forebay_metrics::Steps;
use forebay_model::law::StepLaw;
use forebay_model::random::Sampler;
use forebay_scenario::{BatchInterval, Goal};

use super::averaging::AveragingRun;
use super::barrier::Barrier;
use super::communication::{CommunicatorRun, ServerRun, SyncRun};
use super::core_steps::CpuThreads;
use super::device::Device;
use super::event::Delay;
use super::index::Ids;
use super::launch::LaunchRun;
use super::learners::LearnersRun;
use super::loader::LoaderRun;
use super::program::{ParallelRun, Programs};
use super::recovery::RecoveryRun;
use super::staging::Staging;

/// One copy of a job: its parts, its plan, and the state of its ranks.
#[derive(Debug)]
pub(super) struct JobRun {
    /// Index into the scenario's jobs.
    pub(super) job: usize,
    pub(super) copy: u32,
    /// Start time; if data sets are copied to its nodes first, the time when that copying ended, once it has.
    pub(super) start: Time,
    pub(super) parts: Parts,
    pub(super) plan: Plan,
    /// Gradient synchronisation between its model copies, if they synchronise.
    pub(super) sync: Option<Box<SyncRun>>,
    /// Averaging of its learners' models, if they average.
    pub(super) averaging: Option<Box<AveragingRun>>,
    /// Its learners on each GPU, and the policy that chooses their number.
    pub(super) learners: LearnersRun,
    /// State of its exchange with parameter servers, if it uses them.
    pub(super) servers: Option<Box<ServerRun>>,
    /// Programs and state of its GPUs, if each model copy is spread over several GPUs and simulated op by op.
    pub(super) parallel: Option<Box<ParallelRun>>,
    /// Failures, checkpoints and restarts, if they are simulated.
    pub(super) recovery: Option<Box<RecoveryRun>>,
    pub(super) open: OpenSteps,
    pub(super) barrier: Barrier,
    pub(super) finished: bool,
    pub(super) steps: Steps,
}

/// The parts of a job copy, as ranges of the world's tables.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    /// Copies of its data sets to its nodes before training.
    pub(super) stagings: Ids<Staging>,
    pub(super) loaders: Ids<LoaderRun>,
    pub(super) devices: Ids<Device>,
    /// The communicators between its ranks.
    pub(super) communicators: Ids<CommunicatorRun>,
}

/// What the ranks of a job copy do. It stays the same during the run, except for the goal, which moves when steps are
/// repeated.
#[derive(Debug)]
pub(super) struct Plan {
    /// Samples of one step of a model copy.
    pub(super) batch: u64,
    pub(super) interval: BatchInterval,
    /// Step time by batch size, over all pipeline stages.
    pub(super) step: StepLaw,
    /// Time of each pipeline stage before jitter.
    pub(super) stage_times: Vec<Delay>,
    pub(super) jitter: Option<Sampler>,
    /// The program that each of its devices runs in a step.
    pub(super) programs: Programs,
    /// Threads of each model copy on the node's cores, if it trains on cores.
    pub(super) threads: Option<CpuThreads>,
    /// Host-side work of each trainer on the node's cores, such as launching kernels, if there is any.
    pub(super) launch: Option<Box<LaunchRun>>,
    /// Bytes from one pipeline stage to the next; `hand_over` is the latency before they flow.
    pub(super) activations: f64,
    pub(super) hand_over: Delay,
    pub(super) goal: Goal,
    /// Maximum number of steps in progress at once.
    pub(super) window: u64,
    /// Number of steps from one exchange between model copies to the next; at an exchange all model copies are at the same
    /// step.
    pub(super) period: u64,
}

/// Steps of a job copy that are in progress.
#[derive(Debug, Default)]
pub(super) struct OpenSteps {
    /// If model copies can be at different steps: number of fresh samples of each step in progress.
    pub(super) fresh: BTreeMap<u64, u64>,
    /// Steps in progress on smaller batches.
    pub(super) smaller: Vec<SmallerBatch>,
}

/// A model copy's step on a batch that is smaller than a full one.
#[derive(Debug, Clone, Copy)]
pub(super) struct SmallerBatch {
    model: u32,
    step: u64,
    /// Samples that the batch has fewer than a full one.
    missing: u64,
}

impl JobRun {
    /// Returns whether the job copy may begin nothing because a checkpoint is being saved.
    pub(super) fn is_held(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.is_saving())
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

    /// Returns the time that a batch with `missing` samples too few takes for an operation that takes `full` with a full
    /// batch.
    pub(super) fn time_of_smaller(&self, full: Delay, missing: u64) -> Delay {
        let of = |batch: u64| self.plan.step.seconds(batch as f64);
        let part = of(self.plan.batch - missing) / of(self.plan.batch);
        if missing == 0 || !part.is_finite() {
            return full;
        }
        Delay::once(full.span.seconds() * part)
    }

    /// Returns whether the job copy has one device that always takes the batch it waits for before anything else happens to
    /// that device.
    pub(super) fn waits_alone(&self) -> bool {
        self.parts.devices.len() == 1 && !self.ranks_may_diverge() && self.averaging.is_none()
    }

    /// Returns whether model copies can be at different steps.
    pub(super) fn ranks_may_diverge(&self) -> bool {
        self.plan.period > 1 || self.servers.is_some()
    }

    /// Counts `samples` fresh samples that a model copy takes for `step`.
    pub(super) fn add_fresh(&mut self, step: u64, samples: u64) {
        match self.plan.period > 1 || self.averaging.is_some() {
            true => *self.open.fresh.entry(step).or_default() += samples,
            false => self.steps.add_fresh(samples),
        }
    }

    /// Returns whether a model copy may begin `step`, given how far the other model copies are.
    pub(super) fn may_begin(&self, step: u64) -> bool {
        let round = step - step % self.plan.period;
        let others = self.servers.is_some() || round < self.steps.completed() + self.plan.window;
        others && step < self.learners.held_at
    }

    /// Returns whether all model copies wait for each other after `steps` complete steps.
    pub(super) fn meets_after(&self, steps: u64) -> bool {
        self.plan.window == 1
            && (steps.is_multiple_of(self.plan.period) || steps == self.plan.goal.steps)
    }

    /// Returns whether no model copy has begun the step after the last complete one.
    pub(super) fn is_in_step(&self) -> bool {
        self.servers.is_none() && self.meets_after(self.steps.completed())
    }

    /// Returns whether `step` lies beyond the last step of every model copy.
    pub(super) fn is_beyond(&self, step: u64) -> bool {
        let together = self.servers.as_ref().is_none_or(|servers| servers.is_synchronous());
        together && step == self.plan.goal.steps
    }

    /// Returns the number of samples in `step` of `model`, which is done, and forgets that its batch was smaller.
    pub(super) fn take_samples(&mut self, model: u32, step: u64) -> u64 {
        let missing = self.missing(model, step);
        self.open.smaller.retain(|smaller| smaller.model != model || smaller.step != step);
        self.plan.batch - missing
    }

    /// Returns the number of samples in the step that all model copies have just done, and forgets which of its batches were
    /// smaller.
    pub(super) fn samples_of_step(&mut self) -> u64 {
        let step = self.steps.completed();
        let full = self.plan.batch * self.barrier.parties() as u64;
        let missing = self.open.smaller.iter().filter(|smaller| smaller.step == step);
        let missing: u64 = missing.map(|smaller| smaller.missing).sum();
        self.open.smaller.retain(|smaller| smaller.step != step);
        full - missing
    }
}
