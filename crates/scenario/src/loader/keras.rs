//! Keras' `OrderedEnqueuer` over a `Sequence`.

use super::decode::{self, DecodeSettings};
use super::generator::GeneratorSettings;
use super::settings::{ResolvedLoader, optional};
use super::workers::Workers;
use super::{Dealt, NextEpoch, Operation, Order, Replaced, Requests, Stage, StageGraph, Unit};
use crate::Dataset;
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive, Share};
use crate::role::Role;
use forebay_model::units::{Bandwidth, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Interval at which Keras checks whether all batches of an epoch have been taken [s].
const POLL: f64 = 0.1;

/// Keras' `OrderedEnqueuer` over a `Sequence`: a pool of workers that each make whole batches, and a bounded queue
/// of futures of these batches, in order. Samples that do not fill a batch at the end of an epoch are dropped. `fit` makes one
/// enqueuer in its process: one for all GPUs of a node under `tf.distribute.MirroredStrategy`, one for each rank under Horovod
/// (`loaders = "per-rank"`).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keras {
    /// `workers` of `fit`: workers of one enqueuer; 0: the trainer itself makes batches, between its steps.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    workers: Field<Count<0, 100_000>>,
    /// Maximum number of batches in the queue of one enqueuer, which holds them as futures; workers beyond the number of
    /// batches that it has room for are idle (default: 10).
    #[schemars(extend("x-role" = Role::Limit))]
    max_queue_size: Field<Count<1, 1_000_000>>,
    /// Core-seconds to decode a sample: a time, or by its bytes and pixels (default: as the profile
    /// says if the samples are images, otherwise 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    decode: Field<DecodeSettings>,
    /// Core-seconds of a worker to put a batch together and hand it over (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    collate: Field<Varying<Time>>,
    /// `use_multiprocessing`: workers are processes, otherwise threads (default: false).
    #[schemars(extend("x-role" = Role::Choice))]
    use_multiprocessing: Field<bool>,
    /// Share of a thread's computing in which it holds the interpreter's lock (default: 0).
    #[schemars(extend("x-role" = Role::Limit))]
    gil: Field<Share>,
    /// Rate at which a worker process hands over the decoded bytes of a batch through pickling and a pipe, which
    /// keeps its core busy (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    ipc: Field<Positive<Bandwidth>>,
    /// Time to start each worker, one after the other, at the beginning of each epoch (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    start: Field<Amount<Time>>,
    /// Keras' old `GeneratorEnqueuer` over a generator, if it is used instead (default: `OrderedEnqueuer` over a
    /// `Sequence`).
    #[schemars(extend("x-role" = Role::Choice))]
    generator: Field<GeneratorSettings>,
}

impl Keras {
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        batch: u64,
        dataset: Option<&Dataset>,
    ) -> Option<ResolvedLoader> {
        let workers = check.required(at, &self.workers, "workers", "write `workers = 4`");
        let queue = self.max_queue_size.get().map_or(10, |size| size.0);
        let decode = decode::of_sample(&self.decode, check, at, dataset)?;
        let collate = optional(&self.collate, check, Operation::Compute)?;
        let workers = workers?.small();
        let pool = self.pool(check, workers);
        // In addition to the batches in the queue, one batch is submitted and waits for room there.
        let ahead = if workers == 0 { 0 } else { queue + 1 };
        let stage = Stage {
            name: "worker".to_owned(),
            workers: workers.max(1),
            unit: Unit::Batch,
            per_sample: [Operation::Read].into_iter().chain(decode).collect(),
            per_item: collate.into_iter().chain(pool.hand_over()).collect(),
            order: Order::Any,
            // One more batch is ahead while the trainer waits for the first.
            buffer: ahead + 1,
            lock: pool.lock(check),
            ..Stage::default()
        };
        let last_buffer = self.max_queue_size.at.or(self.workers.at);
        if workers == 0 {
            check.no_effect(self.generator.at, "there are no workers");
        } else if let Some((at, generator)) = self.generator.given() {
            let graph = generator.graph(check, at, stage, queue, batch);
            return Some(ResolvedLoader { graph, last_buffer });
        }
        let requests = Requests {
            ahead,
            replaced: Replaced::WhenWanted,
            dealt: Dealt::AsFree,
            in_order: true,
            next_epoch: if workers == 0 { NextEpoch::WhenWanted } else { NextEpoch::Polled(POLL) },
            start: if workers == 0 { 0.0 } else { self.start.get().map_or(0.0, |time| time.0) },
            persistent: false,
            iterable: false,
            drop_last: true,
            to_device: false,
        };
        let graph = StageGraph {
            requests: Some(requests),
            process_copies: pool.process_copies(),
            ..StageGraph::new(vec![stage])
        };
        Some(ResolvedLoader { graph, last_buffer })
    }

    /// Returns the kind of the workers; remarks on keys that have no effect.
    fn pool(&self, check: Check<'_>, workers: u32) -> Workers<'_> {
        let processes = match self.generator.get() {
            Some(generator) => {
                let why = "`generator.processes` decides whether workers are processes";
                check.no_effect(self.use_multiprocessing.at, why);
                generator.processes()
            }
            None => self.use_multiprocessing.get().copied().unwrap_or(false),
        };
        // Without workers the trainer makes the batches itself, and hands nothing over.
        let (none, threads) = (workers == 0, workers == 0 || !processes);
        if none && self.generator.get().is_none() {
            check.no_effect(self.use_multiprocessing.at, "there are no workers");
        }
        Workers { none, threads, gil: &self.gil, measured_gil: 0.0, ipc: &self.ipc }
    }
}
