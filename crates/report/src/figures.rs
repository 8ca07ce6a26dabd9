//! The report: times in seconds, sizes in bytes, rates per second, shares 0–1.

use super::{
    Cause, DeviceMemoryReport, LearnersReport, ParallelReport, StallCause, Tuned, Verdict, World,
};
use forebay_scenario::Assumed;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;

/// What a run showed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// Where it happened: simulated, or live on a machine.
    pub world: World,
    /// Seed of the run.
    pub seed: u64,
    /// Version of forebay.
    pub version: String,
    /// Replications that the figures are over.
    pub replications: usize,
    /// One per job of the scenario, its copies together.
    pub jobs: Vec<JobReport>,
    /// Every shared resource of finite capacity.
    pub resources: Vec<ResourceReport>,
    /// What to change first; `None` without a completed step.
    pub bottleneck: Option<Bottleneck>,
    /// What binds, where it was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Time of the last step of all jobs [s].
    pub makespan: Figure,
    /// What all nodes took out of the wall, where it is said what they draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyReport>,
    /// Calendar events and flow completions handled, all replications together.
    pub events: u64,
    /// Flows completed, all replications together.
    pub flows: u64,
    /// Time that the simulation itself, or the run with all its preparations, took [s].
    pub wall_time: f64,
    /// What of a live run was real and what emulated, one sentence each.
    pub notes: Vec<String>,
    /// What the reader should know before trusting the figures, one sentence each.
    pub warnings: Vec<String>,
    /// Defaults that the run took because the scenario does not say otherwise.
    pub assumed: Vec<Assumed>,
}

/// A figure that varies.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, schemars::JsonSchema)]
pub struct Figure {
    /// Mean over replications of the mean over copies; `None` where nothing was observed.
    pub mean: Option<f64>,
    /// 95 % confidence interval of the mean: Student's over replications or, within a single one, over ten or more stretches
    /// of steps that do not depend on each other; `None` where there are fewer. Shares stay from 0 to 1, times and rates
    /// above 0. Where steps are held up rarely, it allows for what was not seen.
    pub ci95: Option<[f64; 2]>,
    /// Median of the single observations, where there are such.
    pub p50: Option<f64>,
    /// Their 95 % quantile.
    pub p95: Option<f64>,
    /// Their 99 % quantile.
    pub p99: Option<f64>,
    /// Where 90 % of single runs lie, where uncertainty was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction90: Option<[f64; 2]>,
}

/// One job, its copies together.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct JobReport {
    /// Name.
    pub name: String,
    /// Independent copies.
    pub copies: u32,
    /// What its steps run on, as profiles name it: `gpu`, or threads on cores, `cpu-2`.
    pub device: String,
    /// Figures of one copy behind the warm-up.
    #[serde(flatten)]
    pub figures: JobFigures,
    /// Highest rate over a single step [samples/s].
    pub samples_per_second_max: Option<f64>,
    /// Rare stalls, if stalls are rare: their number in a run this short says little about their frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_steps: Option<StalledSteps>,
    /// Whether the run was long enough for its figures to be those of a long one.
    pub length: LengthReport,
    /// Least and greatest mean step time of a copy [s].
    pub step_time_spread: Option<Spread>,
    /// Steps left out at the beginning, mean over copies and replications.
    pub warm_up_steps: f64,
    /// The first epoch, nothing left out; `None` where the run does not go beyond it.
    pub first_epoch: Option<JobFigures>,
    /// What lies behind the first epoch (and the warm-up).
    pub later_epochs: Option<JobFigures>,
    /// By epoch, share of the requests that did not find their bytes in the node's page cache, all
    /// copies and replications together; empty where none went through one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_miss_share: Vec<f64>,
    /// Stages whose parallelism is tuned while the job runs, and what it came to in the first copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<Tuned>,
    /// By epoch, share of the samples that were not kept decoded; empty where none are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decoded_miss_share: Vec<f64>,
    /// By epoch, where requests that the page cache did not answer found their bytes, all copies and
    /// replications together; empty where none went to a tier.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierShares>,
    /// Share of the bytes that nodes found on their own storage, where each has a part of the data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_share: Option<Figure>,
    /// The copying of the data set to the nodes before the first step, where that is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging: Option<StagingReport>,
    /// What a GPU holds of the model, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_memory: Option<DeviceMemoryReport>,
    /// What learners did with GPUs, where something is said of their kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learners: Option<LearnersReport>,
    /// How each model copy is spread over GPUs, where its steps are followed piece by piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<ParallelReport>,
    /// How long it trains until it reaches its target, where the scenario says how much training that takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_accuracy: Option<AccuracyReport>,
    /// How its model copies agreed, where they exchanged anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncReport>,
    /// Failures and checkpoints, where they are simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryReport>,
    /// The last buffer.
    pub queue: QueueReport,
    /// Queue and steps over time, first copy of the first replication.
    pub series: SeriesReport,
}

