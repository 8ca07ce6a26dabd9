//! What carries out training steps: an emulated accelerator, or a real network on the cores. The
//! network trains on a batch of its own: what a step costs does not depend on the values.

use super::clock::Clock;
use super::launch::Launch;
use crate::account::{Segment, launch_waits};
use crate::engine::{Span, Time};
use crate::probe::cpu::{self, Network};
use crate::random::{Purpose, Sampler, Streams};
use crate::scenario::{Device, Job, Node};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;

/// Where the steps of one model copy are carried out.
pub(super) enum Trainer {
    /// An accelerator that sleeps.
    Emulated(Emulated),
    /// A real network, on the node's cores.
    Cpu(Box<dyn Network>),
}

impl Trainer {
    /// The trainer of model copy `model` of job copy number `owner`.
    pub(super) fn new(job: &Job, node: &Node, streams: Streams, owner: u64, model: u64) -> Self {
        if let (Device::Cpu { threads }, Some(catalogue)) = (job.device, job.catalogue) {
            let (threads, batch) = (threads as usize, job.batch as usize);
            // Every name of the catalogue is a network's; otherwise the step is slept.
            if let Ok(network) = cpu::build(catalogue.name(), threads, batch, owner + model) {
                return Trainer::Cpu(network);
            }
        }
        Trainer::Emulated(Emulated::new(job, node, streams, owner, model))
    }

    /// Carries out a step whose batch is there since `since`.
    ///
    /// Gives what it waited for meanwhile, in order.
    pub(super) fn step(
        &mut self,
        number: u64,
        since: Time,
        clock: Clock,
        over: &AtomicBool,
    ) -> Vec<Segment> {
        match self {
            Trainer::Emulated(emulated) => emulated.step(number, since, clock, over),
            Trainer::Cpu(network) => {
                black_box(network.step());
                Vec::new()
            }
        }
    }
}

/// Most that a late wake-up shortens the steps after it, where they are shorter themselves.
const MOST_OWED: Span = Span(1_000_000_000);

/// An accelerator that sleeps for the time of a step, as MLPerf Storage's does.
///
/// A sleep ends late by what the system's timer and scheduler need; the next ones are shorter by
/// that, so that steps have the right length in the mean. Spinning up to the instant would be more
/// precise, but take a core from the loader.
pub(super) struct Emulated {
    /// Time of a step before jitter [s].
    seconds: f64,
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
        let seconds = job.step.seconds(job.batch as f64) / node.gpu_speed;
        let jitter = job.step.jitter.as_ref().map(Sampler::new);
        let launch = job.launch.as_ref().map(Launch::new);
        Emulated { seconds, jitter, launch, streams, owner, model, owed: Span::ZERO }
    }

    /// Carries out a step whose batch is there since `since`.
    ///
    /// Its trainer's own work keeps cores busy first. Where the device computes meanwhile, the step
    /// ends with the later of the two.
    pub(super) fn step(
        &mut self,
        number: u64,
        since: Time,
        clock: Clock,
        over: &AtomicBool,
    ) -> Vec<Segment> {
        let span = self.span(number);
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
    fn span(&self, number: u64) -> Span {
        let factor = self.jitter.as_ref().map_or(1.0, |jitter| {
            jitter.draw(&mut self.streams.at(Purpose::Jitter, self.owner, self.model, number))
        });
        Span::from_seconds(self.seconds * factor)
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
