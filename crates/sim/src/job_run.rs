//! A job copy: what it is made of, what its ranks do, and how far they are.

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

/// One copy of a job: what it is made of, what its ranks do, and how far they are.
#[derive(Debug)]
pub(super) struct JobRun {
    /// Index into the scenario's jobs.
    pub(super) job: usize,
    pub(super) copy: u32,
    /// When it starts; where its data set is copied first, from then on when that was done.
    pub(super) start: Time,
    pub(super) parts: Parts,
    pub(super) plan: Plan,
    /// What its model copies do with their gradients, if they do anything.
    pub(super) sync: Option<Box<SyncRun>>,
    /// How its learners average their models, if they do.
    pub(super) averaging: Option<Box<AveragingRun>>,
    /// Its learners on each GPU, and the policy that finds how many there are.
    pub(super) learners: LearnersRun,
    /// Where its model copies are with parameter servers, if they exchange with these.
    pub(super) servers: Option<Box<ServerRun>>,
    /// What its GPUs do, where a model copy is spread over several and followed piece by piece.
    pub(super) parallel: Option<Box<ParallelRun>>,
    /// What it has against failures, if they are simulated.
    pub(super) recovery: Option<Box<RecoveryRun>>,
    pub(super) open: OpenSteps,
    pub(super) barrier: Barrier,
    pub(super) finished: bool,
    pub(super) steps: Steps,
}

/// What a job copy is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    /// Data sets that are copied to its nodes before it trains.
    pub(super) stagings: Ids<Staging>,
    pub(super) loaders: Ids<LoaderRun>,
    pub(super) devices: Ids<Device>,
    /// The communicators of its ranks.
    pub(super) communicators: Ids<CommunicatorRun>,
}

/// What the ranks of a job copy do; the same from beginning to end, but for the goal, which steps that are done again move.
#[derive(Debug)]
pub(super) struct Plan {
    /// Samples of a model copy's step.
    pub(super) batch: u64,
    pub(super) interval: BatchInterval,
    /// Time of a step by batch, on all pipeline stages.
    pub(super) step: StepLaw,
    /// Time of each pipeline stage before jitter.
    pub(super) stage_times: Vec<Delay>,
    pub(super) jitter: Option<Sampler>,
    /// What each of its devices does in a step.
    pub(super) programs: Programs,
    /// Threads of each model copy on the node's cores, where it trains there.
    pub(super) threads: Option<CpuThreads>,
    /// Each trainer's own work on the node's cores, such as launching kernels, where it has any.
    pub(super) launch: Option<Box<LaunchRun>>,
    /// Bytes from one pipeline stage to the next, and the latency before they flow.
    pub(super) activations: f64,
    pub(super) hand_over: Delay,
    pub(super) goal: Goal,
    /// Steps that may be in progress at once.
    pub(super) window: u64,
    /// Steps from one exchange between model copies to the next; they are in step there.
    pub(super) period: u64,
}

/// Steps of a job copy that are not over.
#[derive(Debug, Default)]
pub(super) struct OpenSteps {
    /// Where model copies are at different steps: fresh samples of those that are not over, by step.
    pub(super) fresh: BTreeMap<u64, u64>,
    /// Those on smaller batches.
    pub(super) smaller: Vec<SmallerBatch>,
}

/// A model copy's step on a batch that is smaller than others.
#[derive(Debug, Clone, Copy)]
pub(super) struct SmallerBatch {
    model: u32,
    step: u64,
    /// Samples by which it is smaller.
    missing: u64,
}

impl JobRun {
    /// Whether nothing of it begins, because its state is being saved.
    pub(super) fn is_held(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.is_saving())
    }

    /// The batch of `model` in `step` lacks so many samples.
    pub(super) fn add_smaller(&mut self, model: u32, step: u64, missing: u64) {
        self.open.smaller.push(SmallerBatch { model, step, missing });
    }

    /// Whether a step in progress is on a smaller batch.
    pub(super) fn has_smaller_batch(&self) -> bool {
        !self.open.smaller.is_empty()
    }

    /// Samples that the batch of `model` lacks in `step`.
    pub(super) fn missing(&self, model: u32, step: u64) -> u64 {
        let of = |smaller: &&SmallerBatch| smaller.model == model && smaller.step == step;
        self.open.smaller.iter().find(of).map_or(0, |smaller| smaller.missing)
    }

    /// For a batch that lacks so many samples, what takes `full` for a full one.
    pub(super) fn time_of_smaller(&self, full: Delay, missing: u64) -> Delay {
        let of = |batch: u64| self.plan.step.seconds(batch as f64);
        let part = of(self.plan.batch - missing) / of(self.plan.batch);
        if missing == 0 || !part.is_finite() {
            return full;
        }
        Delay::once(full.span.seconds() * part)
    }

    /// Whether it has one device, which waits for input and has it before anything else happens to it.
    pub(super) fn waits_alone(&self) -> bool {
        self.parts.devices.len() == 1 && !self.ranks_may_diverge() && self.averaging.is_none()
    }

    /// Whether its model copies are at different steps at times.
    pub(super) fn ranks_may_diverge(&self) -> bool {
        self.plan.period > 1 || self.servers.is_some()
    }

    /// A model copy takes so many fresh samples for `step`.
    pub(super) fn add_fresh(&mut self, step: u64, samples: u64) {
        match self.plan.period > 1 || self.averaging.is_some() {
            true => *self.open.fresh.entry(step).or_default() += samples,
            false => self.steps.add_fresh(samples),
        }
    }

    /// Whether a model copy may begin `step`, as far as others are.
    pub(super) fn may_begin(&self, step: u64) -> bool {
        let round = step - step % self.plan.period;
        let others = self.servers.is_some() || round < self.steps.completed() + self.plan.window;
        others && step < self.learners.held_at
    }

    /// Whether all model copies wait for each other when so many steps are complete.
    pub(super) fn meets_after(&self, steps: u64) -> bool {
        self.plan.window == 1
            && (steps.is_multiple_of(self.plan.period) || steps == self.plan.goal.steps)
    }

    /// Whether none of its model copies has begun the step after those that are complete.
    pub(super) fn is_in_step(&self) -> bool {
        self.servers.is_none() && self.meets_after(self.steps.completed())
    }

    /// Whether `step` is none of a model copy's.
    pub(super) fn is_beyond(&self, step: u64) -> bool {
        let together = self.servers.as_ref().is_none_or(|servers| servers.is_synchronous());
        together && step == self.plan.goal.steps
    }

    /// Samples of `step` of `model`, which has done it.
    pub(super) fn take_samples(&mut self, model: u32, step: u64) -> u64 {
        let missing = self.missing(model, step);
        self.open.smaller.retain(|smaller| smaller.model != model || smaller.step != step);
        self.plan.batch - missing
    }

    /// Samples of a step that all model copies have done.
    pub(super) fn samples_of_step(&mut self) -> u64 {
        let step = self.steps.completed();
        let full = self.plan.batch * self.barrier.parties() as u64;
        let missing = self.open.smaller.iter().filter(|smaller| smaller.step == step);
        let missing: u64 = missing.map(|smaller| smaller.missing).sum();
        self.open.smaller.retain(|smaller| smaller.step != step);
        full - missing
    }
}
