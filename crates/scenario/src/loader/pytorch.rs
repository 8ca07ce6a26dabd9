//! PyTorch's `DataLoader` over a map-style data set.

use super::decode::{self, DecodeSettings};
use super::pin::{PinSettings, copying, pinning};
use super::settings::{ResolvedLoader, optional};
use super::workers::Workers;
use super::{Dealt, NextEpoch, Operation, Order, Replaced, Requests, Stage, StageGraph, Unit};
use crate::check::Check;
use crate::distribution::or_table::TimeOr;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive, Share};
use crate::profile::Profile;
use crate::role::Role;
use crate::{Dataset, Distribution};
use forebay_model::units::{Bandwidth, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// PyTorch's `DataLoader` over a map-style data set: processes that each make whole batches, and get requests for
/// them in turn. One loader serves all model copies of a node, as in a process that trains on all of them; under DDP each rank
/// makes a `DataLoader` in its process, with `num_workers` of its own: `loaders = "per-rank"`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pytorch {
    /// `num_workers`: processes of one loader; 0: the trainer itself reads and decodes, between its steps.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    workers: Field<Count<0, 100_000>>,
    /// `prefetch_factor`: batches that are requested ahead for each worker (default: 2).
    #[schemars(extend("x-role" = Role::Limit))]
    prefetch_factor: Field<Count<1, 100_000>>,
    /// `in_order`: hand out batches in the order of the sampler; otherwise as they are finished
    /// (default: true).
    #[schemars(extend("x-role" = Role::Choice))]
    in_order: Field<bool>,
    /// `persistent_workers`: workers live on from epoch to epoch (default: false).
    #[schemars(extend("x-role" = Role::Choice))]
    persistent_workers: Field<bool>,
    /// `IterableDataset` whose files are distributed among the workers: each worker makes whole batches from its
    /// own files, and gets no more requests when it has read them (default: false: map style, any worker makes any
    /// batch).
    #[schemars(extend("x-role" = Role::Identity))]
    iterable: Field<bool>,
    /// `drop_last`: drop the samples that do not fill a batch at the end of an epoch, or at the end of a worker's
    /// own files; otherwise they are a smaller batch (default: false).
    #[schemars(extend("x-role" = Role::Identity))]
    drop_last: Field<bool>,
    /// Core-seconds to decode a sample: a time, a law of its bytes and pixels, or the name of a library whose law the profile has: "pillow",
    /// "torchvision" or "turbo" (default: decoding by forebay as the profile says if the samples are images, otherwise 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    decode: Field<DecodeSettings>,
    /// Time in which a worker does nothing for a sample: a remote service, a sleep (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    delay: Field<Varying<Time>>,
    /// Core-seconds of a worker to collate a batch and hand it over (default: as the profile says if `ipc` is not written, otherwise 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    collate: Field<Varying<Time>>,
    /// `pin_memory`: core-seconds that the pinning thread needs for a batch, or a table in which they depend on the
    /// batch's bytes (default: no pinning thread).
    #[schemars(extend("x-role" = Role::Limit))]
    pin_memory: Field<TimeOr<PinSettings>>,
    /// Whether each batch is copied to its device over the PCIe link: while steps run if it is pinned, otherwise by
    /// the trainer, which waits for the copy (default: false).
    #[schemars(extend("x-role" = Role::Choice))]
    to_device: Field<bool>,
    /// Kind of workers: "process" or "thread" (default: "process").
    #[schemars(extend("x-role" = Role::Choice))]
    worker_kind: Field<WorkerKind>,
    /// Share of a thread's computing in which it holds the interpreter's lock (default: as the profile says of the library that
    /// decodes, or 0).
    #[schemars(extend("x-role" = Role::Limit))]
    gil: Field<Share>,
    /// Rate at which a worker process hands over the decoded bytes of a batch through pickling and shared memory,
    /// which keeps its core busy (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    ipc: Field<Positive<Bandwidth>>,
    /// Core-seconds of the trainer to take a batch from the workers, or of the pinning thread if there is one (default: as the profile
    /// says, or 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    take: Field<Amount<Time>>,
    /// Time to start each worker, one after the other, at the beginning of each epoch, or only of the first one if
    /// workers are persistent (default: as the profile says, or 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    start: Field<Amount<Time>>,
}

/// What a profile says of the costs of PyTorch's loader.
#[derive(Clone, Copy)]
struct Costs<'c> {
    profile: Option<&'c Profile>,
    /// Decoded bytes of a sample [B].
    sample: f64,
}

impl Costs<'_> {
    /// Returns a parameter of a part; 0 if the profile does not have it.
    fn value(self, part: &str, name: &str) -> f64 {
        let fit = self.profile.and_then(|profile| profile.loader.get("pytorch")?.get(part));
        fit.and_then(|fit| fit.value(name)).unwrap_or(0.0)
    }

    /// Returns the work to collate: for each sample, and for each batch [core-s]; `None` if the profile does not say it. Without workers,
    /// the trainer collates, and hands nothing over.
    fn collate(self, workers: u32) -> Option<[f64; 2]> {
        let of = |part| {
            let value = |name| self.value(part, name);
            let each = value("per_sample") + self.sample * value("per_byte");
            let fixed = value("fixed");
            (each + fixed > 0.0).then_some([each, fixed])
        };
        Some("inline").filter(|_| workers == 0).and_then(of).or_else(|| of("collate"))
    }

    /// Returns the share of their work for which threads that decode by the library of `decode` hold the interpreter's lock.
    fn lock(self, decode: &Field<DecodeSettings>) -> f64 {
        match decode.get() {
            Some(DecodeSettings::Measured(library)) => {
                self.value(&format!("lock-{library}"), "share")
            }
            _ => 0.0,
        }
    }

    /// Returns the time to take a batch [s].
    fn take(self, batch: u64) -> f64 {
        self.value("take", "fixed") + batch as f64 * self.sample * self.value("take", "per_byte")
    }
}

