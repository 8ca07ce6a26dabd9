//! What a trainer does on the machine's cores for a step, beside its device.

use super::clock::busy;
use forebay_engine::Span;
use forebay_model::random::{Purpose, Sampler, Streams};

use std::thread;

/// Threads that keep cores busy, for each step anew.
pub(super) struct Launch {
    work: Sampler,
    threads: u32,
    /// Whether the device computes meanwhile.
    pub(super) overlap: bool,
}

impl Launch {
    /// As a job says.
    pub(super) fn new(of: &forebay_scenario::Launch) -> Launch {
        Launch { work: Sampler::new(&of.work), threads: of.threads, overlap: of.overlap }
    }

    /// Keeps cores busy for step `number` of a model copy; gives the core-seconds of each thread.
    pub(super) fn carry_out(&self, streams: Streams, owner: u64, model: u64, number: u64) -> f64 {
        let work = self.work.draw(&mut streams.at(Purpose::Launch, owner, model, number));
        let span = Span::from_seconds(work);
        thread::scope(|threads| {
            for _ in 1..self.threads {
                let another = thread::Builder::new().spawn_scoped(threads, move || busy(span));
                // Without a thread of its own the work is done by this one.
                if another.is_err() {
                    busy(span);
                }
            }
            busy(span);
        });
        work
    }
}
