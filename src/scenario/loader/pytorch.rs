//! PyTorch's `DataLoader` over a map-style data set.

use super::decode::{self, DecodeSettings};
use super::settings::{ResolvedLoader, optional};
use super::{Dealt, NextEpoch, Operation, Order, Replaced, Requests, Stage, StageGraph, Unit};
use crate::scenario::Dataset;
use crate::scenario::check::Check;
use crate::scenario::distribution::settings::Varying;
use crate::scenario::document::NodeId;
use crate::scenario::field::Field;
use crate::scenario::number::{Amount, Count};
use crate::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// PyTorch's `DataLoader` over a map-style data set: processes that each make whole batches, asked in
/// turn; one loader for all model copies of a node. Samples that fill no batch are dropped.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Pytorch {
    /// `num_workers`: processes on each node; 0: the trainer itself reads and decodes, between its
    /// steps.
    #[schemars(required)]
    workers: Field<Count<0, 100_000>>,
    /// `prefetch_factor`: batches asked for ahead, for each worker (default: 2).
    prefetch_factor: Field<Count<1, 100_000>>,
    /// `in_order`: hand out batches in the order of the sampler; otherwise as they are finished
    /// (default: true).
    in_order: Field<bool>,
    /// `persistent_workers`: workers live on from epoch to epoch (default: false).
    persistent_workers: Field<bool>,
    /// `IterableDataset`, its files dealt out to the workers: each reads its own, makes whole batches of
    /// them, and is left out when it has no more (default: false: map style, any worker makes any batch).
    iterable: Field<bool>,
    /// `drop_last`: leave samples out that fill no batch at the end of an epoch (default: true, unlike
    /// PyTorch's).
    drop_last: Field<bool>,
    /// Core-seconds to decode a sample: a time, or by its bytes and pixels (default: as the profile
    /// says if the samples are images, otherwise 0 s).
    decode: Field<DecodeSettings>,
    /// Time in which a worker does nothing for a sample: a remote service, a sleep (default: 0 s).
    delay: Field<Varying<Time>>,
    /// Core-seconds of a worker to collate a batch and hand it over (default: 0 s).
    collate: Field<Varying<Time>>,
    /// `pin_memory`: core-seconds of the pinning thread for a batch (default: no such thread).
    pin_memory: Field<Varying<Time>>,
    /// Time to start a worker, one after the other, at the beginning of each epoch, or of the first
    /// one if they are persistent (default: 0 s).
    start: Field<Amount<Time>>,
}

impl Pytorch {
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        batch: u64,
        dataset: Option<&Dataset>,
    ) -> Option<ResolvedLoader> {
        let workers = check.required(at, &self.workers, "workers", "write `workers = 4`");
        let prefetch = self.prefetch_factor.get().map_or(2, |factor| factor.0);
        self.check_last(check, batch, dataset);
        let decode = decode::of_sample(&self.decode, check, at, dataset)?;
        let delay = optional(&self.delay, check, Operation::Delay)?;
        let collate = optional(&self.collate, check, Operation::Compute)?;
        let pin = optional(&self.pin_memory, check, Operation::Compute)?;
        let workers = workers?.small();
        if workers == 0 {
            self.remark_alone(check);
        }
        let ahead = u64::from(workers) * prefetch;
        let load = Stage {
            name: "worker".to_owned(),
            workers: workers.max(1),
            unit: Unit::Batch,
            per_sample: [Operation::Read].into_iter().chain(decode).chain(delay).collect(),
            per_item: collate.into_iter().collect(),
            order: Order::Any,
            buffer: ahead.max(1),
            ..Stage::default()
        };
        let pin = pin.map(|pin| Stage {
            name: "pin".to_owned(),
            workers: 1,
            per_sample: Vec::new(),
            per_item: vec![pin],
            ..load.clone()
        });
        let requests = Requests {
            ahead,
            replaced: if workers == 0 { Replaced::WhenWanted } else { Replaced::WhenTaken },
            dealt: Dealt::InTurn,
            in_order: self.in_order.get().copied().unwrap_or(true),
            next_epoch: NextEpoch::WhenWanted,
            start: if workers == 0 { 0.0 } else { self.start.get().map_or(0.0, |time| time.0) },
            persistent: self.persistent_workers.get().copied().unwrap_or(false),
            iterable: self.iterable.get().copied().unwrap_or(false),
        };
        let stages = [load].into_iter().chain(pin).collect();
        let last_buffer = self.prefetch_factor.at.or(self.workers.at);
        Some(ResolvedLoader {
            graph: StageGraph { requests: Some(requests), ..StageGraph::of(stages) },
            last_buffer,
        })
    }

    fn check_last(&self, check: Check<'_>, batch: u64, dataset: Option<&Dataset>) {
        if let (Some((at, false)), Some(dataset)) = (self.drop_last.given(), dataset)
            && !dataset.samples.is_multiple_of(batch)
        {
            let what = format!(
                "{} samples are no whole number of batches of {batch}, and steps on a smaller last \
                 batch are not simulated",
                dataset.samples
            );
            check.wrong(at, what, "write `drop_last = true`, or another number of samples");
        }
    }

    /// Without workers nothing is asked for ahead, and nothing is started.
    fn remark_alone(&self, check: Check<'_>) {
        let written =
            [self.prefetch_factor.at, self.in_order.at, self.persistent_workers.at, self.start.at];
        for at in written.into_iter().chain([self.iterable.at]).flatten() {
            let path = check.document.path(at);
            check.remark(format!("`{path}` has no effect: there are no workers."));
        }
    }
}
