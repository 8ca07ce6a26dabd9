//! TensorFlow 1's queues: threads that each read, decode and enqueue one sample after the other, or a chain
//! of such queues.

use super::decode::{self, DecodeSettings};
use super::{Operation, Order, Stage, Unit};
use crate::Dataset;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive};
use crate::role::Role;
use forebay_model::units::Samples;
use schemars::JsonSchema;
use serde::Deserialize;

/// Threads that each read, decode and enqueue one sample after the other. With a queue of `examples` before them,
/// they take stored samples from that queue instead of reading. A process has one such queue, from which the towers of all its
/// GPUs take batches.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TfQueue {
    /// Number of threads that enqueue samples into one queue.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    threads: Field<Count<1, 1_000_000>>,
    /// Samples that fit into the queue; at least one batch.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) capacity: Field<Positive<Samples>>,
    /// `min_after_dequeue` of a shuffle queue: number of samples that stay in it as long as more samples may arrive
    /// (default: none).
    #[schemars(extend("x-role" = Role::Identity))]
    min_after_dequeue: Field<Amount<Samples>>,
    /// A queue of stored samples in front of this queue, and the readers that fill it (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    examples: Field<Examples>,
    /// Core-seconds to decode a sample: a time, or by its bytes and pixels (default: as the profile
    /// says if the samples are images, otherwise 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    decode: Field<DecodeSettings>,
}

/// A queue of stored samples, and the threads that read them.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Examples {
    /// Number of threads that read for one queue.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    readers: Field<Count<1, 1_000_000>>,
    /// Samples that fit into the queue.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Samples>>,
    /// Number of samples that stay in the queue as long as more samples may arrive (default: none).
    #[schemars(extend("x-role" = Role::Identity))]
    min_after_dequeue: Field<Amount<Samples>>,
}

impl TfQueue {
    /// Checks the table at document node `at` and returns the loader's stages; `None` if the table is invalid.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        dataset: Option<&Dataset>,
    ) -> Option<Vec<Stage>> {
        let threads = check.required(at, &self.threads, "threads", "write `threads = 8`");
        let remedy = "write `capacity = \"2000 samples\"`";
        let capacity = check.required(at, &self.capacity, "capacity", remedy);
        let decode = decode::of_sample(&self.decode, check, at, dataset)?;
        let examples = match self.examples.given() {
            Some((at, examples)) => Some(examples.resolve(check, at)?),
            None => None,
        };
        let read = examples.is_none().then_some(Operation::Read);
        let enqueue = Stage {
            name: "enqueue".to_owned(),
            workers: threads?.small(),
            unit: Unit::Sample,
            per_sample: read.into_iter().chain(decode).collect(),
            per_item: Vec::new(),
            order: Order::Any,
            buffer: capacity?.whole(),
            kept: kept(&self.min_after_dequeue),
            ..Stage::default()
        };
        Some(examples.into_iter().chain([enqueue]).collect())
    }
}

impl Examples {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Stage> {
        let readers = check.required(at, &self.readers, "readers", "write `readers = 4`");
        let remedy = "write `capacity = \"2000 samples\"`";
        let capacity = check.required(at, &self.capacity, "capacity", remedy)?.whole();
        let kept = kept(&self.min_after_dequeue);
        if kept >= capacity {
            let what = format!(
                "the queue holds {capacity} samples and keeps {kept} back, so none can be taken"
            );
            let remedy = "write a `capacity` above `min_after_dequeue`";
            check.wrong(self.min_after_dequeue.at.unwrap_or(at), what, remedy);
            return None;
        }
        Some(Stage {
            name: "read".to_owned(),
            workers: readers?.small(),
            unit: Unit::Sample,
            per_sample: vec![Operation::Read],
            per_item: Vec::new(),
            order: Order::Any,
            buffer: capacity,
            kept,
            ..Stage::default()
        })
    }
}

/// Returns the number of samples that stay in a queue as long as more samples may arrive; 0 if the setting is missing.
fn kept(min_after_dequeue: &Field<Amount<Samples>>) -> u64 {
    min_after_dequeue.get().map_or(0, |samples| samples.whole())
}
