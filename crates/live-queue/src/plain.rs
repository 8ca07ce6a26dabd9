//! The plainest case: workers that make samples out of nothing, one bounded buffer, devices whose
//! steps take no time. What is left is the cost of handing over.

use super::{Shared, State, Training, Watch};
use forebay_engine::Time;
use forebay_metrics::{Activity, Queue, StageBuffer};
use forebay_report::Cause;
use forebay_scenario::{BatchInterval, Goal};

/// How many of each, and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    /// Workers.
    pub producers: u32,
    /// Samples that the buffer holds.
    pub capacity: u64,
    /// Devices, each with a batch of its own in every step.
    pub consumers: u32,
    /// Samples of a batch.
    pub batch: u64,
}

impl Plain {
    /// What the threads share; at `until` they stop.
    pub fn shared<W: Watch>(&self, until: Time) -> Shared<W> {
        let goal = Goal { steps: u64::MAX, quota: u64::MAX, fresh: u64::MAX };
        let interval = BatchInterval::Every(1.0);
        let mut state = State::new(Training::new(interval, goal));
        state.add_loader(u64::MAX, [(StageBuffer::of_samples(), self.producers)], self.consumers);
        Shared::new(state, until)
    }

    /// Opens the buffer; all threads begin.
    pub fn start<W: Watch>(&self, shared: &Shared<W>, clock: W) {
        shared.start(clock, |state, now| {
            if let Some(loader) = state.loaders.first_mut() {
                loader.queue = Queue::new(self.capacity, self.batch, false, 0, now);
            }
        });
    }
}

impl<W: Watch> Shared<W> {
    /// The life of worker `w`: samples that it has made.
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

    /// The life of device `d`: steps that it has carried out.
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
