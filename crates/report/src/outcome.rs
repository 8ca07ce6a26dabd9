//! What one replication of one world showed, step by step: what both worlds hand to
//! [`super::summarise`].

use super::{LearnersOutcome, StallCause, Unfinished};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Which world an outcome is from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// Computed from a model.
    #[default]
    Simulated,
    /// Done on a machine.
    Live,
}

/// One replication.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Where it happened.
    pub world: World,
    /// What of it was real and what emulated, one sentence each.
    pub notes: Vec<String>,
    /// One per job copy, by job and then by copy.
    pub jobs: Vec<JobOutcome>,
    /// Every shared resource; like resources of like nodes are one entry.
    pub resources: Vec<ResourceOutcome>,
    /// Time of the last step of all jobs [s].
    pub makespan: f64,
    /// Calendar events and flow completions handled.
    pub events: u64,
    /// Flows completed.
    pub flows: u64,
    /// What its nodes took out of the wall, where that is said.
    pub energy: Option<EnergyOutcome>,
    /// Timeline, where it was asked for.
    pub trace: Option<Trace>,
    /// Why it is not whole, though nobody interrupted it; `None` of runs for a duration.
    pub unfinished: Option<Unfinished>,
}

/// What all nodes took out of the wall, from the start to the end.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EnergyOutcome {
    /// How long that was [s].
    pub seconds: f64,
    /// By being there [J].
    pub idle: f64,
    /// By computing on GPUs, beside [J].
    pub gpus: f64,
    /// By busy cores, beside [J].
    pub cores: f64,
}

impl EnergyOutcome {
    /// All of it [J].
    #[must_use]
    pub fn total(&self) -> f64 {
        self.idle + self.gpus + self.cores
    }
}

/// One copy of one job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Index into the scenario's jobs.
    pub job: usize,
    /// Which copy.
    pub copy: u32,
    /// When it started; where its data set was copied first, when that was done [s].
    pub start: f64,
    /// The copying of its data set to its nodes, of those that had all of theirs; empty where they read
    /// it where it is.
    pub staging: Vec<StagingOutcome>,
    /// Completed steps, in order.
    pub steps: Vec<StepOutcome>,
    /// Waits by step and cause, in order of step. A step's `compute` and its stalls add up to its
    /// duration.
    pub stalls: Vec<Stall>,
    /// The last buffer, all nodes together.
    pub queue: QueueOutcome,
    /// Queue and steps over time.
    pub series: Series,
    /// Requests by epoch of the reading, where they went through page caches, all nodes together.
    pub cache: Vec<CacheRequests>,
    /// The same of requests to tiers that the page cache did not answer.
    pub tiers: Vec<TierRequests>,
    /// What was read of a data set of which each node has a part, all nodes together.
    pub local: LocalReads,
    /// The same of requests for samples that may have been kept decoded.
    pub decoded: Vec<CacheRequests>,
    /// Counts that must balance.
    pub samples: SampleCounts,
    /// What its GPUs sent, where a model copy is spread over several and followed piece by piece.
    pub parallel: Option<ParallelOutcome>,
    /// Failures and checkpoints, where they are simulated.
    pub recovery: Option<RecoveryOutcome>,
    /// What learners did with GPUs, where that was looked at.
    pub learners: Option<LearnersOutcome>,
    /// What its model copies exchanged with servers, if they did.
    pub sync: Option<SyncOutcome>,
    /// Where a timeline is recorded: the batches that the loader of the first node made on request, in
    /// the order in which they were finished.
    pub deliveries: Vec<Delivery>,
    /// Where a timeline is recorded of a job that may fail: the samples that its steps which count took from the queues
    /// of its loaders, loader by loader, the first million of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trained: Vec<TrainedSample>,
    /// Where parallelism is tuned while the job runs: what it came to, by stage of the first node's
    /// loader.
    pub tuned: Vec<Tuned>,
}

/// What the GPUs of a job copy sent in all of its steps that count, all together [B].
///
/// Of collectives what each rank sends at least: of n bytes among r ranks 2 (r − 1) ÷ r of an allreduce's, half of that of
/// a reduce-scatter's or an allgather's.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ParallelOutcome {
    /// Activations to next stages, and their gradients back.
    pub activations: f64,
    /// Results that ranks that split layers added up.
    pub sums: f64,
    /// Keys and values of ranks that split sequences, and their gradients.
    #[serde(default)]
    pub keys_values: f64,
    /// Tokens on their way to experts and back, and their gradients.
    #[serde(default)]
    pub tokens: f64,
    /// Gradients, and parameters that are sharded.
    pub gradients: f64,
    /// What does not fit on a GPU, to its node's memory and back.
    pub swapped: f64,
}

