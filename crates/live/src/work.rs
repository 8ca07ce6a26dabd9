//! The operations of a worker on its items: reading, computing, waiting, copying.

use super::clock::{Clock, busy, thread_cpu};
use super::content::{Adds, Duty, GpuPath, decodes};
use super::loader_stream::LoaderStream;
use super::log::Log;
use super::pace::Tally;
use super::reader::{ReadError, Reader};
use forebay_calibrate::probe::ProbeError;
use forebay_engine::{Span, Time};
use forebay_image::{Decoder, ImageError};
use forebay_live_queue::Item;
use forebay_model::law::DecodeLaw;
use forebay_model::random::{Purpose, Sampler};
use forebay_report::Cause;
use forebay_scenario::{Distribution, Image, Operation, Stage, StageGraph};
use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// An operation, prepared for execution.
enum Work {
    Read,
    Compute(Draw),
    Decode(DecodeLaw),
    Delay(Draw),
    Copy,
    /// Core time for each decoded byte [s/B].
    Memcpy(f64),
}

/// Why a worker cannot continue.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot decode a sample: {0}")]
    Decode(#[from] ImageError),
    #[error("cannot copy a batch to the GPU: {0}")]
    Copy(#[from] ProbeError),
}

/// A random duration. It is sampled anew for each use, with the same random numbers as in a simulation.
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

/// The link to an emulated accelerator; it carries one transfer after another.
pub(super) struct Link {
    /// Bandwidth; may be infinite [B/s].
    pub(super) bandwidth: f64,
    pub(super) free_at: Mutex<Time>,
}

/// Everything that one worker thread needs to execute its stage.
pub(super) struct Hands {
    per_sample: Vec<Work>,
    per_item: Vec<Work>,
    reader: Option<Reader>,
    stream: LoaderStream,
    links: Arc<Vec<Link>>,
    /// The path to a real GPU, and what this stage does for it; `None` if the run uses no real GPU.
    path: Option<(GpuPath, Duty)>,
    decoded_size: Option<f64>,
    /// Decoder of images; `None` if samples are not images.
    decoder: Option<Decoder>,
    /// Whether the worker passes on the stored bytes, because a later stage decodes them.
    hands_on: bool,
    /// Whether this stage decodes what an earlier stage has read.
    decodes: bool,
    /// Size of the sample that was read last [B].
    size: u64,
    clock: Clock,
    over: Arc<AtomicBool>,
}

/// The state that the workers of a loader share.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) stream: LoaderStream,
    pub(super) links: Arc<Vec<Link>>,
    pub(super) path: Option<GpuPath>,
    pub(super) decoded_size: Option<f64>,
    pub(super) image: Option<Image>,
    pub(super) clock: Clock,
    pub(super) over: Arc<AtomicBool>,
}

impl Hands {
    /// Returns the equipment of a worker of stage number `index`.
    pub(super) fn new(
        graph: &StageGraph,
        index: usize,
        reader: Option<Reader>,
        of: Common,
    ) -> Hands {
        let stage = &graph.stages[index];
        let stage_decodes = |stage: &Stage| stage.per_sample.iter().any(decodes);
        let later = graph.stages[index + 1..].iter().any(stage_decodes);
        let duty = Duty::new(graph, index, of.image.is_some());
        let works = |list: &[Operation], base: usize| {
            let salt = |i: usize| (index * 256 + base + i) as u64;
            list.iter().enumerate().map(|(i, operation)| work(operation, salt(i))).collect()
        };
        Hands {
            per_sample: works(&stage.per_sample, 0),
            per_item: works(&stage.per_item, 128),
            reader,
            stream: of.stream,
            links: of.links,
            path: of.path.map(|path| (path, duty)),
            decoded_size: of.decoded_size,
            decoder: of.image.map(|image| Decoder::new(image.resize)),
            hands_on: index == 0 && later && of.image.is_some(),
            decodes: index > 0 && stage_decodes(stage),
            size: 0,
            clock: of.clock,
            over: of.over,
        }
    }