/// Steps that were held up now and then, all copies and replications together.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StalledSteps {
    /// How often a step waited longer than usual; steps one after another count once.
    pub events: usize,
    /// Steps looked at.
    pub steps: usize,
    /// Upper limit of `events ÷ steps` in the long run, which 39 of 40 runs like this one keep.
    pub at_most: f64,
}

/// Whether a run was long enough.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, schemars::JsonSchema)]
pub struct LengthReport {
    /// Whether it was.
    pub enough: bool,
    /// Why not, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Where buffers drained, so that trainers were fed by what was read before: the rate that the inflow allows in the
    /// long run [samples/s].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_run_samples_per_second: Option<f64>,
    /// Whether buffers drained within the measured steps, as they were looked at.
    pub drained: bool,
    /// Why figures have no interval, in a sentence, where they have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_interval: Option<String>,
}

impl JobReport {
    /// What computes its steps, for sentences about several: `accelerators`, or `trainers` where
    /// those are threads on the node's cores.
    #[must_use]
    pub fn trainers(&self) -> &'static str {
        if self.device.starts_with("cpu") { "trainers" } else { "accelerators" }
    }
}

/// Figures of one copy of a job over a stretch of its steps.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct JobFigures {
    /// Samples trained on [samples/s].
    pub samples_per_second: Figure,
    /// Those among them that were new in their epoch [samples/s].
    pub fresh_samples_per_second: Figure,
    /// Time from the end of one step to the end of the next [s].
    pub step_time: Figure,
    /// Steps observed.
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

/// The copying of a job's data set to its nodes.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StagingReport {
    /// Name of the storage that it is copied to.
    pub to: String,
    /// From the job's start until the last of its nodes had it [s].
    pub seconds: Figure,
    /// Until a node had it [s]: of the first and of the last one of all.
    pub nodes: Spread,
    /// Bytes copied to all nodes of a copy of the job [B].
    pub bytes: Figure,
}

/// How long a job trains until it reaches its target.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct AccuracyReport {
    /// Epochs of fresh samples that it takes: assumed.
    pub epochs: f64,
    /// The batch that decided how many [samples].
    pub batch: u64,
    /// Fresh samples that it takes, or what is worth as much.
    pub fresh_samples: f64,
    /// Samples trained on until then, repeated ones counted.
    pub samples: Figure,
    /// What samples are worth in fresh ones [samples/s]: hardware efficiency, behind warm-up and first
    /// epoch.
    pub useful_samples_per_second: Figure,
    /// What a sample trained on is worth of one in the smallest of batches that was never seen.
    pub statistical_efficiency: Figure,
    /// From the job's arrival to its target [s]. Its interval is that of the speed alone.
    pub time: Figure,
    /// Share of the way that the run went.
    pub observed: f64,
    /// What the scenario says, in words.
    pub assumed: String,
    /// What was observed, in words.
    pub measured: String,
}

/// How the model copies of a job agreed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct SyncReport {
    /// Steps of a model copy, each of one batch, from one exchange to the next.
    pub steps_per_exchange: u64,
    /// What it then has to exchange [B].
    pub bytes_per_exchange: u64,
    /// How the time of collectives is found: "flow", transfer by transfer, or "analytic", as on an idle network; `None`
    /// with servers, where each transfer is followed.
    pub fidelity: Option<&'static str>,
    /// What a step is, and how they exchanged, in words.
    pub text: String,
    /// How old what they had learnt from was, where servers had the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness: Option<StalenessReport>,
}

