//! The report: times in seconds, sizes in bytes, rates per second, shares 0–1.

mod queue;
mod stalls;
mod sync;

use super::sampling::SampledReport;
use super::{
    CostReport, DeviceMemoryReport, JobCost, LearnersReport, ParallelReport, RepeatedSteps,
    Resource, RestsOn, Tuned, Verdict, World,
};
use forebay_scenario::Origins;

pub use queue::{QueueReport, ReuseReport, SeriesReport};
pub use stalls::StallReport;
pub use sync::{StalenessReport, StalenessShare, SyncReport};

/// Results of a run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Report {
    /// The answer in two sentences: whether the trainers of the job that loses most are busy, and how long a step takes; present only
    /// in files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The command that computed the report; present only in files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Name of the scenario.
    pub scenario: String,
    /// Whether the run was simulated, or done live on a machine.
    pub world: World,
    /// Seed of the run.
    pub seed: u64,
    /// Version of forebay.
    pub version: String,
    /// Number of replications that the figures average over.
    pub replications: usize,
    /// The sample of nodes that was simulated for all; present only if `fidelity.nodes` asked for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledReport>,
    /// Results of each job of the scenario, all of its copies together.
    pub jobs: Vec<JobReport>,
    /// Every shared resource of finite capacity.
    pub resources: Vec<ResourceReport>,
    /// What holds jobs back most, and should therefore be changed first; `None` if no step was completed.
    pub bottleneck: Option<Bottleneck>,
    /// What limits the slowest job, found by lifting its limits one by one; present only if a verdict was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The nominal number that the answer rests on; present only if what publications reached in its place changes the limit or the
    /// step time by more than a fifth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rests_on: Option<RestsOn>,
    /// Short verdicts on other jobs that wait, found in the same way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_verdicts: Vec<Verdict>,
    /// Time at which the last step of all jobs ended [s].
    pub makespan: Figure,
    /// Electrical energy that all nodes used; present only if the scenario gives the nodes' power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyReport>,
    /// What the cluster costs; present only if the scenario gives prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostReport>,
    /// Calendar events and flow completions handled, all replications together. Steps that were not simulated have none.
    pub events: u64,
    /// Flows completed, all replications together; those of steps that were not simulated do not count.
    pub flows: u64,
    /// Steps that were not simulated, because they repeat the steps before them exactly; present only if there are any. They are the
    /// same in all replications, because nothing is drawn. All other results count them as if they had been simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated_steps: Option<RepeatedSteps>,
    /// Wall-clock time of the simulation, or of the live run with all its preparations [s].
    pub wall_time: f64,
    /// Which parts of a live run were real and which were emulated, one sentence each.
    pub notes: Vec<String>,
    /// What the reader should know before trusting the figures, one sentence each.
    pub warnings: Vec<String>,
    /// Keys that the scenario file and overrides set, and defaults of the others.
    #[serde(flatten)]
    pub origins: Origins,
}

/// Mean of an observed quantity, with its confidence interval and quantiles.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, schemars::JsonSchema)]
pub struct Figure {
    /// Mean over replications of the mean over copies; `None` where nothing was observed.
    pub mean: Option<f64>,
    /// 95 % confidence interval of the mean. Over several replications it is Student's interval. Of a single replication it is
    /// Student's interval over batch means: means over ten or more independent groups of consecutive steps; `None` if there are
    /// fewer groups. The ends are from 0 to 1 for shares, and above 0 for times and rates. If a single
    /// replication has rare stalls, or several replications together less than two, the interval is widened to allow for stalls
    /// that the run was too short to show.
    pub ci95: Option<[f64; 2]>,
    /// Median of the single observations, such as step times; `None` if the figure has no single observations.
    pub p50: Option<f64>,
    /// 95 % quantile of the single observations.
    pub p95: Option<f64>,
    /// 99 % quantile of the single observations.
    pub p99: Option<f64>,
    /// Interval that holds 90 % of single runs; present only if uncertainty was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction90: Option<[f64; 2]>,
}

