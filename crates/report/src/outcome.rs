//! Raw results of one replication, step by step. Simulated and live runs hand them to [`super::summarise`] alike.

mod queue;
mod timeline;

use super::{LearnersOutcome, Resource, StallCause, Unfinished};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use queue::{Bin, Exhaustion, QueueOutcome, QueueTotals, Series};
pub use timeline::{ActivityName, Trace, TraceCounter, TraceSpan};

/// Whether a run was simulated or done live.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// Simulated from a model.
    #[default]
    Simulated,
    /// Done live on a machine.
    Live,
}

/// Raw results of one replication.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Whether the run was simulated or done live.
    pub world: World,
    /// Which parts of the run were real and which were emulated, one sentence each.
    pub notes: Vec<String>,
    /// Results of each job copy, ordered by job, then by copy.
    pub jobs: Vec<JobOutcome>,
    /// Every shared resource; equal resources of equal nodes are one entry.
    pub resources: Vec<ResourceOutcome>,
    /// Time at which the last step of all jobs ended [s].
    pub makespan: f64,
    /// Calendar events and flow completions handled, without those of repeated steps that were not simulated.
    pub events: u64,
    /// Flows completed, without those of repeated steps that were not simulated.
    pub flows: u64,
    /// Electrical energy that all nodes used; `None` if the scenario does not give the nodes' power.
    pub energy: Option<EnergyOutcome>,
    /// Timeline; `None` if it was not asked for.
    pub trace: Option<Trace>,
    /// What samples of the nodes gave; `None` if all nodes were simulated.
    pub sampled: Option<SampledOutcome>,
    /// Steps that were not simulated because they repeat the steps before them; `None` if all were simulated. All other results hold
    /// for the whole run, but for `events` and `flows`, and the events in [`JobOutcome::steps`]: these were only simulated once.
    pub repeated: Option<RepeatedSteps>,
    /// Why the run ended before its jobs were done; `None` if all jobs finished, and always in runs for a duration.
    pub unfinished: Option<Unfinished>,
}

/// What samples of the nodes gave, of a run that simulates a sample for all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SampledOutcome {
    /// Number of nodes for which they stand.
    pub of: u32,
    /// The samples, largest first; the outcome is that of the largest.
    pub samples: Vec<SampleOfNodes>,
}

/// What a sample of nodes gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SampleOfNodes {
    /// Number of nodes.
    pub nodes: u32,
    /// For each job, the mean step time [s] and the share of the time in which devices wait; `None` if no step is complete.
    pub jobs: Vec<Option<[f64; 2]>>,
}

/// Steps of a job that repeat the steps before them exactly, and were not simulated.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RepeatedSteps {
    /// Name of the job.
    pub job: String,
    /// Number of the first step that was not simulated, counted from 1.
    pub first: u64,
    /// Number of the last step that was not simulated.
    pub last: u64,
    /// Length of the repeated cycle [steps]: the last steps before `first`.
    pub cycle: u64,
    /// Calendar events and flow completions that these steps would have had.
    pub events: u64,
}

impl Outcome {
    /// Returns the calendar events and flow completions of the whole run, as if all of its steps had been simulated.
    #[must_use]
    pub fn events_of_all_steps(&self) -> u64 {
        self.events + self.repeated.as_ref().map_or(0, |repeated| repeated.events)
    }
}

/// Electrical energy that all nodes used, from the start to the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EnergyOutcome {
    /// Duration of the run [s].
    pub seconds: f64,
    /// Energy at idle power [J].
    pub idle: f64,
    /// Energy that computing GPUs use in addition to the idle power [J].
    pub gpus: f64,
    /// Energy that busy cores use in addition to the idle power [J].
    pub cores: f64,
}

impl EnergyOutcome {
    /// Returns the total energy [J].
    #[must_use]
    pub fn total(&self) -> f64 {
        self.idle + self.gpus + self.cores
    }
}

