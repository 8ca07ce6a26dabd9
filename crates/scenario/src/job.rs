//! Who trains.

mod accuracy;
mod alike;
mod batch;
mod convert;
mod copies;
mod cpu;
mod decoded;
mod device_memory;
mod efficiency;
mod fidelity;
mod goal;
mod gpu;
mod gradients;
mod interval;
mod launch;
mod learners;
mod machine;
mod memory;
mod model;
mod occupancy;
mod pace;
mod parallel;
mod prefill;
mod recovery;
pub(super) mod remarks;
mod replicas;
mod rules;
pub(super) mod settings;
mod split;
mod stages;
mod staging;
pub(super) mod workflow;

use super::{Distribution, StageGraph, Stop, Sync};
use forebay_model::catalogue::Precision;
use forebay_model::device_memory::Footprint;
use forebay_model::law::StepLaw;

pub use accuracy::{Accuracy, CountedBatch};
pub use convert::Convert;
pub use cpu::{CpuUse, InnerThreads};
pub use decoded::DecodedCache;
pub use forebay_model::random::{Replicas, Split};
pub use goal::{ENDLESS, Goal};
pub use gpu::RealGpu;
pub use launch::Launch;
pub use learners::{Learners, Tuning};
pub use occupancy::Kernels;
pub use parallel::{
    Context, Expert, KeyExchange, Load, Members, Method, Parallelism, Schedule, StageBucket,
    StepOf, Swap, Tensor,
};
pub use recovery::{Checkpoint, Every, FailureTimes, Failures, Resume, Writers};
pub use staging::{Share, Staging};
pub use workflow::Arrivals;

/// A training job; `copies` of it run independently, each on nodes of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Name, for reports.
    pub name: String,
    /// Independent copies of this job.
    pub copies: u32,
    /// Nodes of each copy. Each node has its own loader and queue, or several; all model copies of a job copy
    /// start each step together.
    pub nodes: u32,
    /// Jobs of which all copies must have ended before, by index into [`super::Scenario::jobs`].
    pub after: Vec<usize>,
    /// When the first copy starts [s]; after others, so long after they have ended.
    pub start: f64,
    /// Time from one copy's start to the next's, or its mean [s].
    pub stagger: f64,
    /// How copies come.
    pub arrivals: Arrivals,
    /// When each copy ends, if not as the run says.
    pub stop: Option<Stop>,
    /// Index into [`super::Scenario::datasets`].
    pub dataset: usize,
    /// Index into [`super::Scenario::storage`].
    pub storage: usize,
    /// How its loaders split each epoch.
    pub split: Split,
    /// Nodes that have each file of the data set, where not all have all.
    pub replicas: Option<u32>,
    /// How the data set is copied to the nodes first, if it is.
    pub staging: Option<Staging>,
    /// What each node keeps of decoded samples, if anything.
    pub decoded_cache: Option<DecodedCache>,
    /// Samples per model copy and step.
    pub batch: u64,
    /// How often a model copy takes a fresh batch.
    pub batch_interval: BatchInterval,
    /// What fills the queue.
    pub loader: StageGraph,
    /// What the last buffer does when it is full.
    pub queue: QueueKind,
    /// Samples in the last buffer at the start; at most its capacity.
    pub prefill: u64,
    /// Model copies on each node; where nodes differ, the most on any.
    pub copies_per_node: u32,
    /// Model copies on one node of a job copy after the other; empty where all have as many.
    pub copies_each: Vec<u32>,
    /// Learners on each GPU: models of their own, which train on batches of their own.
    pub learners: Learners,
    /// Whether each model copy has a loader and a queue of its own; otherwise all on a node share one.
    pub loader_per_copy: bool,
    /// Split of the model over stages, if any.
    pub pipeline: Option<Pipeline>,
    /// How a step is spread over GPUs, where forward and backward are followed piece by piece.
    pub parallelism: Option<Parallelism>,
    /// How model copies agree after each step, or every few; `None`: they need no time for it.
    pub sync: Option<Sync>,
    /// Steps of a model copy whose gradients are added up before an update.
    pub accumulation: u64,
    /// Time of one step of one model copy, forward, backward and update.
    pub step: StepTime,
    /// What kernels fill of a GPU, one sort after the other in a step; empty where that is not said, and a step has its
    /// GPU to itself.
    pub kernels: Vec<Kernels>,
    /// In which floats GPUs compute, if that was found from the peak of the cluster's first ones.
    pub peak: Option<Precision>,
    /// What the steps run on.
    pub device: Device,
    /// The GPU that a live run trains on, if its accelerators are not emulated.
    pub gpu: Option<RealGpu>,
    /// What the trainers need of the cores beside that, if anything.
    pub launch: Option<Launch>,
    /// The model that the live world trains; without one it waits for as long as a step takes.
    pub catalogue: Option<Catalogue>,
    /// What the GPU of each pipeline stage holds for a model copy; empty where that is not known.
    pub footprints: Vec<Footprint>,
    /// Memory that each worker of its loaders takes, beside the buffers [B].
    pub worker_memory: f64,
    /// What it costs a stage's worker to hand an item on [core-s].
    pub hand_off: f64,
    /// How its threads use cores, beside how long.
    pub cpu: CpuUse,
    /// How much training it takes to reach a target, if that is said.
    pub accuracy: Option<Accuracy>,
    /// What it writes from time to time, to begin there again, if anything.
    pub checkpoint: Option<Checkpoint>,
    /// How its nodes fail, if they do.
    pub failures: Option<Failures>,
}

