//! Executes training steps: an emulated accelerator, or a real network on CPU cores. The network trains on a batch that it
//! generates, as the cost of a step does not depend on the values.

use super::clock::{Clock, busy};
use super::launch::{Launch, Turn};
use forebay_calibrate::probe::ProbeError;
use forebay_engine::{Span, Time};
use forebay_live_queue::Step;
use forebay_metrics::{HostWork, Segment, launch_waits};
use forebay_model::law::StepLaw;
use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_networks::cpu::{self, Network};
use forebay_scenario::{Device, Job, Scenario};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

/// Executes the steps of one model copy.
pub(super) enum Trainer {
    /// An emulated accelerator, which sleeps for the time of a step.
    Emulated(Box<Emulated>),
    /// Real networks on the node's cores with their batch sizes; the full batch is first. Before each step the trainer computes for as
    /// long as it takes to get a batch from the loader.
    Cpu(Vec<(u64, Box<dyn Network>)>, Span),
}

impl Trainer {
    /// Returns the trainer of model copy `model` in job copy `owner`; it takes `turn` with the job copy's other trainers.
    pub(super) fn new(
        scenario: &Scenario,
        job: &Job,
        streams: Streams,
        (owner, model): (u64, u64),
        turn: &Turn,
    ) -> Self {
        let smaller = job.smaller_batches(&scenario.datasets[job.dataset]);
        // Without a network for the job (such as for an accelerator), steps are emulated by sleeping.
        if let Some(networks) = networks(job, &smaller, owner + model) {
            return Trainer::Cpu(networks, Span::from_seconds(job.loader.taking));
        }
        let (time, speed) = (job.step.law(), scenario.cluster.node.gpu_speed);
        let jitter = job.step.jitter.as_ref().map(Sampler::new);
        let launch = job.launch.as_ref().map(|launch| Launch::new(launch, turn));
        let owed = Span::ZERO;
        let emulated = Emulated { time, speed, jitter, launch, streams, owner, model, owed };
        Trainer::Emulated(Box::new(emulated))
    }

    /// Executes a step.
    ///
    /// Returns the times that the step spent waiting, in order, or the reason why it could not be executed.
    pub(super) fn step(
        &mut self,
        step: &Step,
        clock: Clock,
        over: &AtomicBool,
    ) -> Result<Vec<Segment>, ProbeError> {
        match self {
            Trainer::Emulated(emulated) => Ok(emulated.step(step, clock, over)),
            Trainer::Cpu(networks, taking) => {
                busy(*taking);
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

/// Returns the networks that `job` trains on cores, for its full batch and for the `smaller` ones; `None` if it does not train on
/// cores.
fn networks(job: &Job, smaller: &[u64], seed: u64) -> Option<Vec<(u64, Box<dyn Network>)>> {
    let (Device::Cpu { threads }, Some(model)) = (job.device, job.catalogue) else { return None };
    let batches = std::iter::once(&job.batch).chain(smaller);
    let of = |batch: &u64| {
        let network = cpu::build(model.name(), threads as usize, *batch as usize, seed).ok()?;
        Some((*batch, network))
    };
    batches.map(of).collect()
}

/// Limit for the delay of a late wake-up that later steps make up by shorter sleeps.
const MOST_OWED: Span = Span(1_000_000_000);

/// An accelerator emulated by sleeping for the time of each step, as in MLPerf Storage.
///
/// A sleep ends late because of the system's timer and scheduler. The next sleeps are shortened by this delay, so that steps have
/// the right length on average. Spinning until the exact instant would be more precise, but would take a core from the loader.
pub(super) struct Emulated {
    /// Step time by batch size on a device of speed 1, before jitter; and the device's speed.
    time: StepLaw,
    speed: f64,
    jitter: Option<Sampler>,
    launch: Option<Launch>,
    streams: Streams,
    owner: u64,
    model: u64,
    /// Delay of the last sleep, which the next sleeps make up.
    owed: Span,
}

impl Emulated {
    /// Executes a step.
    ///
    /// The trainer first keeps cores busy with its own work (launching kernels). If launching overlaps with the device, the step
    /// ends when both have ended.
    pub(super) fn step(&mut self, step: &Step, clock: Clock, over: &AtomicBool) -> Vec<Segment> {
        let Step { number, since, .. } = *step;
        let span = self.span(step);
        let Some(launch) = &self.launch else {
            self.sleep(span, since, clock, over);
            return Vec::new();
        };
        let (work, after) = launch.carry_out(self.streams, self.owner, self.model, number);
        let launched = clock.now().max(since);
        let host = HostWork { since, work, after, ..HostWork::default() };
        if !launch.overlap {
            self.sleep(span, launched, clock, over);
            return launch_waits(host, since, launched).to_vec();
        }
        let done = since + span;
        if launched > done {
            return launch_waits(host, done, launched).to_vec();
        }
        self.sleep(span, since, clock, over);
        Vec::new()
    }

    /// Returns the time that a step takes on the device.
    fn span(&self, step: &Step) -> Span {
        let factor = self.jitter.as_ref().map_or(1.0, |jitter| {
            jitter.draw(&mut self.streams.at(Purpose::Jitter, self.owner, self.model, step.number))
        });
        Span::from_seconds(self.time.seconds(step.samples as f64) / self.speed * factor)
    }

    /// Sleeps until `span` after `since`, less the delay of earlier sleeps.
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
