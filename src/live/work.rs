//! What a worker does for its items: reading, computing, waiting, copying.

use super::clock::{Clock, busy, thread_cpu};
use super::log::Log;
use super::reader::{ReadError, Reader};
use super::state::Item;
use crate::engine::{Span, Time};
use crate::random::{Purpose, Sampler, Streams};
use crate::report::Cause;
use crate::scenario::{Distribution, Operation, Stage};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// An operation, prepared.
enum Work {
    Read,
    Compute(Draw),
    Delay(Draw),
    Copy,
}

/// A duration drawn for each use at the address that the simulated world uses.
struct Draw {
    sampler: Sampler,
    constant: Option<f64>,
    purpose: Purpose,
    index: u64,
}

impl Draw {
    fn new(distribution: &Distribution, purpose: Purpose, index: u64) -> Draw {
        let sampler = Sampler::new(distribution);
        Draw { constant: sampler.is_constant(), sampler, purpose, index }
    }
}

/// The link to an emulated accelerator: one transfer after the other.
pub(super) struct Link {
    /// [B/s]; may be infinite.
    pub(super) bandwidth: f64,
    pub(super) free_at: Mutex<Time>,
}

/// All that one worker thread needs to carry out its stage.
pub(super) struct Hands {
    per_sample: Vec<Work>,
    per_item: Vec<Work>,
    reader: Option<Reader>,
    streams: Streams,
    /// Number of the job copy.
    owner: u64,
    links: Arc<Vec<Link>>,
    decoded_size: Option<f64>,
    clock: Clock,
    over: Arc<AtomicBool>,
}

/// What the workers of a job copy have in common.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) streams: Streams,
    pub(super) owner: u64,
    pub(super) links: Arc<Vec<Link>>,
    pub(super) decoded_size: Option<f64>,
    pub(super) clock: Clock,
    pub(super) over: Arc<AtomicBool>,
}

impl Hands {
    /// For a worker of stage number `index`.
    pub(super) fn new(stage: &Stage, index: usize, reader: Option<Reader>, of: Common) -> Hands {
        let works = |list: &[Operation], base: usize| {
            let salt = |i: usize| (index * 256 + base + i) as u64;
            list.iter().enumerate().map(|(i, operation)| work(operation, salt(i))).collect()
        };
        Hands {
            per_sample: works(&stage.per_sample, 0),
            per_item: works(&stage.per_item, 128),
            reader,
            streams: of.streams,
            owner: of.owner,
            links: of.links,
            decoded_size: of.decoded_size,
            clock: of.clock,
            over: of.over,
        }
    }

    /// The run's clock is known.
    pub(super) fn begin(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Does all that the stage does to an item; gives the bytes read.
    pub(super) fn carry_out(&mut self, item: &Item, log: &mut Log) -> Result<u64, ReadError> {
        let mut bytes = 0;
        if !self.per_sample.is_empty() {
            for sample in 0..item.samples {
                for operation in 0..self.per_sample.len() {
                    bytes += self.operate(false, operation, item, sample, bytes, log)?;
                }
            }
        }
        for operation in 0..self.per_item.len() {
            bytes += self.operate(true, operation, item, item.samples, bytes, log)?;
        }
        Ok(bytes)
    }

    fn operate(
        &mut self,
        whole: bool,
        operation: usize,
        item: &Item,
        sample: u64,
        read: u64,
        log: &mut Log,
    ) -> Result<u64, ReadError> {
        let work = if whole { &self.per_item[operation] } else { &self.per_sample[operation] };
        match work {
            Work::Read => {
                let Some(reader) = &mut self.reader else { return Ok(0) };
                return reader.read(item.first + sample, log);
            }
            Work::Compute(draw) => {
                let work = Span::from_seconds(self.draw(draw, item, sample));
                if work > Span::ZERO {
                    log.begin(Cause::Decode);
                    let before = thread_cpu();
                    busy(work);
                    log.split_cpu_wait(Span(thread_cpu().0.saturating_sub(before.0)));
                }
            }
            Work::Delay(draw) => {
                let span = Span::from_seconds(self.draw(draw, item, sample));
                if span > Span::ZERO {
                    let start = log.begin(Cause::Latency);
                    self.clock.sleep_until(start + span, &self.over);
                }
            }
            Work::Copy => self.copy(item, read, log),
        }
        Ok(0)
    }

    fn draw(&self, draw: &Draw, item: &Item, sample: u64) -> f64 {
        draw.constant.unwrap_or_else(|| {
            let entity = item.first + sample;
            let mut generator = self.streams.at(draw.purpose, self.owner, entity, draw.index);
            draw.sampler.draw(&mut generator)
        })
    }

    /// Takes the emulated link to a device for as long as the item's bytes need.
    fn copy(&self, item: &Item, read: u64, log: &mut Log) {
        let count = self.links.len().max(1) as u64;
        let Some(link) = self.links.get((item.sequence % count) as usize) else { return };
        let bytes = match self.decoded_size {
            Some(size) => size * item.samples as f64,
            None => (item.bytes + read) as f64,
        };
        let now = log.begin(Cause::Copy);
        let mut free_at = link.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let done = now.max(*free_at) + Span::from_seconds(bytes / link.bandwidth);
        *free_at = done;
        drop(free_at);
        self.clock.sleep_until(done, &self.over);
    }

    /// Bytes that this worker has read.
    pub(super) fn bytes(&self) -> u64 {
        self.reader.as_ref().map_or(0, |reader| reader.bytes)
    }
}

fn work(operation: &Operation, index: u64) -> Work {
    match operation {
        Operation::Read => Work::Read,
        Operation::Compute(distribution) => {
            Work::Compute(Draw::new(distribution, Purpose::Compute, index))
        }
        Operation::Delay(distribution) => {
            Work::Delay(Draw::new(distribution, Purpose::Delay, index))
        }
        Operation::Copy => Work::Copy,
    }
}