    /// Sets the clock of the run.
    pub(super) fn begin(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Executes all operations of the stage on an item.
    pub(super) fn carry_out(&mut self, item: &mut Item, log: &mut Log) -> Result<(), WorkError> {
        if item.ready > Time::ZERO && item.ready > log.now() {
            log.begin(Cause::Restart);
            log.sleep_until(item.ready, &self.over);
        }
        if !self.per_sample.is_empty() {
            for sample in 0..item.samples {
                for operation in 0..self.per_sample.len() {
                    self.operate(false, operation, item, sample, log)?;
                }
            }
        }
        for operation in 0..self.per_item.len() {
            self.operate(true, operation, item, item.samples, log)?;
        }
        if self.decodes {
            item.stored = Vec::new();
        }
        if let Some((path, Duty { ends: true, .. })) = &self.path {
            path.pool.give(item.content.drain(..));
        }
        Ok(())
    }

    fn operate(
        &mut self,
        whole: bool,
        operation: usize,
        item: &mut Item,
        sample: u64,
        log: &mut Log,
    ) -> Result<(), WorkError> {
        let work = if whole { &self.per_item[operation] } else { &self.per_sample[operation] };
        match work {
            Work::Read => {
                let Some(reader) = &mut self.reader else { return Ok(()) };
                self.size = reader.read(item.first + sample, log)?;
                item.bytes += self.size;
                if self.hands_on {
                    item.stored.push(reader.sample().to_vec());
                }
                if let Some((path, Duty { adds: Adds::Stored, .. })) = &self.path {
                    path.append(reader.sample(), &mut item.content);
                }
            }
            Work::Compute(draw) => compute(Span::from_seconds(self.draw(draw, item, sample)), log),
            Work::Decode(law) => return self.decode(*law, item, sample, log),
            Work::Delay(draw) => {
                let span = Span::from_seconds(self.draw(draw, item, sample));
                if span > Span::ZERO {
                    let start = log.begin(Cause::Latency);
                    self.clock.sleep_until(start + span, &self.over);
                }
            }
            Work::Copy => self.copy(item, log)?,
            Work::Memcpy(per_byte) => {
                compute(Span::from_seconds(per_byte * self.decoded_bytes(item)), log);
            }
        }
        Ok(())
    }

    /// Decodes an image; for other samples, keeps a core busy for the time that `law` gives for decoding them.
    fn decode(
        &mut self,
        law: DecodeLaw,
        item: &mut Item,
        sample: u64,
        log: &mut Log,
    ) -> Result<(), WorkError> {
        let Some(decoder) = &mut self.decoder else {
            let bytes =
                if self.reader.is_some() { self.size } else { item.bytes / item.samples.max(1) };
            compute(Span::from_seconds(law.core_seconds(bytes as f64, 0.0)), log);
            return Ok(());
        };
        let stored = match &self.reader {
            Some(reader) => reader.sample(),
            None => item.stored.get(sample as usize).map_or(&[][..], Vec::as_slice),
        };
        log.begin(Cause::Decode);
        let before = thread_cpu();
        match &self.path {
            Some((path, Duty { adds: Adds::Decoded, .. }))
                if let Some(buffer) = path.room(&mut item.content) =>
            {
                decoder.decode_into(stored, |size| buffer.append(size))?;
                buffer.truncate(path.target.bytes());
            }
            _ => {
                black_box(decoder.decode(stored)?);
            }
        }
        log.split_cpu_wait(Span(thread_cpu().0.saturating_sub(before.0)));
        Ok(())
    }

    fn draw(&self, draw: &Draw, item: &Item, sample: u64) -> f64 {
        draw.constant.unwrap_or_else(|| {
            let LoaderStream { owner, streams, .. } = self.stream;
            let entity = self.stream.entity(item.first + sample);
            let mut generator = streams.at(draw.purpose, owner, entity, draw.index);
            draw.sampler.draw(&mut generator)
        })
    }

    /// Returns the bytes of an item after decoding [B].
    fn decoded_bytes(&self, item: &Item) -> f64 {
        self.decoded_size.map_or(item.bytes as f64, |size| size * item.samples as f64)
    }

    /// Copies a batch to a real GPU. For an emulated device, occupies the device's link for the time that a transfer of the item
    /// takes.
    fn copy(&self, item: &Item, log: &mut Log) -> Result<(), WorkError> {
        if let Some((path, _)) = &self.path {
            log.begin(Cause::Copy);
            return Ok(path.target.copy(&item.content, &self.over)?);
        }
        let count = self.links.len().max(1) as u64;
        let Some(link) = self.links.get((item.sequence % count) as usize) else { return Ok(()) };
        let bytes = self.decoded_bytes(item);
        let now = log.begin(Cause::Copy);
        let mut free_at = link.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let done = now.max(*free_at) + Span::from_seconds(bytes / link.bandwidth);
        *free_at = done;
        drop(free_at);
        self.clock.sleep_until(done, &self.over);
        Ok(())
    }

    /// Returns the bytes that this worker has read, and the tally of its requests against the storage limits.
    pub(super) fn read(&self) -> (u64, Tally) {
        let of = |reader: &Reader| (reader.bytes, reader.tally());
        self.reader.as_ref().map_or((0, Tally::default()), of)
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
        Operation::Decode(law) => Work::Decode(*law),
        // Copies occupy the link of an emulated device. `check` has refused loaders that decode on a GPU.
        Operation::Copy | Operation::CopyStored | Operation::Kernel(_) => Work::Copy,
        Operation::Memcpy(per_byte) => Work::Memcpy(*per_byte),
    }
}

/// Keeps a core busy for `work` of CPU time.
fn compute(work: Span, log: &mut Log) {
    if work > Span::ZERO {
        log.begin(Cause::Decode);
        let before = thread_cpu();
        busy(work);
        log.split_cpu_wait(Span(thread_cpu().0.saturating_sub(before.0)));
    }
}
