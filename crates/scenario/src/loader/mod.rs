//! What a loader does, in stages: the common language of every preset and of both worlds.

mod dali;
mod decode;
mod generator;
mod in_memory;
mod keras;
mod pin;
mod pytorch;
mod requests;
pub(super) mod settings;
mod stages;
mod tf_data;
mod tf_queue;
mod tunable;
mod workers;

use super::Distribution;
use forebay_model::law::DecodeLaw;

pub use requests::{Dealt, NextEpoch, Replaced, Requests};

/// A chain of stages from storage to trainer. Never empty; the first stage is the only one that
/// reads.
#[derive(Debug, Clone, PartialEq)]
pub struct StageGraph {
    /// The stages, from storage to trainer.
    pub stages: Vec<Stage>,
    /// Where the first stage makes the batches that it is asked for, and no others. Then its items
    /// are batches, and no worker ever waits for room or its turn.
    pub requests: Option<Requests>,
    /// Where what is there is looked for every so often.
    pub generator: Option<Generator>,
    /// The kind of table that the job's loader is written as.
    pub preset: Preset,
}

/// The kinds of loaders that can be written, each a table of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// TensorFlow 1 queue.
    TfQueue,
    /// PyTorch's `DataLoader`.
    Pytorch,
    /// Keras' `OrderedEnqueuer`.
    Keras,
    /// TensorFlow's `tf.data`.
    TfData,
    /// NVIDIA's DALI.
    Dali,
    /// Batches that are there.
    InMemory,
    /// Stages of one's own.
    #[default]
    Stages,
}

impl Preset {
    /// Its key, below a job's `loader`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Preset::TfQueue => "tf-queue",
            Preset::Pytorch => "pytorch",
            Preset::Keras => "keras",
            Preset::TfData => "tf-data",
            Preset::Dali => "dali",
            Preset::InMemory => "in-memory",
            Preset::Stages => "stages",
        }
    }

    /// The key, or keys, for the number of its workers.
    #[must_use]
    pub fn workers_key(self) -> &'static str {
        match self {
            Preset::TfQueue => "threads",
            Preset::TfData => "parallel_reads and parallel_calls",
            Preset::Dali => "readers and threads",
            Preset::Pytorch | Preset::Keras | Preset::InMemory | Preset::Stages => "workers",
        }
    }

    /// The key for what its buffers hold.
    #[must_use]
    pub fn prefetch_key(self) -> &'static str {
        match self {
            Preset::TfQueue => "capacity",
            Preset::Pytorch => "prefetch_factor",
            Preset::Keras => "max_queue_size",
            Preset::TfData | Preset::InMemory => "prefetch",
            Preset::Dali => "prefetch_queue_depth",
            Preset::Stages => "buffer",
        }
    }

    /// The key for its delays.
    #[must_use]
    pub fn delay_key(self) -> &'static str {
        match self {
            Preset::Stages => "per_sample",
            Preset::TfQueue
            | Preset::Pytorch
            | Preset::Keras
            | Preset::TfData
            | Preset::Dali
            | Preset::InMemory => "delay",
        }
    }

    /// The key for the work of decoding.
    #[must_use]
    pub fn decode_key(self) -> &'static str {
        match self {
            Preset::Stages => "per_sample",
            Preset::TfQueue
            | Preset::Pytorch
            | Preset::Keras
            | Preset::TfData
            | Preset::Dali
            | Preset::InMemory => "decode",
        }
    }
}

/// How Keras' old `GeneratorEnqueuer` hands batches over: nobody is woken. A trainer that finds no batch
/// sleeps and looks again; so does a worker that finds enough of them, before it makes one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generator {
    /// How long who found nothing sleeps [s].
    pub period: f64,
    /// Samples in the queue that are enough for a worker; `None`: workers wait for room in it, as others do.
    pub enough: Option<u64>,
    /// Share of the samples handed out that had not been handed out before.
    pub distinct: f64,
}