/// What training steps run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// A GPU of the node for each model copy (and pipeline stage).
    Accelerator,
    /// The node's cores, shared with the loader.
    Cpu {
        /// Threads of each model copy, each on at most one core.
        threads: u32,
    },
}

impl Device {
    /// Name in a profile's table of steps.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Accelerator => "gpu".to_owned(),
            Self::Cpu { threads } => format!("cpu-{threads}"),
        }
    }
}

/// Models that are there to be trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Catalogue {
    /// LeNet-5.
    Lenet5,
    /// A small residual network.
    ResnetSmall,
    /// A small transformer.
    TransformerSmall,
    /// ResNet-50.
    Resnet50,
    /// The smallest GPT-2, over bytes.
    GptSmall,
}

impl Catalogue {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Lenet5, Self::ResnetSmall, Self::TransformerSmall, Self::Resnet50, Self::GptSmall];

    /// Name, in scenarios and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lenet5 => "lenet5",
            Self::ResnetSmall => "resnet-small",
            Self::TransformerSmall => "transformer-small",
            Self::Resnet50 => "resnet50",
            Self::GptSmall => "gpt-small",
        }
    }
}

/// How often a model copy takes a fresh batch; between, it trains on the last one again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BatchInterval {
    /// Every `k ≥ 1` steps; for a fraction, at the steps where `⌊step / k⌋` grows, so `1/k` of all
    /// steps in the long run.
    Every(f64),
    /// When the queue holds at least `level` samples, and at the latest after `max` steps on one
    /// batch.
    Adaptive {
        /// Samples that must be in the queue for a fresh batch before `max` steps have passed.
        level: u64,
        /// Most steps on one batch.
        max: u64,
    },
}

/// What the last buffer does when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// Producers wait.
    Bounded,
    /// Producers overwrite the oldest sample, and the trainer reads round and round: it waits only
    /// until one batch has ever been enqueued. Samples only.
    Circular,
}

/// Split of the model over consecutive stages, each on a GPU of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Share of the step time that each stage takes; they sum to 1.
    pub shares: Vec<f64>,
    /// Whether stages work on different batches at once. If not, one batch passes all stages before
    /// the next one starts.
    pub overlap: bool,
    /// Bytes of activations that a stage hands to the next one for each batch, over the link between
    /// the node's GPUs.
    pub activations: f64,
}

/// Time of one step of one model copy.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// Cost that does not depend on the batch [s].
    pub fixed: f64,
    /// Cost per sample [s].
    pub per_sample: f64,
    /// Shortest step [s].
    pub floor: f64,
    /// Factor drawn anew for each step and model copy; its mean should be 1.
    pub jitter: Option<Distribution>,
}

impl StepTime {
    /// Time of a step over `batch` samples, before jitter [s].
    #[must_use]
    pub fn seconds(&self, batch: f64) -> f64 {
        self.law().seconds(batch)
    }

    /// The same as a function of the batch alone.
    #[must_use]
    pub fn law(&self) -> StepLaw {
        let Self { fixed, per_sample, floor, .. } = *self;
        StepLaw { floor, fixed, per_sample }
    }
}