/// Raw results of one copy of one job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Index into the scenario's jobs.
    pub job: usize,
    /// Index of the copy among the job's copies.
    pub copy: u32,
    /// Time at which the copy started [s]; with staging, the time at which its data set had been copied.
    pub start: f64,
    /// Staging of the data set, for each node that had received all of its data; empty if the data set is not copied to nodes.
    pub staging: Vec<StagingOutcome>,
    /// Completed steps, in order.
    pub steps: Vec<StepOutcome>,
    /// Waits by step and cause, in order of step. A step's `compute` and its stalls add up to its
    /// duration.
    pub stalls: Vec<Stall>,
    /// The loader's last buffer, all nodes together.
    pub queue: QueueOutcome,
    /// Queue and steps over time.
    pub series: Series,
    /// Hits and misses of page caches for each epoch that the loaders read, all nodes together; empty if no request goes through
    /// a page cache.
    pub cache: Vec<CacheRequests>,
    /// Requests that the page cache did not answer and that went to tiers, for each epoch that the loaders read, all nodes
    /// together.
    pub tiers: Vec<TierRequests>,
    /// Bytes read of a data set that is distributed over the nodes, all nodes together.
    pub local: LocalReads,
    /// Hits and misses of caches of decoded samples for each epoch that the loaders read, all nodes together.
    pub decoded: Vec<CacheRequests>,
    /// Counts of samples along the loader, which must balance.
    pub samples: SampleCounts,
    /// Bytes that the copy's GPUs sent; `None` unless each model copy is spread over several GPUs and its forward and backward
    /// passes are simulated one by one.
    pub parallel: Option<ParallelOutcome>,
    /// Failures and checkpoints; `None` if they are not simulated.
    pub recovery: Option<RecoveryOutcome>,
    /// The first batch of each epoch that each rank took, loader by loader; at most ten thousand of each loader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_batches: Vec<FirstBatch>,
    /// Times at which checkpoints began, in order [s].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<f64>,
    /// Use of GPUs by learners; `None` if it was not observed.
    pub learners: Option<LearnersOutcome>,
    /// Exchanges of the model copies with parameter servers; `None` without servers.
    pub sync: Option<SyncOutcome>,
    /// If a timeline is recorded: the batches that the loader of the first node made on request, in the order in which they were
    /// finished.
    pub deliveries: Vec<Delivery>,
    /// If a timeline of a job that may fail is recorded: the samples that steps took from the loaders' queues, loader by loader,
    /// the first million of each. Steps whose work was lost to a failure do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trained: Vec<TrainedSample>,
    /// Number of workers that tuning reached for each stage of the first node's loader; empty unless parallelism is tuned while
    /// the job runs.
    pub tuned: Vec<Tuned>,
}

/// The first batch of an epoch that a rank took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct FirstBatch {
    /// Number of the epoch, from 0.
    pub epoch: u64,
    /// Number of the rank among those of the job copy, in the order in which the ranks of a loader took their batches.
    pub rank: u64,
    /// Number of the step that trains on the batch.
    pub step: u64,
    /// Number of steps of the epoch.
    #[serde(default)]
    pub steps: u64,
    /// Time for which the rank waited for the batch [s].
    pub seconds: f64,
}

/// Bytes that all GPUs of a job copy sent in the steps whose work no failure destroyed [B].
///
/// For collectives these are the minimum bytes that each rank must send: for n bytes among r ranks 2 (r − 1) ÷ r × n in an
/// allreduce, and half of that in a reduce-scatter or an allgather.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ParallelOutcome {
    /// Activations to next pipeline stages, and their gradients back.
    pub activations: f64,
    /// Partial results that tensor-parallel ranks (which split layers) added up.
    pub sums: f64,
    /// Keys and values of context-parallel ranks (which split sequences), and their gradients.
    #[serde(default)]
    pub keys_values: f64,
    /// Tokens on their way to experts and back, and their gradients.
    #[serde(default)]
    pub tokens: f64,
    /// Gradients and sharded parameters.
    pub gradients: f64,
    /// Data that does not fit on a GPU, swapped to the node's memory and back.
    pub swapped: f64,
}

impl ParallelOutcome {
    /// Adds `times` times what was sent from `before` to `now`.
    pub fn add_gained(&mut self, now: &ParallelOutcome, before: &ParallelOutcome, times: f64) {
        self.activations += times * (now.activations - before.activations);
        self.sums += times * (now.sums - before.sums);
        self.keys_values += times * (now.keys_values - before.keys_values);
        self.tokens += times * (now.tokens - before.tokens);
        self.gradients += times * (now.gradients - before.gradients);
        self.swapped += times * (now.swapped - before.swapped);
    }
}

