//! The stages of a loader: every preset is compiled to such stages, and both the simulator and live runs execute
//! them.

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
    /// Requests for batches, if the first stage makes a batch only on request. All items of the first stage are then
    /// batches, and no worker ever waits for room in a buffer or for its turn.
    pub requests: Option<Requests>,
    /// Time to build the pipeline anew at the beginning of each epoch [s]. `None`: it reads on across the ends of epochs. Loaders that
    /// make batches on request have a `start` of their own instead.
    pub rebuilt: Option<f64>,
    /// Polling, if the workers poll for room and the trainer polls for batches at regular intervals.
    pub generator: Option<Generator>,
    /// Core time that worker processes would take to copy the decoded bytes of a batch to the trainer [core-s/B]. `None` if processes
    /// make the batches already: only threads and the trainer itself need no copies.
    pub process_copies: Option<f64>,
    /// Core time of a trainer to take a batch from the loader's workers [core-s].
    pub taking: f64,
    /// Kind of loader that the scenario file names.
    pub preset: Preset,
}

/// Kinds of loaders; the scenario file has a table with the name of the kind.
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
    /// Synthetic batches that are always ready.
    InMemory,
    /// Stages that the user defines.
    #[default]
    Stages,
}

impl Preset {
    /// Returns the key of the preset below a job's `loader`.
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

    /// Returns the key, or keys, for the number of workers.
    #[must_use]
    pub fn workers_key(self) -> &'static str {
        match self {
            Preset::TfQueue => "threads",
            Preset::TfData => "parallel_reads and parallel_calls",
            Preset::Dali => "readers and threads",
            Preset::Pytorch | Preset::Keras | Preset::InMemory | Preset::Stages => "workers",
        }
    }

    /// Returns the key for the size of the loader's buffers.
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

    /// Returns the key that says whether samples or batches stay in order; `None` if no key does.
    #[must_use]
    pub fn order_key(self) -> Option<&'static str> {
        match self {
            Preset::Pytorch => Some("in_order"),
            Preset::TfData => Some("deterministic"),
            Preset::Stages => Some("order"),
            Preset::Keras | Preset::TfQueue | Preset::Dali | Preset::InMemory => None,
        }
    }

    /// Returns the key that says whether workers hold an interpreter's lock.
    #[must_use]
    pub fn lock_key(self) -> &'static str {
        match self {
            Preset::Pytorch => "worker_kind",
            Preset::Keras => "use_multiprocessing",
            Preset::TfData | Preset::TfQueue | Preset::Dali | Preset::InMemory | Preset::Stages => {
                "gil"
            }
        }
    }

    /// Returns the key for the loader's delays.
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

    /// Returns the key for the work of decoding.
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

/// How Keras' old `GeneratorEnqueuer` hands batches over: by polling. A trainer that finds no batch sleeps and
/// looks again; a worker that finds enough batches in the queue sleeps and looks again before it makes one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generator {
    /// Time for which a trainer or worker sleeps before it looks again [s].
    pub period: f64,
    /// Number of samples in the queue from which on a worker sleeps instead of making a batch; `None` if workers do not
    /// poll, but wait for room in the queue.
    pub enough: Option<u64>,
    /// Share of the delivered samples that are delivered for the first time.
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
    /// Number of workers; each works on one item at a time.
    pub workers: u32,
    /// Items of this stage: samples or batches. A stage of batches behind a stage of samples gathers `batch` samples
    /// for each item.
    pub unit: Unit,
    /// Work for each sample of an item.
    pub per_sample: Vec<Operation>,
    /// Work for an item as a whole.
    pub per_item: Vec<Operation>,
    /// Order in which items enter the buffer.
    pub order: Order,
    /// Number of this stage's items that fit into its buffer, at least 1. If the trainer takes its batches from a
    /// last buffer of samples, at least one batch fits into that buffer.
    pub buffer: u64,
    /// Number of items that stay in the buffer as long as more items may arrive: a shuffle buffer is full whenever an
    /// item is taken from it, and TensorFlow's shuffle queue keeps `min_after_dequeue` items. Which of the items is
    /// taken makes no difference to time, since the size of each sample is sampled independently.
    pub kept: u64,
    /// Whether the number of active workers is tuned while the job runs, up to `workers` (tf.data's `AUTOTUNE`).
    pub tuned: bool,
    /// Whether the buffer begins with room for one item, and doubles up to `buffer` whenever it was full and then
    /// is found empty (tf.data's `AUTOTUNE` of a prefetch; last stage only).
    pub grows: bool,
    /// Share of the workers' computing in which they hold the interpreter's lock; a loader and its trainers share
    /// one lock.
    pub lock: f64,
}

