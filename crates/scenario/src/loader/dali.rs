//! NVIDIA's DALI: readers, threads that decode on the host, and a stage that decodes on the GPU.

use super::decode::{self, DecodeSettings};
use super::settings::ResolvedLoader;
use super::{Kernel, Operation, Order, Stage, StageGraph, Unit};
use crate::Dataset;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Factor};
use crate::role::Role;
use forebay_model::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// NVIDIA's DALI, pipelined and asynchronous as it is by default: readers, threads that work on samples on the host,
/// and a stage that works on whole batches on the GPU. The GPU also runs the training steps. Each model copy
/// has its own `Pipeline` on its own GPU (`device_id`), which reads its own shard of the data set (`shard_id`, `num_shards`). All
/// keys count for one pipeline (DALI's user guide, "Multiple GPU Support" and "Sharding").
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dali {
    /// `num_threads`: threads of the host's stage in each pipeline.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    threads: Field<Count<1, 100_000>>,
    /// Readers in each pipeline: a reader operator reads ahead in one thread of its own (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    readers: Field<Count<1, 100_000>>,
    /// `prefetch_queue_depth`: number of batches in each pipeline's buffer behind the host's stage, and also in the buffer
    /// behind the GPU's stage (default: 2).
    #[schemars(extend("x-role" = Role::Limit))]
    prefetch_queue_depth: Field<Count<1, 1_000_000>>,
    /// Core-seconds to decode a sample on the host: a time, or by its bytes and pixels (default: as the profile says if
    /// the samples are images and `gpu` is not set, otherwise 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    decode: Field<DecodeSettings>,
    /// Decoding of samples on the GPU (default: the GPU decodes nothing, and decoded samples are copied to it).
    #[schemars(extend("x-role" = Role::Choice))]
    gpu: Field<OnGpu>,
}

/// Decoding of samples on the GPU.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OnGpu {
    /// GPU-seconds to decode a sample, on a GPU of speed 1; samples are copied to the GPU as stored.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    decode: Field<Amount<Time>>,
    /// Part of the GPU that the stage can use at once (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    occupancy: Field<Factor>,
}

impl Dali {
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        batch: u64,
        dataset: Option<&Dataset>,
    ) -> Option<ResolvedLoader> {
        let threads = check.required(at, &self.threads, "threads", "write `threads = 4`");
        let kernel = match self.gpu.given() {
            Some((at, gpu)) => Some(gpu.resolve(check, at)?),
            None => None,
        };
        let decode = match kernel {
            Some(_) if !self.decode.is_written() => None,
            _ => decode::of_sample(&self.decode, check, at, dataset)?,
        };
        let depth = self.prefetch_queue_depth.get().map_or(2, |depth| depth.0);
        let of_samples = |name: &str, workers: u32, work: Vec<Operation>, batches: u64| Stage {
            name: name.to_owned(),
            workers,
            per_sample: work,
            // Threads of DALI's pool work on the samples of a batch in any order, and none is held back by a slower sample.
            order: Order::Any,
            buffer: batch.saturating_mul(batches),
            ..Stage::default()
        };
        // `DataReader` of DALI has one prefetch thread for each operator.
        let readers = self.readers.get().map_or(1, |readers| readers.small());
        let read = of_samples("reader", readers, vec![Operation::Read], 1);
        let host = of_samples("host", threads?.small(), decode.into_iter().collect(), depth);
        let on_gpu = match kernel {
            Some(kernel) => vec![Operation::CopyStored, Operation::Kernel(kernel)],
            None => vec![Operation::Copy],
        };
        let gpu = Stage {
            name: "gpu".to_owned(),
            unit: Unit::Batch,
            per_item: on_gpu,
            buffer: depth,
            ..Stage::default()
        };
        let graph = StageGraph::new(vec![read, host, gpu]);
        Some(ResolvedLoader {
            graph,
            last_buffer: self.prefetch_queue_depth.at.or(self.threads.at),
        })
    }
}

impl OnGpu {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Kernel> {
        let remedy = "write `decode = \"200 us\"`";
        let per_sample = check.required(at, &self.decode, "decode", remedy)?.0;
        let occupancy = self.occupancy.get().map_or(1.0, |part| part.0);
        if let (Some(at), true) = (self.occupancy.at, occupancy > 1.0) {
            check.wrong(
                at,
                "no kernel uses more than a whole GPU",
                "write `occupancy = 1`, or less",
            );
        }
        Some(Kernel { per_sample, occupancy })
    }
}