impl RecoveryOutcome {
    /// Adds `times` times the checkpoints from `before` to `now`, between which nothing failed.
    pub fn add_gained(&mut self, now: &RecoveryOutcome, before: &RecoveryOutcome, times: u64) {
        let count = |of: fn(&RecoveryOutcome) -> u64| times * (of(now) - of(before));
        let sum = |of: fn(&RecoveryOutcome) -> f64| times as f64 * (of(now) - of(before));
        self.checkpoints += count(|of| of.checkpoints);
        self.postponed += count(|of| of.postponed);
        self.written += sum(|of| of.written);
        self.writing_seconds += sum(|of| of.writing_seconds);
        self.transfer_seconds += sum(|of| of.transfer_seconds);
        self.overlap_seconds += sum(|of| of.overlap_seconds);
        self.postponed_seconds += sum(|of| of.postponed_seconds);
    }
}

impl EnergyOutcome {
    /// Adds `times` times the energy used from `before` to `now`.
    pub fn add_gained(&mut self, now: &EnergyOutcome, before: &EnergyOutcome, times: f64) {
        self.seconds += times * (now.seconds - before.seconds);
        self.idle += times * (now.idle - before.idle);
        self.gpus += times * (now.gpus - before.gpus);
        self.cores += times * (now.cores - before.cores);
    }
}

/// Failures and checkpoints of a job copy.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RecoveryOutcome {
    /// Number of failures of the copy's nodes.
    pub failures: u64,
    /// Time spent on work that was lost to failures [s].
    pub lost_seconds: f64,
    /// Time from failures until the job trained again [s].
    pub down_seconds: f64,
    /// Number of failures after which the job began again at step 0, because a failed node had a part of its checkpoints.
    pub from_start: u64,
    /// Number of times that a checkpoint was read back after a failure, to the end.
    pub read_backs: u64,
    /// Bytes read back [B].
    pub read_back: f64,
    /// Time that reading back took [s].
    pub reading_seconds: f64,
    /// Number of checkpoints written.
    pub checkpoints: u64,
    /// Size of all written checkpoints together [B].
    pub written: f64,
    /// Time from the end of a step until its checkpoint was written, summed over checkpoints [s]; without the time that
    /// training waited for the previous checkpoint.
    pub writing_seconds: f64,
    /// Time for which checkpoints were being transferred to a storage that other job copies may write to [s].
    pub transfer_seconds: f64,
    /// Part of this time in which another job copy transferred checkpoints to the same storage [s].
    pub overlap_seconds: f64,
    /// Number of checkpoints before which training waited until the previous checkpoint was written.
    pub postponed: u64,
    /// Time that training waited for the previous checkpoint, summed over checkpoints [s].
    pub postponed_seconds: f64,
    /// Largest number of pending checkpoints at once: asynchronous ones that were begun and not yet written.
    pub backlog: u64,
    /// Number of pending checkpoints when half of all checkpoints since the last restart had begun.
    pub backlog_half_way: u64,
    /// Number of pending checkpoints when the last checkpoint had begun.
    pub backlog_at_end: u64,
    /// Largest memory that the states of pending checkpoints took on a node [B].
    pub backlog_bytes: f64,
    /// Number of checkpoints that were begun and not written when the run ended.
    pub unwritten: u64,
}

/// Exchanges between model copies and parameter servers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SyncOutcome {
    /// Number of updates; one update is a whole exchange of one model copy.
    pub updates: u64,
    /// Bytes whose transfer to servers was started [B].
    pub pushed: u64,
    /// Bytes whose transfer from servers was started [B].
    pub pulled: u64,
    /// Number of updates by staleness. The staleness of an update is the number of other updates that servers received between
    /// sending the model copy its parameters and receiving its update; it is 0 for all updates that are applied together.
    pub staleness: BTreeMap<u64, u64>,
}

/// A stage whose parallelism is tuned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tuned {
    /// Name of the stage.
    pub stage: String,
    /// Number of workers that may work at once.
    pub workers: u32,
}

/// The copying of a data set to a node.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StagingOutcome {
    /// Time from the job's start until the node had the data set [s].
    pub seconds: f64,
    /// Bytes copied to the node [B].
    pub bytes: f64,
}

/// Requests that went through a cache: a page cache, or a cache of decoded samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CacheRequests {
    /// Requests that found their data in the cache.
    pub hits: u64,
    /// Requests that went on to the storage.
    pub misses: u64,
}

/// Requests that went to tiers; a cache of whole shards counts each shard once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TierRequests {
    /// Requests that found their bytes on the node's own tier.
    pub hits: u64,
    /// Requests that found their bytes on another node's tier.
    pub peers: u64,
    /// Requests that went on to the storage.
    pub misses: u64,
}