/// Returns the bytes of a sample as the data set returns it [B].
fn sample_bytes(dataset: Option<&Dataset>) -> f64 {
    dataset.map_or(0.0, |of| of.decoded_size.unwrap_or_else(|| of.mean_size()))
}

fn compute(seconds: f64) -> Option<Operation> {
    (seconds > 0.0).then_some(Operation::Compute(Distribution::Constant(seconds)))
}

/// Kind of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum WorkerKind {
    /// Processes, each with an interpreter of its own.
    Process,
    /// Threads of the trainer's process.
    Thread,
}

impl Pytorch {
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        (devices, batch): (u32, u64),
        dataset: Option<&Dataset>,
    ) -> Option<ResolvedLoader> {
        let workers = check.required(at, &self.workers, "workers", "write `workers = 4`");
        let prefetch = self.prefetch_factor.get().map_or(2, |factor| factor.0);
        let decode = decode::of_sample(&self.decode, check, at, dataset)?;
        let delay = optional(&self.delay, check, Operation::Delay)?;
        let costs = Costs { profile: check.profile, sample: sample_bytes(dataset) };
        let collate = optional(&self.collate, check, Operation::Compute)?;
        let measured = !self.collate.is_written() && !self.ipc.is_written();
        let workers = workers?.small();
        let [collate_sample, collate_batch] =
            costs.collate(workers).filter(|_| measured).unwrap_or_default();
        let ahead = u64::from(workers) * prefetch;
        let mut pin = pinning(&self.pin_memory, check, ahead)?;
        let take = self.take.get().map_or_else(|| costs.take(batch), |time| time.0);
        let mut taking = if workers == 0 { 0.0 } else { take };
        if let Some(pin) = pin.as_mut().filter(|_| taking > 0.0) {
            pin.per_item.insert(0, Operation::Compute(Distribution::Constant(taking)));
            taking = 0.0;
        }
        let pool = Workers { measured_gil: costs.lock(&self.decode), ..self.pool(check, workers) };
        let load = Stage {
            name: "worker".to_owned(),
            workers: workers.max(1),
            unit: Unit::Batch,
            per_sample: [Operation::Read]
                .into_iter()
                .chain(decode)
                .chain(delay)
                .chain(compute(collate_sample))
                .collect(),
            per_item: collate
                .into_iter()
                .chain(compute(collate_batch))
                .chain(pool.hand_over())
                .collect(),
            order: Order::Any,
            buffer: ahead.max(1),
            lock: pool.lock(check),
            ..Stage::default()
        };
        let to_device = self.to_device.get().copied().unwrap_or(false);
        let copy = (to_device && pin.is_some()).then(|| copying(devices, ahead));
        let requests = Requests {
            ahead,
            replaced: if workers == 0 { Replaced::WhenWanted } else { Replaced::WhenTaken },
            dealt: Dealt::InTurn,
            in_order: self.in_order.get().copied().unwrap_or(true),
            next_epoch: NextEpoch::WhenWanted,
            start: match (workers, self.start.get()) {
                (0, _) => 0.0,
                (_, Some(time)) => time.0,
                (_, None) => costs.value("start", "per_worker"),
            },
            persistent: self.persistent_workers.get().copied().unwrap_or(false),
            iterable: self.iterable.get().copied().unwrap_or(false),
            drop_last: self.drop_last.get().copied().unwrap_or(false),
            to_device: to_device && pin.is_none(),
        };
        let stages = [load].into_iter().chain(pin).chain(copy).collect();
        let last_buffer = self.prefetch_factor.at.or(self.workers.at);
        Some(ResolvedLoader {
            graph: StageGraph {
                requests: Some(requests),
                process_copies: pool.process_copies(),
                taking,
                ..StageGraph::new(stages)
            },
            last_buffer,
        })
    }

    /// Returns the kind of the workers; remarks on keys that have no effect with one worker or without workers.
    fn pool(&self, check: Check<'_>, workers: u32) -> Workers<'_> {
        match workers {
            0 => self.remark_alone(check),
            1 => self.remark_one(check),
            _ => {}
        }
        let kind = self.worker_kind.get().copied().unwrap_or(WorkerKind::Process);
        // Without workers the trainer makes the batches itself, and hands nothing over.
        let (none, threads) = (workers == 0, workers == 0 || kind == WorkerKind::Thread);
        Workers { none, threads, gil: &self.gil, measured_gil: 0.0, ipc: &self.ipc }
    }

    /// Remarks on keys that have no effect with one worker, which makes all batches in order.
    fn remark_one(&self, check: Check<'_>) {
        let told = [(&self.in_order, false), (&self.iterable, true)];
        for (field, unlike) in told {
            if field.get() == Some(&unlike) {
                check.no_effect(field.at, "one worker makes all batches, one after the other");
            }
        }
    }

    /// Remarks on keys that have no effect without workers: no batch is requested ahead, and no worker is started.
    fn remark_alone(&self, check: Check<'_>) {
        let written = [
            self.prefetch_factor.at,
            self.in_order.at,
            self.persistent_workers.at,
            self.start.at,
            self.take.at,
            self.worker_kind.at,
            self.iterable.at,
        ];
        for at in written.into_iter().flatten() {
            let path = check.document.path(at);
            check.remark(format!("`{path}` has no effect: there are no workers."));
        }
    }
}