/// Failures and checkpoints of a job copy.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RecoveryOutcome {
    /// How often one of its nodes failed.
    pub failures: u64,
    /// Time whose work was lost [s].
    pub lost_seconds: f64,
    /// Time from failures until it trained again [s].
    pub down_seconds: f64,
    /// Checkpoints that were written.
    pub checkpoints: u64,
    /// Bytes of them [B].
    pub written: f64,
    /// Time from the end of their steps until they were written [s].
    pub writing_seconds: f64,
}

/// What model copies and servers exchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SyncOutcome {
    /// Updates: whole exchanges of single model copies.
    pub updates: u64,
    /// Bytes that set out to servers [B].
    pub pushed: u64,
    /// Bytes that set out from them [B].
    pub pulled: u64,
    /// Updates by staleness: how many others came after their model copy's parameters had been sent to it, and
    /// before theirs; 0 of all that make one update together.
    pub staleness: BTreeMap<u64, u64>,
}

/// A stage whose parallelism is tuned.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tuned {
    /// Name of the stage.
    pub stage: String,
    /// Workers that may work at once.
    pub workers: u32,
}

/// The copying of a data set to a node.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StagingOutcome {
    /// From the job's start until the node had it [s].
    pub seconds: f64,
    /// Bytes copied.
    pub bytes: f64,
}

/// Requests that went through a page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CacheRequests {
    /// Those that found their bytes there.
    pub hits: u64,
    /// Those that went on to the storage.
    pub misses: u64,
}

/// Requests that went to tiers; of caches of whole shards, each shard once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TierRequests {
    /// Those that found their bytes on the node's own tier.
    pub hits: u64,
    /// Those that found them on another node's.
    pub peers: u64,
    /// Those that went on to the storage.
    pub misses: u64,
}

/// Bytes that were asked for where each node has a part of the data set.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LocalReads {
    /// From the node's own storage [B].
    pub own: f64,
    /// From other nodes' [B].
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
    /// Its number, in the order of requests.
    pub batch: u64,
    /// Which of the first stage's workers made it.
    pub worker: u32,
    /// When it was finished [s].
    pub finished: f64,
    /// When the trainer took it [s], if it did.
    pub taken: Option<f64>,
}

/// A sample that a step trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrainedSample {
    /// In which epoch of the reading it was read.
    pub epoch: u64,
    /// Its number in the data set.
    pub sample: u64,
}

/// One completed step of a job copy.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StepOutcome {
    /// When its last model copy finished it [s]. Its duration is from the previous step's end (or
    /// the job's start).
    pub end: f64,
    /// Time that an accelerator computed in it, mean over the job's accelerators [s].
    pub compute: f64,
    /// Samples trained on, all model copies together.
    pub samples: u64,
    /// Those among them that no model copy had trained on before in this epoch's reading.
    pub fresh: u64,
    /// The queue's running totals at `end`.
    pub queue: QueueTotals,
    /// Calendar events and flow completions of the whole run by `end`; 0 in a live run.
    #[serde(default)]
    pub events: u64,
}

/// Part of a step's stall, mean over the job's accelerators.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Index of the step.
    pub step: u32,
    /// Why.
    pub cause: StallCause,
    /// How long [s].
    pub seconds: f64,
}

/// Running totals of a queue since the job's start, all nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct QueueTotals {
    /// Integral of the level [sample·s].
    pub level_seconds: f64,
    /// Time with a trainer waiting for the queue [s], mean over nodes.
    pub empty_seconds: f64,
    /// Samples that the loaders have begun to read (prefilled ones not counted).
    pub started: u64,
    /// Samples put in (prefilled ones not counted).
    pub enqueued: u64,
    /// Samples taken out (circular queues: read for the first time).
    pub dequeued: u64,
    /// Worker-time spent before a full queue, or with nothing more to read [worker·s].
    pub blocked_seconds: f64,
    /// Time that samples taken out had spent inside [sample·s].
    pub residence_seconds: f64,
}

impl std::ops::AddAssign for QueueTotals {
    fn add_assign(&mut self, other: QueueTotals) {
        self.level_seconds += other.level_seconds;
        self.empty_seconds += other.empty_seconds;
        self.started += other.started;
        self.enqueued += other.enqueued;
        self.dequeued += other.dequeued;
        self.blocked_seconds += other.blocked_seconds;
        self.residence_seconds += other.residence_seconds;
    }
}