/// Bytes read of a data set that is distributed over the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LocalReads {
    /// Bytes from the node's own storage [B].
    pub own: f64,
    /// Bytes from the storage of other nodes [B].
    pub peers: f64,
}

impl std::ops::AddAssign for LocalReads {
    fn add_assign(&mut self, other: LocalReads) {
        self.own += other.own;
        self.peers += other.peers;
    }
}

/// A batch that a loader made on request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Number of the batch, in the order of requests.
    pub batch: u64,
    /// Index of the worker of the first stage that made the batch.
    pub worker: u32,
    /// Time at which the batch was finished [s].
    pub finished: f64,
    /// Time at which the trainer took the batch [s]; `None` if it never did.
    pub taken: Option<f64>,
}

/// A sample that a step trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrainedSample {
    /// Epoch in which the loader read the sample.
    pub epoch: u64,
    /// Number of the sample in the data set.
    pub sample: u64,
}

/// One completed step of a job copy.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StepOutcome {
    /// Time at which the last model copy finished the step [s]. The duration of the step counts from the previous step's end (or
    /// the job's start).
    pub end: f64,
    /// Time that an accelerator computed in the step, mean over the job's accelerators [s].
    pub compute: f64,
    /// Samples that the step trained on, all model copies together.
    pub samples: u64,
    /// Samples of the step that no model copy had trained on before in this epoch of the data set.
    pub fresh: u64,
    /// The queue's running totals at `end`.
    pub queue: QueueTotals,
    /// Calendar events and flow completions that the whole run had handled by `end`; 0 in a live run.
    #[serde(default)]
    pub events: u64,
}

/// Part of a step's stall, mean over the job's accelerators.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Index of the step.
    pub step: u32,
    /// Cause of the wait.
    pub cause: StallCause,
    /// Duration of the wait [s].
    pub seconds: f64,
}

/// Samples of a job copy, counted at each point of the loader. They balance: started = enqueued + in progress, and initial +
/// enqueued = dequeued + overwritten unread + left in the queue. If jobs fail, started = enqueued + in progress + dropped, and
/// some of the enqueued samples are cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SampleCounts {
    /// Samples that readers have begun to read, in the order of the epoch.
    pub started: u64,
    /// Samples put into the last buffer.
    pub enqueued: u64,
    /// Samples started and not yet enqueued at the end of the run.
    pub in_progress: u64,
    /// Samples taken out of the last buffer.
    pub dequeued: u64,
    /// Samples overwritten in a circular queue before any trainer read them.
    pub overwritten: u64,
    /// Samples still in the last buffer at the end of the run.
    pub left: u64,
    /// Samples started and not yet enqueued when their job failed.
    pub dropped: u64,
    /// Samples in the last buffer that no trainer had taken when their job failed.
    pub cleared: u64,
}

/// A shared resource, or all equal resources of equal nodes together.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceOutcome {
    /// What it is.
    pub of: Resource,
    /// Name that reports show: `hpctmp.bandwidth`, `hpctmp.operations`, `node.nic`, `node.cores`, `node.pcie`, …
    pub name: String,
    /// Number of equal resources.
    pub count: u32,
    /// Capacity of one resource [unit/s; cores for `cores`], of the first one if nodes differ; resources of infinite capacity are
    /// not reported. For a storage with bursts, the most that it could give on average over the run.
    pub capacity: f64,
    /// Unit of the capacity: `B/s`, `1/s`, `cores`.
    pub unit: &'static str,
    /// Work served ÷ (capacity × makespan), mean over all of these resources.
    pub utilisation: f64,
    /// Work served ÷ (capacity × makespan) at the busiest of these resources.
    pub utilisation_max: f64,
    /// Mean number of flows (or customers) present in one resource.
    pub mean_flows: f64,
    /// Work served during the run by all of these resources together, in bytes, operations or core-seconds: `unit` times seconds.
    pub served: f64,
    /// What was drawn from token buckets; `None` if the resource gives no bursts.
    pub burst: Option<BurstOutcome>,
    /// The same by group of nodes, with one entry for the nodes in no group; empty unless nodes of several groups have the resource.
    pub groups: Vec<ResourceOutcome>,
}

/// What equal storages have drawn from their token buckets.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BurstOutcome {
    /// Bytes or operations served beyond those that entered the buckets during the run, by all of the storages together: a longer run does
    /// not get them again.
    pub drawn: f64,
    /// Time at which the first token bucket ran empty [s]; `None` if none did, or if the run was live: then it is not observed.
    pub emptied: Option<f64>,
}
