//! TensorFlow's `tf.data`: reads in parallel, a parallel map, batches, a prefetch.

use super::decode::{self, DecodeSettings};
use super::settings::{ResolvedLoader, optional};
use super::{Operation, Order, Stage, StageGraph, Unit};
use crate::scenario::Dataset;
use crate::scenario::check::Check;
use crate::scenario::distribution::settings::Varying;
use crate::scenario::document::NodeId;
use crate::scenario::field::Field;
use crate::scenario::number::Count;
use crate::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// TensorFlow's `tf.data`: `interleave` of files, `map`, `batch` and `prefetch`, of a data set that is
/// repeated for ever.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct TfData {
    /// `num_parallel_calls` of `interleave`: files read at once on each node (default: 1).
    parallel_reads: Field<Count<1, 100_000>>,
    /// `num_parallel_calls` of `map`: samples decoded at once on each node.
    #[schemars(required)]
    parallel_calls: Field<Count<1, 100_000>>,
    /// `deterministic`: samples stay in the order of files (default: true).
    deterministic: Field<bool>,
    /// `buffer_size` of `prefetch`: batches made ahead, by a thread of its own (default: 1).
    prefetch: Field<Count<1, 1_000_000>>,
    /// Core-seconds to decode a sample: a time, or by its bytes and pixels (default: as the profile
    /// says if the samples are images, otherwise 0 s).
    decode: Field<DecodeSettings>,
    /// Time in which a call does nothing for a sample: a remote service, a sleep (default: 0 s).
    delay: Field<Varying<Time>>,
    /// Core-seconds to put a batch together (default: 0 s).
    collate: Field<Varying<Time>>,
}

impl TfData {
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        batch: u64,
        dataset: Option<&Dataset>,
    ) -> Option<ResolvedLoader> {
        let remedy = "write `parallel_calls = 8`";
        let calls = check.required(at, &self.parallel_calls, "parallel_calls", remedy);
        let decode = decode::of_sample(&self.decode, check, at, dataset)?;
        let delay = optional(&self.delay, check, Operation::Delay)?;
        let collate = optional(&self.collate, check, Operation::Compute)?;
        let (reads, calls) = (self.parallel_reads.get().map_or(1, |n| n.small()), calls?.small());
        let deterministic = self.deterministic.get().copied().unwrap_or(true);
        let order = if deterministic { Order::InOrder } else { Order::Any };
        let of_samples = |name: &str, workers: u32, work: Vec<Operation>, buffer: u64| Stage {
            name: name.to_owned(),
            workers,
            unit: Unit::Sample,
            per_sample: work,
            per_item: Vec::new(),
            order,
            buffer,
        };
        let interleave = of_samples("interleave", reads, vec![Operation::Read], u64::from(reads));
        // As many finished as in flight, and a batch at least, since it is taken as a whole.
        let finished = u64::from(calls).max(batch);
        let map = of_samples("map", calls, decode.into_iter().chain(delay).collect(), finished);
        let prefetch = Stage {
            name: "prefetch".to_owned(),
            workers: 1,
            unit: Unit::Batch,
            per_sample: Vec::new(),
            per_item: collate.into_iter().collect(),
            order: Order::Any,
            buffer: self.prefetch.get().map_or(1, |size| size.0),
        };
        let graph = StageGraph { stages: vec![interleave, map, prefetch], requests: None };
        Some(ResolvedLoader { graph, last_buffer: self.prefetch.at })
    }
}
