//! The simplest case: workers that make samples in no time, one bounded buffer, and devices whose steps take no time. Only the
//! cost of passing samples is left.

use super::{Shared, State, Training, Watch};
use forebay_engine::Time;
use forebay_metrics::{Activity, Queue, StageBuffer};
use forebay_report::Cause;
use forebay_scenario::{BatchInterval, Goal};

/// Numbers of workers and devices, and sizes of the buffer and batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// Number of workers.
    pub producers: u32,
    /// Capacity of the buffer [samples].
    pub capacity: u64,
    /// Number of devices; each takes its own batch in every step.
    pub consumers: u32,
    /// Samples in a batch.
    pub batch: u64,
}

impl Plain {
    /// Returns the state that the threads share; they stop at `until`.
    pub fn shared<W: Watch>(&self, until: Time) -> Shared<W> {
        let goal = Goal { steps: u64::MAX, quota: u64::MAX, fresh: u64::MAX };
        let interval = BatchInterval::Every(1.0);
        let mut state = State::new(Training::new(interval, goal));
        state.add_loader(u64::MAX, [(StageBuffer::of_samples(), self.producers)], self.consumers);
        Shared::new(state, until)
    }

    /// Opens the buffer and starts all threads.
    pub fn start<W: Watch>(&self, shared: &Shared<W>, clock: W) {
        shared.start(clock, |state, now| {
            if let Some(loader) = state.loaders.first_mut() {
                loader.queue = Queue::new(self.capacity, self.batch, false, 0, now);
            }
        });
    }
}

impl<W: Watch> Shared<W> {
    /// Runs worker `w`; returns the number of samples that it has made.
    pub fn produce(&self, w: u32) -> u64 {
        let (mut samples, mut woken) = (0, Vec::new());
        let mut next = self.next(w);
        while let Some((item, since)) = next {
            samples += item.samples;
            let log = [(since, Activity::Doing(Cause::Transfer))];
            next = self.finish(w, item, &log, &mut woken);
        }
        samples
    }

    /// Runs device `d`; returns the number of steps that it has executed.
    pub fn consume(&self, d: u32) -> u64 {
        let (mut steps, mut woken) = (0, Vec::new());
        let mut next = self.next_step(d);
        while next.is_some() {
            steps += 1;
            next = self.stepped(d, &[], &mut woken);
        }
        steps
    }
}