/// A pool of identical workers and the buffer that they fill.
///
/// A worker takes an item's input (the first stage: the next samples of the epoch), carries out
/// `per_sample` for each of the item's samples one after the other, then `per_item` once, then puts
/// the item into the buffer, waiting there while it is full. Only then it takes its next input.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Name, for reports and traces.
    pub name: String,
    /// Workers, each with one item at a time.
    pub workers: u32,
    /// What an item of this stage is. A stage of batches after one of samples gathers `batch`
    /// samples for each item.
    pub unit: Unit,
    /// Work for each sample of an item.
    pub per_sample: Vec<Operation>,
    /// Work for an item as a whole.
    pub per_item: Vec<Operation>,
    /// Order in which items enter the buffer.
    pub order: Order,
    /// Items of this stage that fit into its buffer; at least 1. Where the trainer takes samples
    /// from the last buffer, at least one batch.
    pub buffer: u64,
    /// Of these, items that stay in it while more may come: who takes from a shuffle buffer finds it
    /// full, and TensorFlow's shuffle queue keeps `min_after_dequeue`. Which of its items is taken
    /// makes no difference to time, since sizes are drawn for each sample by itself.
    pub kept: u64,
    /// Whether the number of its workers that work at once is tuned while the job runs, with `workers` the
    /// most (tf.data's `AUTOTUNE`).
    pub tuned: bool,
    /// Whether its buffer begins with room for one item, and doubles whenever it had been full and then
    /// was found empty, up to `buffer` (the same of a prefetch; last stage only).
    pub grows: bool,
    /// Share of its workers' computing in which they hold the interpreter's lock, of which a loader
    /// and its trainers have one.
    pub lock: f64,
}

impl Default for Stage {
    /// One worker that hands samples on, one by one.
    fn default() -> Stage {
        Stage {
            name: String::new(),
            workers: 1,
            unit: Unit::Sample,
            per_sample: Vec::new(),
            per_item: Vec::new(),
            order: Order::Any,
            buffer: 1,
            kept: 0,
            tuned: false,
            grows: false,
            lock: 0.0,
        }
    }
}

impl StageGraph {
    /// Stages that work by themselves.
    #[must_use]
    pub fn new(stages: Vec<Stage>) -> StageGraph {
        StageGraph { stages, requests: None, generator: None, preset: Preset::default() }
    }

    /// Samples that stay in its buffers while more may come, in batches of `batch` samples.
    #[must_use]
    pub fn kept_samples(&self, batch: u64) -> u64 {
        let of = |stage: &Stage| match stage.unit {
            Unit::Sample => stage.kept,
            Unit::Batch => stage.kept.saturating_mul(batch),
        };
        self.stages.iter().map(of).fold(0, u64::saturating_add)
    }
}

/// What an item of a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One sample.
    Sample,
    /// One batch of the job's size.
    Batch,
}

/// Order in which finished items enter a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As they finish.
    Any,
    /// As their inputs were taken: a finished item waits, with its worker, for those before it.
    InOrder,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Read one sample from the job's storage (first stage, `per_sample` only).
    Read,
    /// Use a core of the node [core-seconds].
    Compute(Distribution),
    /// Turn the stored sample into a tensor (`per_sample` only): core-seconds by its stored bytes,
    /// and its pixels where it is an image.
    Decode(DecodeLaw),
    /// Do nothing for a time [s]: a remote service, a sleep.
    Delay(Distribution),
    /// Copy the item's decoded bytes to the device over the PCIe link of its GPU.
    Copy,
    /// Copy the item's bytes as stored likewise.
    CopyStored,
    /// Use the item's GPU, beside the steps on it (`per_item` only).
    Kernel(Kernel),
    /// Use a core to copy the item's decoded bytes [core-s/B].
    Memcpy(f64),
}

/// Work of a loader on a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    /// For each sample of the item, on a GPU of speed 1 [GPU-s].
    pub per_sample: f64,
    /// Part of the GPU that it can use at once, in (0, 1].
    pub occupancy: f64,
}

impl Operation {
    /// Whether it moves bytes to the device.
    #[must_use]
    pub fn copies(&self) -> bool {
        matches!(self, Self::Copy | Self::CopyStored)
    }
}
