//! What carries out training steps.

use super::clock::Clock;
use crate::engine::{Span, Time};
use crate::random::{Purpose, Sampler, Streams};
use crate::scenario::{Job, Node};
use std::sync::atomic::AtomicBool;

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
        Emulated { seconds, jitter, streams, owner, model, owed: Span::ZERO }
    }

    /// Carries out a step whose batch is there since `since`.
    pub(super) fn step(&mut self, number: u64, since: Time, clock: Clock, over: &AtomicBool) {
        let factor = self.jitter.as_ref().map_or(1.0, |jitter| {
            jitter.draw(&mut self.streams.at(Purpose::Jitter, self.owner, self.model, number))
        });
        let span = Span::from_seconds(self.seconds * factor);
        if span <= self.owed {
            self.owed = Span(self.owed.0 - span.0);
            return;
        }
        let deadline = since + Span(span.0 - self.owed.0);
        clock.sleep_until(deadline, over);
        self.owed = clock.now().since(deadline).min(span.max(MOST_OWED));
    }
}
