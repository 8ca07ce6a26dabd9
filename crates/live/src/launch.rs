//! The trainer's own work on CPU cores for each step, such as launching kernels.

use super::clock::busy;
use forebay_engine::Span;
use forebay_model::random::{Purpose, Sampler, Streams};

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The turn that the trainers of a node take one after the other.
pub(super) type Turn = Arc<Mutex<()>>;

/// Threads that keep cores busy; they are started for each step.
pub(super) struct Launch {
    work: Sampler,
    varying: Sampler,
    /// Length of the turn that a trainer takes after the work [s].
    serial: f64,
    turn: Turn,
    /// Core-seconds to take the step's batch [s].
    taking: f64,
    threads: u32,
    /// Whether the device computes at the same time.
    pub(super) overlap: bool,
}

impl Launch {
    /// Returns the launch work that a job's settings describe.
    pub(super) fn new(of: &forebay_scenario::Launch, turn: &Turn) -> Launch {
        Launch {
            work: Sampler::new(&of.work),
            varying: Sampler::new(&of.varying),
            serial: of.serial,
            turn: turn.clone(),
            taking: of.taking,
            threads: of.threads,
            overlap: of.overlap,
        }
    }

    /// Does a trainer's own work of step `number` of a model copy: keeps cores busy for `work`, waits for `varying`, and then waits for its
    /// turn on the node and holds it for `serial`. Returns the core-seconds of each thread, and the time that the rest took.
    pub(super) fn carry_out(
        &self,
        streams: Streams,
        owner: u64,
        model: u64,
        number: u64,
    ) -> (f64, Span) {
        let mut generator = streams.at(Purpose::Launch, owner, model, number);
        let work = self.taking + self.work.draw(&mut generator);
        let wait = self.varying.draw(&mut generator);
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
        if wait + self.serial == 0.0 {
            return (work, Span::ZERO);
        }
        let since = Instant::now();
        if wait > 0.0 {
            thread::sleep(Duration::from_secs_f64(wait));
        }
        if self.serial > 0.0 {
            let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            thread::sleep(Duration::from_secs_f64(self.serial));
            drop(turn);
        }
        (work, Span::from_seconds(since.elapsed().as_secs_f64()))
    }
}
