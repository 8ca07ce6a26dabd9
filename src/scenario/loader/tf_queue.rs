//! TensorFlow 1 queue: threads that each read, decode and enqueue one sample after the other.

use super::decode::{self, DecodeSettings};
use super::{Operation, Order, Stage, Unit};
use crate::scenario::Dataset;
use crate::scenario::check::Check;
use crate::scenario::document::NodeId;
use crate::scenario::field::Field;
use crate::scenario::number::{Count, Positive};
use crate::units::Samples;
use schemars::JsonSchema;
use serde::Deserialize;

/// Threads that each read, decode and enqueue one sample after the other.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct TfQueue {
    /// Enqueue threads on each node.
    #[schemars(required)]
    threads: Field<Count<1, 1_000_000>>,
    /// Samples that fit into the queue; at least one batch.
    #[schemars(required)]
    pub(super) capacity: Field<Positive<Samples>>,
    /// Core-seconds to decode a sample: a time, or by its bytes and pixels (default: as the profile
    /// says if the samples are images, otherwise 0 s).
    decode: Field<DecodeSettings>,
}

impl TfQueue {
    /// The one stage that this loader is.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        dataset: Option<&Dataset>,
    ) -> Option<Stage> {
        let threads = check.required(at, &self.threads, "threads", "write `threads = 8`");
        let remedy = "write `capacity = \"2000 samples\"`";
        let capacity = check.required(at, &self.capacity, "capacity", remedy);
        let decode = decode::of_sample(&self.decode, check, at, dataset)?;
        Some(Stage {
            name: "enqueue".to_owned(),
            workers: threads?.small(),
            unit: Unit::Sample,
            per_sample: [Operation::Read].into_iter().chain(decode).collect(),
            per_item: Vec::new(),
            order: Order::Any,
            buffer: capacity?.whole(),
        })
    }
}
