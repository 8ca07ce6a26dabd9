//! A worker, the item that it is at, and what its operations are.

use forebay_engine::fluid::GroupId;
use forebay_metrics::Timeline;
use forebay_model::law::DecodeLaw;
use forebay_model::random::{Purpose, Sampler};
use forebay_report::Cause;
use forebay_scenario::Distribution;

use super::event::{ActivityId, Delay};
use super::index::{LoaderId, StageId, StationId, WorkerId};
use super::team::Team;
use super::tiers::Origin;

/// A worker of a stage. What every sample needs comes first and fills two cache lines, to the sums of the
/// usual causes in its timeline.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Worker {
    pub(super) stage: StageId,
    pub(super) loader: LoaderId,
    /// Which sample of the item is being worked on.
    pub(super) sample: u32,
    /// Which of the stage's operations is next.
    pub(super) operation: u32,
    pub(super) phase: Phase,
    /// Where what is read comes from.
    pub(super) origin: Origin,
    /// How often the request in progress was refused.
    pub(super) refusals: u8,
    /// Parts of the request in progress that are still to be done, where it has several.
    pub(super) parts: u8,
    /// Requests made for the current sample.
    pub(super) requests: u32,
    pub(super) item: Item,
    /// Size of the sample being read [B].
    pub(super) size: f64,
    /// Bytes that the request in progress asked for [B].
    pub(super) request: f64,
    /// Address of the current sample's draws: its position in the job's reading.
    pub(super) position: u64,
    pub(super) timeline: Timeline,
    /// Core-seconds of the computation in progress.
    pub(super) work: f64,
    /// Which file is read, and its request's way to storage targets or another node, where that
    /// matters.
    pub(super) file: u64,
    pub(super) way: u32,
    /// What is read, as a unit of the page cache, if it goes through one.
    pub(super) unit: u32,
}

const _: () = assert!(size_of::<Worker>() == 192, "three cache lines");

impl Worker {
    /// A new item.
    #[inline]
    pub(super) fn begin_item(&mut self, item: Item) {
        self.item = item;
        self.sample = 0;
        self.operation = 0;
    }
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
    pub(super) worker: WorkerId,
}

/// What a worker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// Input.
    #[default]
    Idle,
    /// Its turn in the runnable list: it has room for new input.
    Ready,
    /// To be started.
    Starting,
    /// Before it looks for room again.
    Asleep,
    /// For a refused request to come again.
    Refused,
    /// For a slot of its I/O queue.
    Queued,
    Opening,
    Latency,
    /// A file's bytes.
    Transfer,
    /// Those of a plain read: nothing is to be asked when they have come.
    File,
    /// Some bytes of a shard.
    Request,
    /// All parts of a request to a storage that was measured.
    Served,
    /// A core for the bytes that have come.
    Receiving,
    /// A core to decompress what has come, before the first sample in it.
    Unpacking,
    Computing,
    Delayed,
    Copying,
    OnGpu,
    /// Items before its own.
    Held,
    /// Room in the buffer.
    Blocked,
}

impl Phase {
    /// What using a core in this phase counts as.
    #[inline]
    pub(super) fn on_core(self) -> Cause {
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
    CopyStored,
    /// So long on a GPU for each sample [s].
    Kernel(f64),
    /// Core-seconds for each of the item's decoded bytes.
    Memcpy(f64),
    /// Computing that several threads share.
    Team(Box<Team>),
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
    pub(super) sampler: Sampler,
    pub(super) constant: Option<(f64, Delay)>,
    pub(super) purpose: Purpose,
    /// Sets apart the draws of several operations for one sample.
    pub(super) index: u64,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cores {
    Shared(GroupId),
    Fifo(StationId),
}

/// A activity that waits for a server, and how long it will take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) activity: ActivityId,
    pub(super) delay: Delay,
}