/// Results of one job, all of its copies together.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct JobReport {
    /// Name.
    pub name: String,
    /// Number of independent copies of the job.
    pub copies: u32,
    /// Device that the job's steps run on, as profiles name it: `gpu`, or `cpu-2` for two threads on cores.
    pub device: String,
    /// Figures of one copy, after the warm-up.
    #[serde(flatten)]
    pub figures: JobFigures,
    /// Highest rate over a single step [samples/s].
    pub samples_per_second_max: Option<f64>,
    /// Rare stalls; present only if stalls are rare. Their number in a run this short says little about their frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_steps: Option<StalledSteps>,
    /// Whether the run was long enough for its figures to hold in the long run.
    pub length: LengthReport,
    /// Minimum and maximum of the copies' mean step times [s].
    pub step_time_spread: Option<Spread>,
    /// Number of steps left out at the beginning as warm-up, mean over copies and replications.
    pub warm_up_steps: f64,
    /// Figures of the first epoch, with no warm-up left out; `None` if the run does not go beyond it.
    pub first_epoch: Option<JobFigures>,
    /// Figures of the steps after the first epoch and the warm-up; `None` if there are none.
    pub later_epochs: Option<JobFigures>,
    /// Miss rate of the page cache for each epoch: share of the requests that did not find their bytes in the node's page cache,
    /// over all copies and replications. Empty if no request went through a page cache.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_miss_share: Vec<f64>,
    /// Loader stages whose parallelism is tuned while the job runs, with the number of workers that tuning reached in the first
    /// copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<Tuned>,
    /// Miss rate of the cache of decoded samples for each epoch: share of the samples that were not found in the cache. Empty
    /// if no decoded samples are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decoded_miss_share: Vec<f64>,
    /// Where requests that missed the page cache found their bytes, for each epoch, over all copies and replications. Empty if
    /// no request went to a tier.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierShares>,
    /// Share of the bytes read that nodes found on their own storage; present only if each node has a part of the data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_share: Option<Figure>,
    /// The beginnings of epochs: how long ranks wait for their first batch; `None` if no rank has got one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch_starts: Option<EpochStarts>,
    /// Copying of the data set to the nodes before the first step; present only if the job stages its data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging: Option<StagingReport>,
    /// Memory use of the GPU that holds the largest part of the model; present only if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_memory: Option<DeviceMemoryReport>,
    /// Use of GPUs by learners; present only if the scenario describes kernels or sets the number of learners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learners: Option<LearnersReport>,
    /// How each model copy is spread over GPUs; present only if the scenario describes that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<ParallelReport>,
    /// Time until the job reaches its target; present only if the scenario says how much training that takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_accuracy: Option<AccuracyReport>,
    /// Synchronisation of the job's model copies; present only if they exchange anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncReport>,
    /// Failures and checkpoints; present only if they are simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryReport>,
    /// What one copy of the job costs; present only if the scenario gives prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<JobCost>,
    /// The last buffer of the loader, from which trainers take batches.
    pub queue: QueueReport,
    /// Queue and steps over time, of the first copy in the first replication.
    pub series: SeriesReport,
}

/// Rare stalls: steps that waited longer than usual, over all copies and replications.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StalledSteps {
    /// Number of stalls. Consecutive steps that waited longer than usual count as one.
    pub events: usize,
    /// Number of steps observed.
    pub steps: usize,
    /// Upper limit of `events ÷ steps` in the long run, at a confidence of 97.5 %: for 39 of 40 runs like this one, the true
    /// value is not above the limit.
    pub at_most: f64,
}

/// Whether a run was long enough.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, schemars::JsonSchema)]
pub struct LengthReport {
    /// Whether the run was long enough.
    pub enough: bool,
    /// Why the run was not long enough, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Rate at which the loader can fill its buffers in the long run [samples/s]; present only if buffers drained, so that
    /// trainers were partly fed by samples read before the measured steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_run_samples_per_second: Option<f64>,
    /// Whether buffers drained during the measured steps; false also if that was not checked.
    pub drained: bool,
    /// Whether buffers filled during the measured steps, so that the loaders read more than trainers took; false also if that was
    /// not checked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub filled: bool,
    /// What the job does again and again, and the measured steps do not hold, in a sentence each, such as the end of an epoch that
    /// is longer than the run. The run is not too short for the rest of what the job does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
    /// Why the figures have no confidence interval, in a sentence; present only if they have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_interval: Option<String>,
}

impl JobReport {
    /// Returns the word for what computes the job's steps: `accelerators`, or `trainers` if these are threads on the node's
    /// cores.
    #[must_use]
    pub fn trainers(&self) -> &'static str {
        if self.device.starts_with("cpu") { "trainers" } else { "accelerators" }
    }
}

