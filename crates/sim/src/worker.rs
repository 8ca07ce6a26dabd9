//! A worker, its current item, and the operations of its stage.

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

/// A worker of a stage. The fields needed for every sample come first and fill two cache lines, up to the timeline's sums of
/// the usual causes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Worker {
    pub(super) stage: StageId,
    pub(super) loader: LoaderId,
    /// Index within the item of the sample being worked on.
    pub(super) sample: u32,
    /// Index of the stage's next operation.
    pub(super) operation: u32,
    pub(super) phase: Phase,
    /// Where the bytes being read come from.
    pub(super) origin: Origin,
    /// How often the request in progress was refused.
    pub(super) refusals: u8,
    /// Parts of the request in progress still to be done, if it has several parts.
    pub(super) parts: u8,
    /// Requests made for the current sample.
    pub(super) requests: u32,
    pub(super) item: Item,
    /// Size of the sample being read [B].
    pub(super) size: f64,
    /// Bytes that the request in progress asked for [B].
    pub(super) request: f64,
    /// Address of the current sample's random samples: its position in the job's reading.
    pub(super) position: u64,
    pub(super) timeline: Timeline,
    /// Core-seconds of the computation in progress [s].
    pub(super) work: f64,
    /// Number of the file being read. `way` is the route of its request to storage targets, through an I/O queue or to another
    /// node, if the request has several routes to choose from.
    pub(super) file: u64,
    pub(super) way: u32,
    /// Unit of the page cache being read, if reading goes through one.
    pub(super) unit: u32,
}

const _: () = assert!(size_of::<Worker>() == 192, "three cache lines");

impl Worker {
    /// Begins a new item.
    #[inline]
    pub(super) fn begin_item(&mut self, item: Item) {
        self.item = item;
        self.sample = 0;
        self.operation = 0;
    }
}

/// The unit of work that a stage hands to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Item {
    /// Position of the item's first sample in the loader's reading.
    pub(super) first: u64,
    pub(super) samples: u32,
    /// Bytes as stored [B].
    pub(super) bytes: f64,
    /// Position of the item in the order of its stage's inputs.
    pub(super) sequence: u64,
    /// The worker that made the item.
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
    /// Its start-up to end.
    Starting,
    /// The end of its sleep, when it looks for room in the queue again.
    Asleep,
    /// The end of its back-off, when its refused request is sent again.
    Refused,
    /// A slot of its I/O queue.
    Queued,
    Opening,
    Latency,
    /// The bytes of a file.
    Transfer,
    /// The bytes of a plain read: nothing else has to be done when they have arrived.
    File,
    /// Some bytes of a shard.
    Request,
    /// All parts of a request that a table, a disk head or several ranges serve.
    Served,
    /// A core for the CPU work of receiving bytes.
    Receiving,
    /// A core to decompress a row group before its first sample.
    Unpacking,
    Computing,
    Delayed,
    Copying,
    OnGpu,
    /// Earlier items to be handed over first, since the stage keeps the order.
    Held,
    /// Room in the buffer behind its stage.
    Blocked,
}

impl Phase {
    /// Returns the stall cause that core time in this phase counts as.
    #[inline]
    pub(super) fn on_core(self) -> Cause {
        if self == Phase::Receiving { Cause::Transfer } else { Cause::Decode }
    }
}

/// An operation of a stage, prepared for the simulation.
#[derive(Debug)]
pub(super) enum Work {
    Read,
    Compute(Draw),
    /// Decoding time from the sample's bytes and the given number of pixels.
    Decode(DecodeLaw, f64),
    Delay(Draw),
    Copy,
    CopyStored,
    /// Time on a GPU for each sample [s].
    Kernel(f64),
    /// Core-seconds for each of the item's decoded bytes [s/B].
    Memcpy(f64),
    /// A computation that several threads share.
    Team(Box<Team>),
}

impl Work {
    /// Returns a computation with the same core-seconds each time.
    pub(super) fn constant(seconds: f64, delay: impl FnOnce(f64) -> Delay, index: u64) -> Work {
        let sampler = Sampler::new(&Distribution::Constant(seconds));
        Work::Compute(Draw::new(sampler, delay, Purpose::Compute, index))
    }
}

/// A duration that is sampled at each use, or is constant.
#[derive(Debug)]
pub(super) struct Draw {
    pub(super) sampler: Sampler,
    pub(super) constant: Option<(f64, Delay)>,
    pub(super) purpose: Purpose,
    /// Distinguishes the random samples of several operations on one sample.
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

/// How a node's cores are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cores {
    Shared(GroupId),
    Fifo(StationId),
}

/// An activity that waits for a server, and its service time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) activity: ActivityId,
    pub(super) delay: Delay,
}