/// The last buffer of a loader, all nodes of a job copy together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct QueueOutcome {
    /// Capacity [samples].
    pub capacity: u64,
    /// Samples in it at the start.
    pub initial: u64,
    /// Samples in it at the end.
    pub level: u64,
    /// Workers that fill it.
    pub workers: u64,
    /// Each time that a queue which had been ready ran empty under a waiting trainer.
    pub exhaustions: Vec<Exhaustion>,
    /// Circular queues: samples overwritten, by how often they had been read (the last entry counts
    /// all that were read at least that often).
    pub reuse: Vec<u64>,
    /// Circular queues: ages of samples when read [s], as (age, count) in ascending order of age;
    /// ages are rounded to 2 %.
    pub ages: Vec<(f64, u64)>,
}

/// A queue ran dry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Exhaustion {
    /// When [s].
    pub start: f64,
    /// Until a batch was there again [s]; up to the end of the run if it never was.
    pub duration: f64,
}

/// Queue and steps over time, in bins of equal width from the start of the job copy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Series {
    /// Width of a bin [s].
    pub width: f64,
    /// The bins.
    pub bins: Vec<Bin>,
}

/// What happened within one bin of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Bin {
    /// Integral of the queue's level [sample·s].
    pub level_seconds: f64,
    /// Samples put in.
    pub enqueued: u64,
    /// Samples taken out.
    pub dequeued: u64,
    /// Worker-time before a full queue [worker·s].
    pub blocked_seconds: f64,
    /// Steps that ended here.
    pub steps: u64,
    /// Their durations together [s].
    pub step_seconds: f64,
}

/// Samples of a job copy, counted where they pass: read = enqueued + in progress, and
/// initial + enqueued = dequeued + overwritten unread + left in the queue; where jobs fail, read = enqueued + in
/// progress + dropped, and of what was enqueued some is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SampleCounts {
    /// Taken from the epoch's order by a reader.
    pub started: u64,
    /// Put into the last buffer.
    pub enqueued: u64,
    /// Between the two at the end.
    pub in_progress: u64,
    /// Taken out of the last buffer.
    pub dequeued: u64,
    /// Overwritten in a circular queue before anyone read them.
    pub overwritten: u64,
    /// Left in the last buffer.
    pub left: u64,
    /// Between the two when their job failed.
    pub dropped: u64,
    /// In the last buffer when their job failed.
    pub cleared: u64,
}

/// A shared resource, or all like ones of like nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceOutcome {
    /// Name: `hpctmp.bandwidth`, `hpctmp.operations`, `node.nic`, `node.cores`, `node.pcie`, …
    pub name: String,
    /// How many of them.
    pub count: u32,
    /// Capacity of one [unit/s; cores for `cores`], of the first where nodes differ; infinite ones are not
    /// reported.
    pub capacity: f64,
    /// Unit of the capacity: `B/s`, `1/s`, `cores`.
    pub unit: &'static str,
    /// Served ÷ (capacity × makespan), mean over them.
    pub utilisation: f64,
    /// The same of the busiest one.
    pub utilisation_max: f64,
    /// Mean number of flows (or customers) present in one.
    pub mean_flows: f64,
    /// Work served, all of them together [unit].
    pub served: f64,
}

/// A timeline for viewers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Trace {
    /// Names of processes (a node of a job copy): index is the process.
    pub processes: Vec<String>,
    /// Names of tracks: (process, name); index is the track.
    pub tracks: Vec<(u32, String)>,
    /// Spans on tracks.
    pub spans: Vec<TraceSpan>,
    /// Values of counters over time.
    pub counters: Vec<TraceCounter>,
    /// Spans and counter values left out because there were too many.
    pub dropped: u64,
}

impl Trace {
    /// Appends another timeline, of other processes.
    pub fn append(&mut self, other: Trace) {
        let (processes, tracks) = (self.processes.len() as u32, self.tracks.len() as u32);
        self.processes.extend(other.processes);
        self.tracks
            .extend(other.tracks.into_iter().map(|(process, name)| (process + processes, name)));
        let moved = |span: TraceSpan| TraceSpan { track: span.track + tracks, ..span };
        self.spans.extend(other.spans.into_iter().map(moved));
        let moved = |value: TraceCounter| TraceCounter { track: value.track + tracks, ..value };
        self.counters.extend(other.counters.into_iter().map(moved));
        self.dropped += other.dropped;
    }
}

/// The name of a cause, of what idle workers and devices do, or of a collective.
pub type ActivityName = Cow<'static, str>;

/// Something that lasted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceSpan {
    /// Index into [`Trace::tracks`].
    pub track: u32,
    /// What was going on.
    pub name: ActivityName,
    /// From [s].
    pub start: f64,
    /// For [s].
    pub duration: f64,
}

/// A value from an instant on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TraceCounter {
    /// Index into [`Trace::tracks`].
    pub track: u32,
    /// When [s].
    pub time: f64,
    /// New value.
    pub value: f64,
}
