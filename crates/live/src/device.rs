//! What carries out training steps: an emulated accelerator, or a real network on the cores. The
//! network trains on a batch of its own: what a step costs does not depend on the values.

use super::clock::Clock;
use super::launch::Launch;
use forebay_calibrate::probe::ProbeError;
use forebay_engine::{Span, Time};
use forebay_live_queue::Step;
use forebay_metrics::{Segment, launch_waits};
use forebay_model::law::StepLaw;
use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_networks::cpu::{self, Network};
use forebay_scenario::{Device, Job, Node, Scenario};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

/// Where the steps of one model copy are carried out.
pub(super) enum Trainer {
    /// An accelerator that sleeps.
    Emulated(Emulated),
    /// Real networks on the node's cores: by batch, the full one first.
    Cpu(Vec<(u64, Box<dyn Network>)>),
}

impl Trainer {
    /// The trainer of model copy `model` of job copy number `owner`.
    pub(super) fn new(
        scenario: &Scenario,
        job: &Job,
        streams: Streams,
        owner: u64,
        model: u64,
    ) -> Self {
        let smaller = job.smaller_batches(&scenario.datasets[job.dataset]);
        // Every name of the catalogue is a network's; otherwise the step is slept.
        if let Some(networks) = networks(job, &smaller, owner + model) {
            return Trainer::Cpu(networks);
        }
        Trainer::Emulated(Emulated::new(job, &scenario.cluster.node, streams, owner, model))
    }

    /// Carries out a step.
    ///
    /// Gives what it waited for meanwhile, in order; or why it could not be carried out.
    pub(super) fn step(
        &mut self,
        step: Step,
        clock: Clock,
        over: &AtomicBool,
    ) -> Result<Vec<Segment>, ProbeError> {
        match self {
            Trainer::Emulated(emulated) => Ok(emulated.step(step, clock, over)),
            Trainer::Cpu(networks) => {
                let of = networks.iter().position(|(batch, _)| *batch == step.samples);
                let network = &mut networks[of.unwrap_or(0)].1;
                black_box(network.step());
                let threads = network.threads();
                let refused = network.lacked_threads();
                refused
                    .map_or(Ok(Vec::new()), |source| Err(ProbeError::Threads { threads, source }))
            }
        }
    }
}

/// The network that `job` trains, for its batch and for `smaller` ones.
fn networks(job: &Job, smaller: &[u64], seed: u64) -> Option<Vec<(u64, Box<dyn Network>)>> {
    let (Device::Cpu { threads }, Some(model)) = (job.device, job.catalogue) else { return None };
    let batches = std::iter::once(&job.batch).chain(smaller);
    let of = |batch: &u64| {
        let network = cpu::build(model.name(), threads as usize, *batch as usize, seed).ok()?;
        Some((*batch, network))
    };
    batches.map(of).collect()
}

/// Most that a late wake-up shortens the steps after it, where they are shorter themselves.
const MOST_OWED: Span = Span(1_000_000_000);

/// An accelerator that sleeps for the time of a step, as MLPerf Storage's does.
///
/// A sleep ends late by what the system's timer and scheduler need; the next ones are shorter by
/// that, so that steps have the right length in the mean. Spinning up to the instant would be more
/// precise, but take a core from the loader.
pub(super) struct Emulated {
    /// Time of a step by batch before jitter, on a device of speed 1, and the speed.
    time: StepLaw,
    speed: f64,
    jitter: Option<Sampler>,
    launch: Option<Launch>,
    streams: Streams,
    owner: u64,
    model: u64,
    /// How late the last sleep ended.
    owed: Span,
}

impl Emulated {
    /// The accelerator of model copy `model` of job copy number `owner`.
    pub(super) fn new(job: &Job, node: &Node, streams: Streams, owner: u64, model: u64) -> Self {
        let (time, speed) = (job.step.law(), node.gpu_speed);
        let jitter = job.step.jitter.as_ref().map(Sampler::new);
        let launch = job.launch.as_ref().map(Launch::new);
        Emulated { time, speed, jitter, launch, streams, owner, model, owed: Span::ZERO }
    }

    /// Carries out a step.
    ///
    /// Its trainer's own work keeps cores busy first. Where the device computes meanwhile, the step
    /// ends with the later of the two.
    pub(super) fn step(&mut self, step: Step, clock: Clock, over: &AtomicBool) -> Vec<Segment> {
        let Step { number, since, .. } = step;
        let span = self.span(step);
        let Some(launch) = &self.launch else {
            self.sleep(span, since, clock, over);
            return Vec::new();
        };
        let work = launch.carry_out(self.streams, self.owner, self.model, number);
        let launched = clock.now().max(since);
        if !launch.overlap {
            self.sleep(span, launched, clock, over);
            return launch_waits(since, work, since, launched).to_vec();
        }
        let done = since + span;
        if launched > done {
            return launch_waits(since, work, done, launched).to_vec();
        }
        self.sleep(span, since, clock, over);
        Vec::new()
    }

    /// How long a step takes.
    fn span(&self, step: Step) -> Span {
        let factor = self.jitter.as_ref().map_or(1.0, |jitter| {
            jitter.draw(&mut self.streams.at(Purpose::Jitter, self.owner, self.model, step.number))
        });
        Span::from_seconds(self.time.seconds(step.samples as f64) / self.speed * factor)
    }

    /// Sleeps for `span` from `since` on, less what the last sleeps were too long.
    fn sleep(&mut self, span: Span, since: Time, clock: Clock, over: &AtomicBool) {
        if span <= self.owed {
            self.owed = Span(self.owed.0 - span.0);
            return;
        }
        let deadline = since + Span(span.0 - self.owed.0);
        clock.sleep_until(deadline, over);
        self.owed = clock.now().since(deadline).min(span.max(MOST_OWED));
    }
}