impl Default for Stage {
    /// Returns a stage of one worker that hands samples on, one by one.
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
    /// Returns a graph of stages that make items ahead by themselves, without requests for batches.
    #[must_use]
    pub fn new(stages: Vec<Stage>) -> StageGraph {
        StageGraph {
            stages,
            requests: None,
            rebuilt: None,
            generator: None,
            process_copies: None,
            taking: 0.0,
            preset: Preset::default(),
        }
    }

    /// Returns the number of samples that stay in the loader's buffers as long as more samples may arrive, if a batch
    /// has `batch` samples.
    #[must_use]
    pub fn kept_samples(&self, batch: u64) -> u64 {
        let of = |stage: &Stage| match stage.unit {
            Unit::Sample => stage.kept,
            Unit::Batch => stage.kept.saturating_mul(batch),
        };
        self.stages.iter().map(of).fold(0, u64::saturating_add)
    }
}

/// Items of a stage.
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
    /// Items enter in the order in which they are finished.
    Any,
    /// Items enter in the order in which their inputs were taken: a finished item waits, with its worker, for the
    /// items before it.
    InOrder,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Read one sample from the job's storage (first stage, `per_sample` only).
    Read,
    /// Use a core of the node [core-seconds].
    Compute(Distribution),
    /// Turn the stored sample into a tensor (`per_sample` only). The core-seconds depend on the stored bytes of the
    /// sample and, if it is an image, on its pixels.
    Decode(DecodeLaw),
    /// Do nothing for a time [s]: a remote service, a sleep.
    Delay(Distribution),
    /// Copy the item's decoded bytes to the device over the PCIe link of its GPU.
    Copy,
    /// Copy the item's bytes as stored to the device over the PCIe link of its GPU.
    CopyStored,
    /// Run a kernel on the item's GPU while training steps run on it (`per_item` only).
    Kernel(Kernel),
    /// Use a core to copy the item's decoded bytes [core-s/B].
    Memcpy(f64),
}

/// Work of a loader on a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    /// Work for each sample of the item, on a GPU of speed 1 [GPU-s].
    pub per_sample: f64,
    /// Part of the GPU that the kernel can use at once, in (0, 1].
    pub occupancy: f64,
}

impl Operation {
    /// Returns whether the operation moves bytes to the device.
    #[must_use]
    pub fn copies(&self) -> bool {
        matches!(self, Self::Copy | Self::CopyStored)
    }

    /// Returns the mean time of the operation on a core, for a sample of `dataset` or an item of one [core-seconds]; 0 if the
    /// operation uses no core.
    #[must_use]
    pub fn mean_core_seconds(&self, dataset: &crate::Dataset) -> f64 {
        let pixels = dataset.image.map_or(0.0, |image| image.pixels());
        match self {
            Self::Compute(seconds) => seconds.mean(),
            Self::Decode(law) => law.core_seconds(dataset.mean_size(), pixels),
            Self::Read => dataset.unpacking(),
            Self::Memcpy(per_byte) => {
                per_byte * dataset.decoded_size.unwrap_or_else(|| dataset.mean_size())
            }
            Self::Delay(_) | Self::Copy | Self::CopyStored | Self::Kernel(_) => 0.0,
        }
    }
}
