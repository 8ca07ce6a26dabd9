//! Loaders in which nobody is woken: who finds nothing sleeps, and looks again.

use crate::account::Segment;
use crate::engine::{Span, Time};
use crate::report::{Cause, StallCause};
use crate::scenario::Generator;

use super::event::{Clock, Customer, Delay, Event};
use super::workers::Phase;
use super::world::World;

/// A loader's sleepers.
#[derive(Debug)]
pub(super) struct Polling {
    period: Span,
    enough: u64,
    /// Share of the samples taken that had not been taken before, and what is left of it below one sample.
    distinct: f64,
    rest: f64,
    /// Devices for which a batch is there, which they will find when they look next.
    promised: Vec<Promise>,
}

/// A batch that a device will find.
#[derive(Debug, Clone, Copy)]
struct Promise {
    device: u32,
    /// Who put it in, and when.
    worker: u32,
    came: Time,
}

impl Polling {
    pub(super) fn new(generator: Generator) -> Polling {
        Polling {
            period: Span::from_seconds(generator.period),
            enough: generator.enough.unwrap_or(u64::MAX),
            distinct: generator.distinct,
            rest: 0.0,
            promised: Vec::new(),
        }
    }

    /// Devices for which a batch is there that they have not found yet.
    pub(super) fn promised(&self) -> usize {
        self.promised.len()
    }

    /// Of so many samples, those that had not been taken before.
    pub(super) fn fresh(&mut self, samples: u64) -> u64 {
        self.rest += samples as f64 * self.distinct;
        let fresh = (self.rest + 1e-9).floor();
        self.rest -= fresh;
        fresh as u64
    }
}

impl World<'_> {
    /// Whether worker `w` finds enough batches in its queue, and sleeps before it looks again.
    #[cold]
    pub(super) fn finds_enough(&mut self, clock: &mut Clock, w: u32) -> bool {
        let loader = &mut self.loaders[self.workers[w as usize].loader as usize];
        let Some(polling) = &loader.polling else { return false };
        let delay = Delay { span: polling.period, lane: None };
        if loader.queue.level() < polling.enough || loader.started == loader.quota {
            return false;
        }
        loader.queue.set_blocked(clock.now, true);
        self.enter(clock.now, w, Phase::Asleep, Cause::Latency);
        clock.after(delay, Event::Waited(Customer::Worker(w)));
        true
    }

    /// Worker `w` looks again.
    pub(super) fn look_again(&mut self, clock: &mut Clock, w: u32) {
        let worker = &mut self.workers[w as usize];
        worker.phase = Phase::Ready;
        self.loaders[worker.loader as usize].queue.set_blocked(clock.now, false);
        self.run_worker(clock, w);
    }

    /// Worker `w` has put a batch in: devices that sleep will find it.
    #[cold]
    pub(super) fn promise(&mut self, clock: &mut Clock, l: u32, w: u32) {
        loop {
            let loader = &mut self.loaders[l as usize];
            let Some(polling) = &mut loader.polling else { return };
            let known = polling.promised.len();
            let Some(&device) = loader.waiters.get(known) else { return };
            if !loader.queue.has_batches(known as u64 + 1) {
                return;
            }
            polling.promised.push(Promise { device, worker: w, came: clock.now });
            let slept = clock.now.since(self.devices[device as usize].since).0;
            let period = polling.period.0.max(1);
            let span = Span(slept.div_ceil(period).max(1) * period - slept);
            clock.after(Delay { span, lane: None }, Event::Waited(Customer::Sleeper(device)));
        }
    }

    /// Device `d` looks, and finds its batch.
    pub(super) fn awake(&mut self, clock: &mut Clock, d: u32) {
        let l = self.devices[d as usize].loader as usize;
        let Some(polling) = &mut self.loaders[l].polling else { return };
        let Some(place) = polling.promised.iter().position(|of| of.device == d) else { return };
        let Promise { worker, came, .. } = polling.promised.remove(place);
        let Some(place) = self.loaders[l].waiters.iter().position(|waiter| *waiter == d) else {
            // Its job is over.
            return;
        };
        self.loaders[l].waiters.remove(place);
        let slept = Segment { start: came, end: clock.now, cause: StallCause::own(Cause::Latency) };
        self.end_starving(clock.now, d, worker, Some(slept));
        self.take_batch(clock, d);
        self.unblock_last(clock, l as u32);
    }
}
