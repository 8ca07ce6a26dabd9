//! Training jobs: their data, loaders, models and devices, and how they synchronise, save and fail.

mod accuracy;
mod alike;
mod batch;
mod convert;
mod copies;
mod cpu;
mod decoded;
mod device_memory;
mod efficiency;
mod failing;
mod fidelity;
mod fitting;
mod goal;
mod gpu;
mod gradients;
mod interval;
mod launch;
mod learners;
pub(crate) mod loaders;
mod machine;
mod memory;
mod model;
mod occupancy;
mod other_schedules;
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
pub use failing::{FailedNode, FailureTimes, Failures, Resume};
pub use forebay_model::random::{Replicas, Split};
pub use goal::{ENDLESS, Goal};
pub use gpu::RealGpu;
pub use launch::Launch;
pub use learners::{Learners, Tuning};
pub use occupancy::Kernels;
pub use other_schedules::{OtherSchedule, OtherSchedules};
pub use parallel::{
    Context, Copies, Expert, KeyExchange, Load, Members, Method, Parallelism, Pass, Quantisation,
    RankPart, Schedule, StageBucket, StageParameters, StepOf, Swap, Tensor, Turn,
};
pub use recovery::{Checkpoint, Every, WhenBusy, Writers};
pub use staging::{Share, Staging};
pub use workflow::Arrivals;

/// A training job; `copies` of it run independently, each on nodes of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Name, for reports.
    pub name: String,
    /// Independent copies of this job.
    pub copies: u32,
    /// Nodes of each job copy. Each node has one loader and queue, or several; all model copies of a job copy start
    /// each step together.
    pub nodes: u32,
    /// Jobs whose copies must all have ended before this job starts: indices into [`super::Scenario::jobs`].
    pub after: Vec<usize>,
    /// Start time of the first copy [s]; with `after`, the delay after the last job in that list has ended.
    pub start: f64,
    /// Time from the start of one copy to the start of the next [s]; the mean of this time if copies arrive at random.
    pub stagger: f64,
    /// Whether copies start at regular or random times.
    pub arrivals: Arrivals,
    /// When each copy ends; `None` if the run's setting applies.
    pub stop: Option<Stop>,
    /// Index of the job's data set in [`super::Scenario::datasets`].
    pub dataset: usize,
    /// Index of the storage that the data set is on, in [`super::Scenario::storage`].
    pub storage: usize,
    /// How the job's loaders split the samples of each epoch among themselves.
    pub split: Split,
    /// Number of nodes that hold each file of the data set, if the files are distributed over the job's nodes; `None`
    /// otherwise.
    pub replicas: Option<u32>,
    /// How the data set is copied to the nodes before the first step; `None` if it is not copied.
    pub staging: Option<Staging>,
    /// Cache of decoded samples in each node's memory, if any.
    pub decoded_cache: Option<DecodedCache>,
    /// Samples per model copy and step.
    pub batch: u64,
    /// How often a model copy takes a fresh batch.
    pub batch_interval: BatchInterval,
    /// Stages of the loader, which fills the queue that the trainer reads from.
    pub loader: StageGraph,
    /// What the last buffer does when it is full.
    pub queue: QueueKind,
    /// Samples in the last buffer at the start; at most its capacity.
    pub prefill: u64,
    /// Model copies on each node; where nodes differ, the largest number on any node.
    pub copies_per_node: u32,
    /// Model copies on each node of a job copy, in node order; empty if all nodes have the same number.
    pub copies_each: Vec<u32>,
    /// Learners on each GPU: independent models, each of which trains on its own batches.
    pub learners: Learners,
    /// Whether each model copy has a loader and a queue of its own; otherwise all model copies on a node share one
    /// loader and queue.
    pub loader_per_copy: bool,
    /// Split of the model over pipeline stages, if any.
    pub pipeline: Option<Pipeline>,
    /// How a step is spread over GPUs; `None` if its forward and backward passes are not simulated one by one.
    pub parallelism: Option<Parallelism>,
    /// The job under other pipeline schedules, if it has one.
    pub other_schedules: OtherSchedules,
    /// How model copies exchange gradients or parameters after each step, or every few steps; `None` if that takes no
    /// time.
    pub sync: Option<Sync>,
    /// Number of steps from one update to the next. A model copy adds up the gradients of these steps.
    pub accumulation: u64,
    /// Time of one step of one model copy, forward, backward and update.
    pub step: StepTime,
    /// Share of the step and GPU occupancy of each kind of kernels, in the order in which a step runs them; empty if
    /// they are not known, and each step then has its GPU to itself.
    pub kernels: Vec<Kernels>,
    /// Precision in which the GPUs compute, if the step time follows from the peak FLOP/s of the cluster's first kind
    /// of GPU.
    pub peak: Option<Precision>,
    /// Hardware that the steps run on.
    pub device: Device,
    /// The GPU that a live run trains on; `None` if accelerators are emulated.
    pub gpu: Option<RealGpu>,
    /// CPU work of the trainer for each step, such as kernel launches, if it is simulated.
    pub launch: Option<Launch>,
    /// The model that a live run trains; without one, a live run waits for the step time instead.
    pub catalogue: Option<Catalogue>,
    /// Memory that a model copy, or all learners of a GPU together, need on the GPU of each pipeline stage; empty if it
    /// is not known.
    pub footprints: Vec<Footprint>,
    /// Memory that each worker of the job's loaders takes in addition to the buffers [B].
    pub worker_memory: f64,
    /// CPU time that a stage's worker needs to hand an item on to the next stage or the queue [core-s].
    pub hand_off: f64,
    /// CPU quota, inner threads and memory traffic of the job's threads.
    pub cpu: CpuUse,
    /// Assumed number of epochs that training needs to reach a target; `None` if no number is assumed.
    pub accuracy: Option<Accuracy>,
    /// Checkpoints that the job writes, and from which it resumes after a failure, if any.
    pub checkpoint: Option<Checkpoint>,
    /// How the job's nodes fail; `None` if they never fail.
    pub failures: Option<Failures>,
}

