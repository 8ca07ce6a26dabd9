//! Workers: one item at a time, one operation after the other.

use crate::account::{Activity, NOBODY, Timeline};
use crate::engine::Time;
use crate::fluid::GroupId;
use crate::law::DecodeLaw;
use crate::random::{Purpose, Sampler};
use crate::report::Cause;
use crate::scenario::Distribution;

use super::event::{Clock, Customer, Delay, Event};
use super::read::ShardCursor;
use super::world::World;

/// A worker of a stage.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) stage: u32,
    pub(super) loader: u32,
    pub(super) item: Item,
    /// Which sample of the item is being worked on.
    pub(super) sample: u32,
    /// Which operation is next: of `per_sample` while samples remain, then of `per_item`.
    pub(super) operation: u32,
    pub(super) phase: Phase,
    /// Core-seconds of the computation in progress.
    pub(super) work: f64,
    pub(super) shard: ShardCursor,
    /// Size of the sample being read [B].
    pub(super) size: f64,
    /// Bytes that the request in progress asked for [B].
    pub(super) request: f64,
    /// Requests made for the current sample.
    pub(super) requests: u32,
    /// Address of the current sample's draws: its position in the job's reading.
    pub(super) position: u64,
    pub(super) timeline: Timeline,
    pub(super) track: Option<u32>,
}

/// What a stage hands on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Item {
    /// Position of its first sample in the reading of the job copy's node.
    pub(super) first: u64,
    pub(super) samples: u32,
    /// Bytes as stored.
    pub(super) bytes: f64,
    /// Its place in the order of inputs of its stage.
    pub(super) sequence: u64,
    /// Who made it.
    pub(super) worker: u32,
}

/// What a worker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// Input.
    #[default]
    Idle,
    /// Its turn in the runnable list: it has room for new input.
    Ready,
    Opening,
    Latency,
    Transfer,
    /// A core for the bytes that have come.
    Receiving,
    Computing,
    Delayed,
    Copying,
    /// Items before its own.
    Held,
    /// Room in the buffer.
    Blocked,
}

impl Phase {
    /// What using a core in this phase counts as.
    fn on_core(self) -> Cause {
        if self == Phase::Receiving { Cause::Transfer } else { Cause::Decode }
    }
}

/// An operation, prepared.
#[derive(Debug)]
pub(super) enum Work {
    Read,
    Compute(Draw),
    /// By the sample's bytes and these pixels.
    Decode(DecodeLaw, f64),
    Delay(Draw),
    Copy,
}

impl Work {
    /// The same core-seconds each time.
    pub(super) fn constant(seconds: f64, delay: impl FnOnce(f64) -> Delay, index: u64) -> Work {
        let sampler = Sampler::new(&Distribution::Constant(seconds));
        Work::Compute(Draw::new(sampler, delay, Purpose::Compute, index))
    }
}

/// A duration drawn for each use, or always the same.
#[derive(Debug)]
pub(super) struct Draw {
    sampler: Sampler,
    constant: Option<(f64, Delay)>,
    purpose: Purpose,
    /// Sets apart the draws of several operations for one sample.
    index: u64,
}

impl Draw {
    pub(super) fn new(
        sampler: Sampler,
        delay: impl FnOnce(f64) -> Delay,
        purpose: Purpose,
        index: u64,
    ) -> Draw {
        let constant = sampler.is_constant().map(|value| (value, delay(value)));
        Draw { sampler, constant, purpose, index }
    }
}

/// How a node's cores are had.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cores {
    Shared(GroupId),
    Fifo(u32),
}

