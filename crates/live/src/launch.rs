//! The trainer's own work on CPU cores for each step, such as launching kernels.

use super::clock::busy;
use forebay_engine::Span;
use forebay_model::random::{Purpose, Sampler, Streams};

use std::thread;

/// Threads that keep cores busy; they are started for each step.
pub(super) struct Launch {
    work: Sampler,
    /// Core-seconds to take the step's batch [s].
    taking: f64,
    threads: u32,
    /// Whether the device computes at the same time.
    pub(super) overlap: bool,
}

impl Launch {
    /// Returns the launch work that a job's settings describe.
    pub(super) fn new(of: &forebay_scenario::Launch) -> Launch {
        Launch {
            work: Sampler::new(&of.work),
            taking: of.taking,
            threads: of.threads,
            overlap: of.overlap,
        }
    }

    /// Keeps cores busy for step `number` of a model copy. Returns the core-seconds of each thread.
    pub(super) fn carry_out(&self, streams: Streams, owner: u64, model: u64, number: u64) -> f64 {
        let work =
            self.taking + self.work.draw(&mut streams.at(Purpose::Launch, owner, model, number));
        let span = Span::from_seconds(work);
        thread::scope(|threads| {
            for _ in 1..self.threads {
                let another = thread::Builder::new().spawn_scoped(threads, move || busy(span));
                // If the system starts no thread, this thread does its work.
                if another.is_err() {
                    busy(span);
                }
            }
            busy(span);
        });
        work
    }
}