/// Figures of one copy of a job over a range of its steps.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct JobFigures {
    /// Throughput in samples trained on [samples/s].
    pub samples_per_second: Figure,
    /// Throughput in fresh samples [samples/s]: samples that no earlier step of the same epoch trained on.
    pub fresh_samples_per_second: Figure,
    /// Time from the end of one step to the end of the next [s].
    pub step_time: Figure,
    /// Number of steps observed.
    pub steps: Figure,
    /// Time for one pass over the data set at the rate of fresh samples [s].
    pub epoch_time: Figure,
    /// Time that accelerators compute ÷ elapsed time, as MLPerf Storage defines it.
    pub accelerator_utilisation: Figure,
    /// Time that accelerators wait, by cause, as shares of elapsed time.
    pub stall: StallReport,
}

impl JobFigures {
    /// Whether no step was observed.
    pub fn is_empty(&self) -> bool {
        self.step_time.mean.is_none()
    }
}

/// The beginnings of epochs, the first one included. A loader then makes its first batches while it has no other ready.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct EpochStarts {
    /// Time that a rank waits for its first batch of an epoch, mean over epochs and ranks; quantiles over both [s].
    pub first_batch: Figure,
    /// Time that the slowest rank waits for its first batch of an epoch, mean over epochs [s].
    pub slowest_first_batch: Figure,
    /// Duration of the first step of an epoch, with all waits [s].
    pub first_step: Figure,
    /// Computing over elapsed time of a whole epoch, by the rules of MLPerf Storage v1.0: each rank's own first step is left out of both,
    /// and its wait for the slowest rank's counts.
    pub mlperf_v1_utilisation: Figure,
    /// Samples of a whole epoch over its duration, first step included, as MLPerf Storage v1.0 counts [samples/s].
    pub mlperf_v1_samples_per_second: Figure,
    /// Computing over elapsed time of an epoch without its first step, as MLPerf Storage counts from v2.0 on.
    pub mlperf_v2_utilisation: Figure,
    /// Samples over duration of an epoch without its first step, as MLPerf Storage counts from v2.0 on [samples/s].
    pub mlperf_v2_samples_per_second: Figure,
    /// Each of the first hundred epochs.
    pub epochs: Vec<EpochStart>,
}

/// The beginning of one epoch, over all copies and replications.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct EpochStart {
    /// Number of the epoch, from 0.
    pub epoch: u64,
    /// Median over ranks of the wait for the first batch [s].
    pub median: f64,
    /// Wait of the rank that waits longest [s].
    pub slowest: f64,
    /// Duration of the first step [s]; `None` if the run ends before it does.
    pub first_step: Option<f64>,
}

/// The copying of a job's data set to its nodes.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StagingReport {
    /// Name of the storage that the data set is copied to.
    pub to: String,
    /// Time from the job's start until the last of its nodes had the data set [s].
    pub seconds: Figure,
    /// Minimum and maximum time from the job's start until a node had the data set, over the nodes of all copies and replications
    /// [s].
    pub nodes: Spread,
    /// Bytes copied to all nodes of a copy of the job [B].
    pub bytes: Figure,
}

/// How long a job trains until it reaches its target.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct AccuracyReport {
    /// Number of epochs of fresh samples until the target, as assumed by the scenario.
    pub epochs: f64,
    /// Batch size that the number of epochs follows from [samples].
    pub batch: u64,
    /// Training until the target, as a number of fresh samples; other samples count as the part of a fresh sample that they are
    /// worth.
    pub fresh_samples: f64,
    /// Samples trained on until the target, repeated ones counted.
    pub samples: Figure,
    /// Throughput with each sample weighted by its worth relative to a fresh sample [samples/s]: the hardware efficiency, after
    /// the warm-up and the first epoch.
    pub useful_samples_per_second: Figure,
    /// Mean worth of a sample that was trained on, relative to a fresh sample in training with the smallest batches.
    pub statistical_efficiency: Figure,
    /// Time from the job's arrival to its target [s]. The confidence interval covers the throughput only, not the assumed epochs.
    pub time: Figure,
    /// Share of the training that the run covered, from 0 to 1.
    pub observed: f64,
    /// What the scenario assumes about accuracy, in words.
    pub assumed: String,
    /// Which part of the time until the target was simulated or measured, in words.
    pub measured: String,
}