impl World<'_> {
    /// Carries on with worker `w` until it waits for something.
    pub(super) fn run_worker(&mut self, clock: &mut Clock, w: u32) {
        loop {
            if self.workers[w as usize].phase == Phase::Ready && !self.take_input(clock, w) {
                return;
            }
            while let Some((index, whole)) = self.next_operation(w) {
                if !self.begin(clock, w, index, whole) {
                    return;
                }
                self.end_operation(w);
            }
            if !self.finish_item(clock, w) {
                return;
            }
        }
    }

    /// What worker `w` waited for has come.
    pub(super) fn resume(&mut self, clock: &mut Clock, w: u32) {
        let done = match self.workers[w as usize].phase {
            Phase::Opening => self.opened(clock, w),
            Phase::Latency => self.first_byte(clock, w),
            Phase::Transfer => self.transferred(clock, w),
            Phase::Computing => {
                self.split_cpu_wait(clock.now, w);
                true
            }
            Phase::Receiving => {
                self.split_cpu_wait(clock.now, w);
                self.received(clock, w)
            }
            Phase::Delayed | Phase::Copying => true,
            phase => unreachable_phase(phase),
        };
        if done {
            self.end_operation(w);
            self.run_worker(clock, w);
        }
    }

    /// Index of the next operation and whether it is for the item as a whole.
    fn next_operation(&self, w: u32) -> Option<(usize, bool)> {
        let worker = &self.workers[w as usize];
        let stage = &self.stages[worker.stage as usize];
        let operation = worker.operation as usize;
        if worker.sample < worker.item.samples && !stage.per_sample.is_empty() {
            return Some((operation, false));
        }
        (operation < stage.per_item.len()).then_some((operation, true))
    }

    fn end_operation(&mut self, w: u32) {
        let worker = &mut self.workers[w as usize];
        let stage = &self.stages[worker.stage as usize];
        worker.operation += 1;
        let per_sample = worker.sample < worker.item.samples && !stage.per_sample.is_empty();
        if per_sample && worker.operation as usize == stage.per_sample.len() {
            worker.operation = 0;
            worker.sample += 1;
        }
    }

    /// A new item for worker `w`.
    pub(super) fn begin_item(&mut self, w: u32, item: Item) {
        let worker = &mut self.workers[w as usize];
        worker.item = item;
        worker.sample = 0;
        worker.operation = 0;
    }

    /// Begins an operation; true if it is over at once.
    fn begin(&mut self, clock: &mut Clock, w: u32, index: usize, whole: bool) -> bool {
        let stage = &self.stages[self.workers[w as usize].stage as usize];
        let work = if whole { &stage.per_item[index] } else { &stage.per_sample[index] };
        match work {
            Work::Read => self.begin_read(clock, w),
            Work::Compute(draw) => {
                let (seconds, delay) = self.draw(draw, w);
                self.begin_compute(clock, w, seconds, delay, Phase::Computing)
            }
            Work::Decode(law, pixels) => {
                let seconds = law.core_seconds(self.stored_bytes(w), *pixels);
                self.begin_compute(clock, w, seconds, Delay::once(seconds), Phase::Computing)
            }
            Work::Delay(draw) => {
                let (seconds, delay) = self.draw(draw, w);
                if seconds <= 0.0 {
                    return true;
                }
                self.enter(clock.now, w, Phase::Delayed, Cause::Latency);
                clock.after(delay, Event::Waited(Customer::Worker(w)));
                false
            }
            Work::Copy => self.begin_copy(clock, w),
        }
    }

    fn draw(&self, draw: &Draw, w: u32) -> (f64, Delay) {
        if let Some(constant) = draw.constant {
            return constant;
        }
        let worker = &self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        let position = worker.item.first + worker.sample as u64;
        let entity = position * loader.nodes as u64 + loader.rank as u64;
        let mut generator = self.streams.at(draw.purpose, loader.job as u64, entity, draw.index);
        let seconds = draw.sampler.draw(&mut generator);
        (seconds, Delay::once(seconds))
    }

    /// Bytes of the sample that worker `w` is at; behind a stage that gathered several, their mean.
    fn stored_bytes(&self, w: u32) -> f64 {
        let worker = &self.workers[w as usize];
        match self.stages[worker.stage as usize].previous {
            None => worker.size,
            Some(_) => worker.item.bytes / f64::from(worker.item.samples.max(1)),
        }
    }

    /// Worker `w` needs a core, in `phase`; true if for no time.
    pub(super) fn begin_compute(
        &mut self,
        clock: &mut Clock,
        w: u32,
        seconds: f64,
        delay: Delay,
        phase: Phase,
    ) -> bool {
        if seconds <= 0.0 {
            return true;
        }
        let worker = &mut self.workers[w as usize];
        worker.work = seconds;
        match self.loaders[worker.loader as usize].cores {
            Cores::Shared(group) => {
                self.enter(clock.now, w, phase, phase.on_core());
                self.network.start(clock.now, group, seconds, Customer::Worker(w));
            }
            Cores::Fifo(station) => {
                let station = &mut self.stations[station as usize];
                let (visit, free) = (Waiting { customer: Customer::Worker(w), delay }, true);
                if station.queue.arrive(clock.now, visit) == free {
                    self.enter(clock.now, w, phase, phase.on_core());
                    clock.after(delay, Event::Computed(w));
                } else {
                    self.enter(clock.now, w, phase, Cause::CpuWait);
                }
            }
        }
        false
    }

    /// A core has done the computation of worker `w`, and takes up the next.
    pub(super) fn computed(&mut self, clock: &mut Clock, w: u32) {
        let loader = self.workers[w as usize].loader;
        if let Cores::Fifo(station) = self.loaders[loader as usize].cores
            && let Some(next) = self.stations[station as usize].queue.leave(clock.now)
            && let Customer::Worker(other) = next.customer
        {
            let cause = self.workers[other as usize].phase.on_core();
            self.note(clock.now, other, Activity::Doing(cause));
            clock.after(next.delay, Event::Computed(other));
        }
        self.resume(clock, w);
    }

    /// A computation on shared cores took longer than its core-seconds because others had the
    /// cores: the time beyond them is cpu-wait, counted first.
    pub(super) fn split_cpu_wait(&mut self, now: Time, w: u32) {
        let worker = &mut self.workers[w as usize];
        if matches!(self.loaders[worker.loader as usize].cores, Cores::Fifo(_)) {
            return;
        }
        let (work, cause) =
            (crate::engine::Span::from_seconds(worker.work), worker.phase.on_core());
        let Some(entry) = worker.timeline.last_mut() else { return };
        let took = now.since(entry.start);
        if took.0 > work.0 + 1 {
            let start = entry.start + crate::engine::Span(took.0 - work.0);
            entry.activity = Activity::Doing(Cause::CpuWait);
            worker.timeline.push(start, Activity::Doing(cause));
        }
    }

    fn begin_copy(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        if loader.pcie.is_empty() {
            return true;
        }
        let group = loader.pcie[(worker.item.sequence % loader.pcie.len() as u64) as usize];
        let bytes = match loader.decoded_size {
            Some(size) => size * worker.item.samples as f64,
            None => worker.item.bytes,
        };
        self.enter(clock.now, w, Phase::Copying, Cause::Copy);
        self.network.start(clock.now, group, bytes, Customer::Worker(w));
        false
    }

    /// Worker `w` waits in `phase`, doing what counts as `cause`.
    pub(super) fn enter(&mut self, now: Time, w: u32, phase: Phase, cause: Cause) {
        self.workers[w as usize].phase = phase;
        self.note(now, w, Activity::Doing(cause));
    }

    /// From `now` on worker `w` does `activity`.
    #[inline]
    pub(super) fn note(&mut self, now: Time, w: u32, activity: Activity) {
        let worker = &mut self.workers[w as usize];
        if self.loaders[worker.loader as usize].waiters.is_empty() {
            worker.timeline.clear();
        }
        worker.timeline.push(now, activity);
        if let (Some(recorder), Some(track)) = (&mut self.recorder, worker.track) {
            recorder.begin(track, now, activity.name());
        }
    }

    /// What ended the idleness or blocking of worker `w`.
    pub(super) fn link(&mut self, w: u32, by: u32) {
        if let Some(entry) = self.workers[w as usize].timeline.last_mut() {
            match &mut entry.activity {
                Activity::Idle(link) | Activity::Blocked(link) if *link == NOBODY => *link = by,
                _ => {}
            }
        }
    }
}

/// A customer that waits for a server, and how long it will take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) customer: Customer,
    pub(super) delay: Delay,
}

#[cold]
fn unreachable_phase(phase: Phase) -> bool {
    panic!("a worker in phase {phase:?} waits for nothing that can come")
}
