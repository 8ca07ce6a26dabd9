//! A worker, its current item, and the operations of its stage.

use forebay_metrics::Timeline;
use forebay_model::law::DecodeLaw;
use forebay_model::random::{Purpose, Sampler};
use forebay_report::Cause;
use forebay_scenario::Distribution;

use super::workers::Team;
use crate::env::Delay;
use crate::ids::{LoaderId, StageId, WorkerId};
use crate::storage::Origin;

/// A worker of a stage. The fields needed for every sample come first; together with the timeline's sums of the usual causes,
/// they fill two cache lines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Worker {
    pub(crate) stage: StageId,
    pub(crate) loader: LoaderId,
    pub(crate) cursor: ItemCursor,
    pub(crate) phase: Phase,
    /// The source of the bytes being read.
    pub(crate) origin: Origin,
    /// Number of times that the request in progress was refused.
    pub(crate) refusals: u8,
    /// Number of unfinished parts of the request in progress, if it has several parts.
    pub(crate) parts: u8,
    /// Number of requests made for the current sample.
    pub(crate) requests: u32,
    pub(crate) item: Item,
    /// Bytes of the request in progress [B].
    pub(crate) request: f64,
    pub(crate) sample: CurrentSample,
    pub(crate) timeline: Timeline,
    pub(crate) location: Location,
}

const _: () = assert!(size_of::<Worker>() == 192, "three cache lines");
const _: () = assert!(std::mem::offset_of!(Worker, sample) == 64, "the second one begins here");

impl Worker {
    /// Begins a new item.
    #[inline]
    pub(super) fn begin_item(&mut self, item: Item) {
        self.item = item;
        self.cursor = ItemCursor::default();
    }
}

/// How far a worker is in its item.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ItemCursor {
    /// Index of the current sample within the item.
    pub(super) sample: u32,
    /// Index of the stage's next operation.
    pub(super) operation: u32,
}

impl ItemCursor {
    /// Moves on to the next operation. The first `per_sample` operations of a stage are done for each of the item's `samples`
    /// samples, one sample after the other.
    #[inline]
    pub(super) fn end_operation(&mut self, per_sample: u32, samples: u32) {
        self.operation += 1;
        if self.operation == per_sample {
            self.sample += 1;
            if self.sample < samples {
                self.operation = 0;
            }
        }
    }
}

/// The sample that a worker reads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CurrentSample {
    /// Stored size [B].
    pub(super) size: f64,
    /// Position of the sample in the job's reading order, which is also its random-number key.
    pub(super) position: u64,
}

/// Where a worker's request finds its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Location {
    /// Number of the file that the request reads.
    pub(super) file: u64,
    /// Number of the request's route (to storage targets, through an I/O queue, or to another node), if there are several
    /// routes.
    pub(super) way: u32,
    /// Page-cache unit being read, if the loader reads through a page cache.
    pub(super) unit: u32,
}

/// The unit of work that a stage hands to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Item {
    /// Position of the item's first sample in the loader's reading order.
    pub(super) first: u64,
    pub(super) samples: u32,
    /// Stored (encoded) bytes of the item's samples [B].
    pub(super) bytes: f64,
    /// Position of the item in the order of its stage's inputs.
    pub(super) sequence: u64,
    /// The worker that made the item.
    pub(super) worker: WorkerId,
}

/// The phase of a worker: what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// The worker waits for input.
    #[default]
    Idle,
    /// The worker has room for new input, and waits for its turn in the list of runnable workers.
    Ready,
    /// The worker waits for the end of its start-up.
    Starting,
    /// The worker sleeps; then it looks for room in the queue again.
    Asleep,
    /// The worker waits for the end of its back-off; then it sends its refused request again.
    Refused,
    /// The worker waits for a slot of its I/O queue.
    Queued,
    Opening,
    Latency,
    /// The worker waits for the bytes of a request, in data sets other than shards.
    Transfer,
    /// The worker waits for the bytes of a plain read, after which nothing else has to be done.
    File,
    /// The worker waits for the bytes of a request for a part of a shard.
    Request,
    /// The worker waits for all parts of a request that a table, a disk head or several ranges serve.
    Served,
    /// The worker uses a core, or waits for one, for the CPU work of receiving bytes.
    Receiving,
    /// The worker uses a core, or waits for one, to decompress a row group before its first sample.
    Unpacking,
    Computing,
    Delayed,
    Copying,
    OnGpu,
    /// The worker waits until earlier items have been handed over, because its stage keeps the order.
    Held,
    /// The worker waits for room in the buffer behind its stage.
    Blocked,
}

impl Phase {
    /// Returns whether the worker uses a core in this phase, or waits for one.
    pub(super) fn is_on_core(self) -> bool {
        matches!(self, Phase::Receiving | Phase::Unpacking | Phase::Computing)
    }

    /// Returns the stall cause to which core time in this phase is attributed.
    #[inline]
    pub(super) fn on_core(self) -> Cause {
        if self == Phase::Receiving { Cause::Transfer } else { Cause::Decode }
    }
}

/// An operation of a stage, prepared for the simulation.
#[derive(Debug)]
pub(crate) enum Work {
    Read,
    Compute(Draw),
    /// Decoding, whose time follows from the sample's bytes and the given number of pixels.
    Decode(DecodeLaw, f64),
    Delay(Draw),
    Copy,
    CopyStored,
    /// A GPU kernel, with its time for each sample [s].
    Kernel(f64),
    /// A copy in memory, with its core-seconds for each of the item's decoded bytes [s/B].
    Memcpy(f64),
    /// A computation that several threads share.
    Team(Box<Team>),
}

impl Work {
    /// Returns a computation that always takes the same core-seconds.
    pub(crate) fn constant(seconds: f64, delay: impl FnOnce(f64) -> Delay, index: u64) -> Work {
        let sampler = Sampler::new(&Distribution::Constant(seconds));
        Work::Compute(Draw::new(sampler, delay, Purpose::Compute, index))
    }
}

/// A duration that is either constant or sampled anew at each use.
#[derive(Debug)]
pub(crate) struct Draw {
    pub(super) sampler: Sampler,
    pub(super) constant: Option<(f64, Delay)>,
    pub(super) purpose: Purpose,
    /// Number of the operation, which is a part of its random-number key.
    pub(super) index: u64,
}

impl Draw {
    pub(crate) fn new(
        sampler: Sampler,
        delay: impl FnOnce(f64) -> Delay,
        purpose: Purpose,
        index: u64,
    ) -> Draw {
        let constant = sampler.is_constant().map(|value| (value, delay(value)));
        Draw { sampler, constant, purpose, index }
    }
}