/// Failures and checkpoints of a copy of a job, over the whole run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct RecoveryReport {
    /// Number of failures of the copy's nodes.
    pub failures: Figure,
    /// Time spent on work that was lost to failures [s]. `lost` and `down` add up to the stalls by `fault`.
    pub lost: Figure,
    /// Time from failures until the job trained again [s].
    pub down: Figure,
    /// Number of failures after which the job began again at step 0, because a failed node had a part of its checkpoints.
    pub from_start: Figure,
    /// Number of times that a checkpoint was read back after a failure, to the end; another failure may interrupt it.
    pub read_backs: Figure,
    /// Bytes that the job read back after a failure, all ranks together [B].
    pub read_back_bytes: Figure,
    /// Time that reading back took after a failure [s]; a part of `down`.
    pub read_back_time: Figure,
    /// Number of checkpoints written.
    pub checkpoints: Figure,
    /// Time from the end of a step until its checkpoint was written [s]; without the time that training waited for the previous
    /// checkpoint.
    pub checkpoint_time: Figure,
    /// Size of a checkpoint [B].
    pub checkpoint_bytes: Figure,
    /// Share of the time of transferring checkpoints in which other job copies transferred theirs to the same storage, which all
    /// reach.
    pub checkpoint_overlap: Figure,
    /// Number of asynchronous checkpoints before which training waited until the previous checkpoint was written
    /// (`when_busy = "wait"`).
    pub postponed: Figure,
    /// Time that training waited for the previous checkpoint, all checkpoints together [s].
    pub postponed_time: Figure,
    /// Largest number of pending checkpoints at once: asynchronous ones that were begun and not yet written.
    pub backlog: Figure,
    /// Largest memory that the states of pending checkpoints took on a node [B].
    pub backlog_bytes: Figure,
    /// Number of checkpoints that were begun and not yet written when the run ended.
    pub unwritten: Figure,
    /// Time from when training goes on after one checkpoint until the next is due; an interval in steps counts with the mean step time [s].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<f64>,
    /// Best time from when training goes on after one checkpoint until the next by the estimate of J. T. Daly (2006), for failures
    /// at a constant rate [s].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_interval: Option<f64>,
    /// Expected share of the time that checkpoints and failures take with `interval`, by Daly's formula.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_cost: Option<f64>,
    /// The same with `best_interval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_cost: Option<f64>,
    /// Why there is no best interval although the job fails, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_best_interval: Option<String>,
}

/// Electrical energy that all nodes used in the whole run, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct EnergyReport {
    /// Total energy [J].
    pub total: Figure,
    /// Energy at idle power [J].
    pub idle: Figure,
    /// Energy that computing GPUs use in addition to the idle power [J].
    pub gpus: Figure,
    /// Energy that busy cores use in addition to the idle power [J].
    pub cores: Figure,
    /// Mean power [W].
    pub power: Figure,
    /// Energy for each step; the steps of all job copies count [J].
    pub per_step: Figure,
    /// Energy for each sample that was trained on [J].
    pub per_sample: Figure,
}

/// Where requests of an epoch found their bytes, as shares of all requests that went to tiers.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct TierShares {
    /// Share found on the node's own tier.
    pub hit: f64,
    /// Share found on another node's tier.
    pub peer: f64,
    /// Share that went on to the storage.
    pub miss: f64,
}

/// Minimum and maximum of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Spread {
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

/// A shared resource over the whole run. The warm-up is included, because jobs share the resource and each has a different
/// warm-up.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct ResourceReport {
    /// What it is.
    #[serde(skip)]
    pub of: Resource,
    /// Name.
    pub name: String,
    /// Number of equal resources with this name.
    pub count: u32,
    /// Capacity of one resource [unit].
    pub capacity: f64,
    /// Unit of the capacity.
    pub unit: String,
    /// Share of the capacity in use, mean over all resources with this name.
    pub utilisation: Figure,
    /// Share of the capacity in use at the busiest resource with this name.
    pub utilisation_max: Figure,
    /// Mean number of flows (or customers) present in one resource.
    pub mean_flows: Figure,
    /// The same by group of nodes, with one entry for the nodes in no group; empty unless nodes of several groups have the resource.
    #[serde(skip)]
    pub groups: Vec<ResourceReport>,
}

/// What holds back the job that loses most accelerator time.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Bottleneck {
    /// Name of the job.
    pub job: String,
    /// `compute`, or the largest cause of the job's stalls.
    pub cause: String,
    /// Resource that is responsible for the cause.
    pub resource: String,
    /// Share of time that goes into the cause.
    pub share: f64,
    /// The bottleneck in words, with advice on what may help. The advice is left out if limits were lifted to find out what
    /// helps.
    pub text: String,
    /// The bottleneck in words, without advice.
    #[serde(skip)]
    pub finding: String,
    /// Whether the user has chosen the job; otherwise it is the one that loses most time.
    #[serde(skip)]
    pub chosen: bool,
}