/// Updates of others that came between the parameters that an update was made from and the update.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StalenessReport {
    /// Mean over updates.
    pub mean: Figure,
    /// The most of any.
    pub max: u64,
    /// Shares of updates, over all copies and replications.
    pub distribution: Vec<StalenessShare>,
}

/// Share of updates that missed at least `from` others, and fewer than twice as many.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StalenessShare {
    /// The fewest.
    pub from: u64,
    /// Of all updates.
    pub share: f64,
}

/// Failures and checkpoints of a copy of a job, over the whole run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct RecoveryReport {
    /// How often one of its nodes failed.
    pub failures: Figure,
    /// Time whose work was lost [s]; with `down`, what stalls by `fault` add up to.
    pub lost: Figure,
    /// Time from failures until it trained again [s].
    pub down: Figure,
    /// Checkpoints that were written.
    pub checkpoints: Figure,
    /// From the end of a step until its checkpoint was written [s].
    pub checkpoint_time: Figure,
    /// Bytes of a checkpoint [B].
    pub checkpoint_bytes: Figure,
    /// The interval that J. T. Daly (2006) takes for best, where failures come at any time alike [s].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_interval: Option<f64>,
}

/// What all nodes took out of the wall in the whole run, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct EnergyReport {
    /// All of it [J].
    pub total: Figure,
    /// By being there [J].
    pub idle: Figure,
    /// By computing on GPUs, beside [J].
    pub gpus: Figure,
    /// By busy cores, beside [J].
    pub cores: Figure,
    /// On the average [W].
    pub power: Figure,
    /// For each step of a job copy, where there are several all of them counted [J].
    pub per_step: Figure,
    /// For each sample that was trained on [J].
    pub per_sample: Figure,
}

/// Where requests of an epoch found their bytes: shares of all that went to tiers.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct TierShares {
    /// On the node's own tier.
    pub hit: f64,
    /// On another node's.
    pub peer: f64,
    /// On the storage.
    pub miss: f64,
}

/// Shares of time that accelerators waited.
#[derive(Debug, Clone, PartialEq)]
pub struct StallReport {
    /// All causes together.
    pub total: Figure,
    /// Each cause, in a fixed order: the usual ones always, the others where they occur.
    pub causes: Vec<(StallCause, Figure)>,
}

impl StallReport {
    /// The share of time that goes into one cause.
    pub fn share(&self, of: StallCause) -> f64 {
        let found = self.causes.iter().find(|(cause, _)| *cause == of);
        found.and_then(|(_, figure)| figure.mean).unwrap_or(0.0)
    }

    /// The largest cause and its share of time, if there is any. What held up a rank and what that
    /// rank held up is one cause: it counts as the rank's own.
    ///
    /// `ranks` start each step together. One that starts late by its own wait holds up each of the
    /// others by as much while it computes, however even their step times are: waits for computing
    /// peers count as a cause of their own only where they are more than that. Communication ends for
    /// all at once, and makes nobody start late.
    pub fn largest(&self, ranks: f64) -> Option<(StallCause, f64)> {
        let late = Cause::ALL.iter().filter(|cause| **cause != Cause::Communication);
        let own: f64 = late.map(|cause| self.share(StallCause::own(*cause))).sum();
        let uneven = self.share(StallCause::peer(Cause::Compute)) > 1.01 * own * (ranks - 1.0);
        let together = Cause::ALL.iter().filter(|cause| uneven || **cause != Cause::Compute);
        let together = together.map(|cause| {
            let (own, peer) = (StallCause::own(*cause), StallCause::peer(*cause));
            let first = if self.share(own) > 0.0 { own } else { peer };
            (first, self.share(own) + self.share(peer))
        });
        // Of equals the first.
        let largest = together.rev().max_by(|a, b| a.1.total_cmp(&b.1));
        largest.filter(|(_, share)| *share > 0.0)
    }
}

impl Serialize for StallReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.causes.len()))?;
        map.serialize_entry("total", &self.total)?;
        for (cause, figure) in &self.causes {
            map.serialize_entry(&cause.to_string(), figure)?;
        }
        map.end()
    }
}