/// Hardware that training steps run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// One GPU of the node for each model copy, or for each of its pipeline stages.
    Accelerator,
    /// The node's cores, shared with the loader.
    Cpu {
        /// Threads of each model copy, each on at most one core.
        threads: u32,
    },
}

impl Device {
    /// Returns the device's name in a profile's table of steps.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Accelerator => "gpu".to_owned(),
            Self::Cpu { threads } => format!("cpu-{threads}"),
        }
    }
}

/// Models that forebay can train itself, in live runs and probes.
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
    /// The smallest GPT-2, with bytes as tokens.
    GptSmall,
}

impl Catalogue {
    /// All models that forebay can train.
    pub const ALL: [Self; 5] =
        [Self::Lenet5, Self::ResnetSmall, Self::TransformerSmall, Self::Resnet50, Self::GptSmall];

    /// Returns the model's name in scenarios and profiles.
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

/// How often a model copy takes a fresh batch; until then, it trains on its last batch again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BatchInterval {
    /// A fresh batch is taken every `k ≥ 1` steps. If `k` is a fraction, a fresh batch is taken at the steps where
    /// `⌊step / k⌋` grows. In the long run, these are `1/k` of all steps.
    Every(f64),
    /// A fresh batch is taken when the queue holds at least `level` samples, and at the latest after `max` steps on one
    /// batch.
    Adaptive {
        /// Minimum number of samples in the queue at which a model copy takes a fresh batch although it has not yet
        /// done `max` steps on its last batch.
        level: u64,
        /// Maximum number of steps on one batch.
        max: u64,
    },
}

/// What the last buffer does when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// Producers wait until there is space.
    Bounded,
    /// Producers overwrite the oldest sample, and the trainer reads the buffer cyclically: it waits only until a first
    /// batch has been enqueued. Only for buffers of samples, not of batches.
    Circular,
}

/// Split of the model over consecutive stages, each on a GPU of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Share of the step time that each stage takes; the shares sum to 1.
    pub shares: Vec<f64>,
    /// Whether stages work on different batches at once. If not, one batch passes all stages before
    /// the next one starts.
    pub overlap: bool,
    /// Bytes of activations that a stage sends to the next one for each batch, over the link between the node's GPUs.
    pub activations: f64,
}

/// Time of one step of one model copy.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// Cost that does not depend on the batch [s].
    pub fixed: f64,
    /// Cost per sample [s].
    pub per_sample: f64,
    /// Shortest time of a step [s].
    pub floor: f64,
    /// Random factor on the step time, sampled for each step and model copy; its mean should be 1.
    pub jitter: Option<Distribution>,
}

impl StepTime {
    /// Returns the step time, all of it multiplied by `factor`.
    pub(crate) fn times(self, factor: f64) -> StepTime {
        let [fixed, per_sample, floor] =
            [self.fixed, self.per_sample, self.floor].map(|seconds| factor * seconds);
        StepTime { fixed, per_sample, floor, jitter: self.jitter }
    }

    /// Returns the time of a step over `batch` samples, before jitter [s].
    #[must_use]
    pub fn seconds(&self, batch: f64) -> f64 {
        self.law().seconds(batch)
    }

    /// Returns the step time, before jitter, as a function of the batch.
    #[must_use]
    pub fn law(&self) -> StepLaw {
        let Self { fixed, per_sample, floor, .. } = *self;
        StepLaw { floor, fixed, per_sample }
    }
}
