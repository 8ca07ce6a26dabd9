//! TensorFlow's `tf.data`: reads in parallel, a shuffle buffer, a parallel map, batches, a prefetch.

use super::decode::{self, DecodeSettings};
use super::settings::{ResolvedLoader, optional};
use super::stages::MOST_ITEMS;
use super::tunable::Tunable;
use super::{Operation, Order, Stage, StageGraph, Unit};
use crate::Dataset;
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Positive};
use crate::role::Role;
use forebay_model::units::{Samples, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum number of batches of a prefetch whose size is tuned while the job runs.
const LARGEST_PREFETCH: u64 = 1 << 20;

/// TensorFlow's `tf.data`: `interleave` of files, `shuffle`, `map`, `batch` and `prefetch`, over a data set that is
/// repeated for ever, or read by a new iterator in each epoch (`start`). `"auto"` is `AUTOTUNE`. A process has one such pipeline: `tf.distribute` splits its batches over all GPUs of
/// a node, while under Horovod each rank has one (`loaders = "per-rank"`).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TfData {
    /// `num_parallel_calls` of `interleave`: files read at once by one pipeline; with "auto" at most one for each core
    /// (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    parallel_reads: Field<Tunable<100_000>>,
    /// `num_parallel_calls` of `map`: samples decoded at once by one pipeline; with "auto" at most one for each core.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    parallel_calls: Field<Tunable<100_000>>,
    /// `buffer_size` of `shuffle`, between `interleave` and `map`: the buffer is full before the first sample leaves
    /// it, and stays full as long as more samples may arrive (default: no shuffling).
    #[schemars(extend("x-role" = Role::Identity))]
    shuffle: Field<Positive<Samples>>,
    /// `deterministic`: samples stay in the order of files (default: true).
    #[schemars(extend("x-role" = Role::Choice))]
    deterministic: Field<bool>,
    /// `buffer_size` of `prefetch`: batches, each for one model copy, made ahead by a thread of its own; with "auto" 1 batch at first, and
    /// twice as many whenever the buffer was full and then ran empty (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    prefetch: Field<Tunable<1_000_000>>,
    /// Core-seconds to decode a sample: a time, or by its bytes and pixels (default: as the profile
    /// says if the samples are images, otherwise 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    decode: Field<DecodeSettings>,
    /// Time in which a call does nothing for a sample: a remote service, a sleep (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    delay: Field<Varying<Time>>,
    /// Core-seconds to put a batch together (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    collate: Field<Varying<Time>>,
    /// Time to build the pipeline at the beginning of each epoch, if each epoch makes a new iterator. The pipeline then makes no batch of an
    /// epoch before the trainer asks for the first one (default: the data set is repeated for ever, unless `start_per_file` is written).
    #[schemars(extend("x-role" = Role::Limit))]
    start: Field<Amount<Time>>,
    /// Time for each file of the data set to build the pipeline, beside `start`: the list of files is made and shuffled anew in each epoch
    /// (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    start_per_file: Field<Amount<Time>>,
}

impl TfData {
    /// Checks the table at document node `at` and returns its stages on nodes of `cores` cores; `None` if the table
    /// is invalid.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        batch: u64,
        cores: u32,
        dataset: Option<&Dataset>,
    ) -> Option<ResolvedLoader> {
        let remedy = "write `parallel_calls = 8`";
        let calls = check.required(at, &self.parallel_calls, "parallel_calls", remedy);
        let decode = decode::of_sample(&self.decode, check, at, dataset)?;
        let delay = optional(&self.delay, check, Operation::Delay)?;
        let collate = optional(&self.collate, check, Operation::Compute)?;
        let pool = |name: &str, calls: Tunable<100_000>, work: Vec<Operation>| Stage {
            name: name.to_owned(),
            workers: match calls {
                Tunable::Number(calls) => calls as u32,
                Tunable::Auto => cores,
            },
            per_sample: work,
            order: self.order(),
            tuned: calls == Tunable::Auto,
            ..Stage::default()
        };
        let reads = self.parallel_reads.get().copied().unwrap_or(Tunable::Number(1));
        let interleave = pool("interleave", reads, vec![Operation::Read]);
        // The shuffle buffer is filled up before a sample is taken out of it.
        let kept = self.shuffled(check, at, dataset);
        let interleave = Stage { kept, buffer: u64::from(interleave.workers) + kept, ..interleave };
        let map = pool("map", *calls?, decode.into_iter().chain(delay).collect());
        // The buffer has room for one finished sample of each parallel call, and for at least one batch, since a
        // batch is taken as a whole.
        let map = Stage { buffer: u64::from(map.workers).max(batch), ..map };
        let size = self.prefetch.get().copied().unwrap_or(Tunable::Number(1));
        let prefetch = Stage {
            name: "prefetch".to_owned(),
            unit: Unit::Batch,
            per_item: collate.into_iter().collect(),
            buffer: match size {
                Tunable::Number(batches) => batches,
                Tunable::Auto => LARGEST_PREFETCH,
            },
            grows: size == Tunable::Auto,
            ..Stage::default()
        };
        let graph = StageGraph {
            rebuilt: self.rebuilt(dataset),
            ..StageGraph::new(vec![interleave, map, prefetch])
        };
        Some(ResolvedLoader { graph, last_buffer: self.prefetch.at })
    }

    /// Returns the time to build the pipeline at the beginning of each epoch [s]; `None` if the data set is repeated for ever.
    fn rebuilt(&self, dataset: Option<&Dataset>) -> Option<f64> {
        let (start, per_file) = (self.start.get(), self.start_per_file.get());
        start.or(per_file)?;
        let files = dataset.map_or(0.0, |dataset| dataset.files() as f64);
        let seconds = |time: Option<&Amount<Time>>| time.map_or(0.0, |time| time.0);
        Some(seconds(start) + files * seconds(per_file))
    }

    fn order(&self) -> Order {
        let deterministic = self.deterministic.get().copied().unwrap_or(true);
        if deterministic { Order::InOrder } else { Order::Any }
    }

    /// Returns the number of samples that stay in the shuffle buffer, which holds at most the whole data set.
    fn shuffled(&self, check: Check<'_>, at: NodeId, dataset: Option<&Dataset>) -> u64 {
        let size = self.shuffle.get().map_or(1, |size| size.whole());
        let most = dataset.map_or(u64::MAX, |dataset| dataset.samples);
        if let (Some(at), true) = (self.shuffle.at, size > most) {
            let path = check.document.path(at);
            check.remark(format!(
                "`{path}` is larger than the data set: the buffer holds all {most} samples of the data set."
            ));
        }
        let held = size.min(most);
        if held > MOST_ITEMS {
            let what = format!("a shuffle buffer of {held} samples cannot be simulated");
            let at = self.shuffle.at.unwrap_or(at);
            check.wrong(at, what, format!("write at most {MOST_ITEMS} samples"));
        }
        held.saturating_sub(1)
    }
}