impl JsonSchema for StallReport {
    fn schema_name() -> Cow<'static, str> {
        "StallReport".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let figure = generator.subschema_for::<Figure>();
        let own =
            Cause::ALL.map(StallCause::own).into_iter().filter(|of| of.cause != Cause::Compute);
        let names = own.chain(Cause::ALL.map(StallCause::peer)).map(|of| of.to_string());
        let names = ["total".to_owned()].into_iter().chain(names);
        let properties: serde_json::Map<_, _> =
            names.map(|name| (name, figure.clone().to_value())).collect();
        json_schema!({ "type": "object", "properties": properties, "required": ["total"] })
    }
}

/// Least and greatest.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Spread {
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

/// The last buffer of a job copy, all its nodes together, behind the warm-up.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct QueueReport {
    /// Capacity [samples].
    pub capacity: u64,
    /// Level, weighted by time [samples].
    pub occupancy: Figure,
    /// How often it ran empty under a waiting trainer after it had been ready, per copy.
    pub exhaustions: Figure,
    /// How long exhaustions lasted [s], over the whole run.
    pub exhaustion_duration: Figure,
    /// Share of time with a trainer waiting for it.
    pub time_empty: Figure,
    /// Samples put in [samples/s].
    pub enqueue_rate: Figure,
    /// Samples taken out [samples/s].
    pub dequeue_rate: Figure,
    /// Samples put in per second that workers were not held up by a full queue [samples/s].
    pub unblocked_enqueue_rate: Figure,
    /// Samples taken out per second that no trainer waited for the queue [samples/s]: what the
    /// trainers would take if they were never starved.
    pub unstalled_dequeue_rate: Figure,
    /// Unblocked enqueue rate − unstalled dequeue rate [samples/s]: negative where the queue runs
    /// dry, positive where it fills.
    pub net_enqueue_rate: Figure,
    /// From the job's start to the first exhaustion of a queue that was full then [s], mean over the
    /// copies in which it ran dry.
    pub time_to_exhaustion: Figure,
    /// Share of the copies whose queue was full at their start in which it ran dry.
    pub exhausted_copies: Figure,
    /// Time that a sample spends inside [s].
    pub waiting_time: Figure,
    /// Circular queues: age of samples when read [s], over the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<Figure>,
    /// Circular queues: how often samples were read before they were overwritten, whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse: Option<ReuseReport>,
}

/// How often samples of a circular queue were read.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct ReuseReport {
    /// Mean number of reads (a lower bound where the histogram's last entry is not empty).
    pub mean: Option<f64>,
    /// Samples by number of reads; the last entry counts all that were read at least that often.
    pub histogram: Vec<u64>,
}

/// Queue and steps over time, in bins. Bins in which a quantity was not observed hold `None`.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, schemars::JsonSchema)]
pub struct SeriesReport {
    /// Middle of each bin, since the start of the run [s].
    pub time: Vec<f64>,
    /// Mean level [samples].
    pub occupancy: Vec<Option<f64>>,
    /// Samples put in [samples/s].
    pub enqueue_rate: Vec<Option<f64>>,
    /// Samples put in per second that workers were not held up [samples/s].
    pub unblocked_enqueue_rate: Vec<Option<f64>>,
    /// Samples taken out [samples/s].
    pub dequeue_rate: Vec<Option<f64>>,
    /// Unblocked enqueue rate − dequeue rate [samples/s].
    pub net_enqueue_rate: Vec<Option<f64>>,
    /// Mean time of the steps that ended here [s].
    pub step_time: Vec<Option<f64>>,
}

/// A shared resource over the whole run, warm-up included: all jobs use it, and each has a warm-up
/// of its own.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct ResourceReport {
    /// Name.
    pub name: String,
    /// How many like it.
    pub count: u32,
    /// Capacity of one [unit].
    pub capacity: f64,
    /// Unit of the capacity.
    pub unit: String,
    /// Share of the capacity in use, mean over them.
    pub utilisation: Figure,
    /// The same of the busiest.
    pub utilisation_max: Figure,
    /// Flows (or customers) present in one.
    pub mean_flows: Figure,
}

/// What holds the job back that loses most accelerator time.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Bottleneck {
    /// The job.
    pub job: String,
    /// `compute`, or the largest cause of its stalls.
    pub cause: String,
    /// What carries that cause.
    pub resource: String,
    /// Share of time that goes into it.
    pub share: f64,
    /// The same in words, and where nothing was lifted, what may help.
    pub text: String,
    /// The same without advice.
    #[serde(skip)]
    pub finding: String,
}
