//! Scenario files, read and checked: a [`Scenario`] that exists can be simulated.
//!
//! Everything here is plain data in SI units: seconds, bytes, bytes per second, operations per
//! second, core-seconds. Indices into the vectors of a scenario (`storage`, `datasets`) are in
//! range.
//!
//! # Example
//!
//! A file with a mistake is refused, with the line of the mistake and what to write instead.
//!
//! ```
//! use forebay_scenario::ScenarioFile;
//!
//! let text = "name = \"x\"\nrun.step = 5\n".to_owned();
//! let refused = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
//! assert!(refused.unwrap_err().to_string().contains("steps"));
//! ```

mod assumed;
mod background;
pub mod change;
mod check;
pub mod cluster;
pub mod dataset;
pub mod distribution;
mod document;
mod dotted;
mod emit;
mod fault;
mod fidelity;
mod field;
mod file;
mod fitting;
mod idle;
pub mod job;
pub mod layout;
mod limits;
pub mod loader;
mod meant;
mod misplaced;
mod money;
mod names;
mod number;
mod overrides;
mod plan;
mod prices;
mod problem;
pub mod profile;
mod reader;
mod reading;
mod renamed;
mod role;
mod run;
mod sampling;
mod settings;
pub mod storage;
mod sweep;
pub mod sync;
#[cfg(test)]
mod tests;
mod tiers;
mod unread;
mod uses;
mod value;
mod written;

pub use assumed::{Assumed, Origins, default_in};
pub use cluster::{
    Cluster, Group, Intra, IntraKind, NicsAt, Node, PageCache, Power, Racks, Scheduling, Smt, Tree,
};
pub use dataset::{Dataset, Image, SampleOrder, SampleSizes};
pub use distribution::Distribution;
pub use fault::{Fault, Faulty, FaultyLink};
pub use file::ScenarioFile;
pub use job::{
    Accuracy, Arrivals, BatchInterval, Catalogue, Checkpoint, Context, Convert, Copies,
    CountedBatch, CpuUse, DecodedCache, Device, ENDLESS, Every, Expert, FailedNode, FailureTimes,
    Failures, Goal, InnerThreads, Job, Kernels, KeyExchange, Launch, Learners, Load, Members,
    Method, OtherSchedule, OtherSchedules, Parallelism, Pass, Pipeline, Quantisation, QueueKind,
    RankPart, RealGpu, Replicas, Resume, Schedule, Share, Split, StageBucket, StageParameters,
    Staging, StepOf, StepTime, Swap, Tensor, Tuning, Turn, WhenBusy, Writers,
};
pub use layout::{Framing, Layout, Ranges, RowGroups};
pub use loader::{
    Dealt, Generator, Kernel, NextEpoch, Operation, Order, Preset, Replaced, Requests, Stage,
    StageGraph, Unit,
};
pub use money::{HOURS_OF_MONTH, Money, Price};
pub use names::choose;
pub use overrides::{Override, OverrideText};
pub use plan::{PlanOption, PlanTable, PlanText};
pub use prices::{BoughtStorage, Priced, Prices, Purchase};
pub use problem::{Problem, Problems, printable, printable_line};
pub use reading::Reading;
pub use role::{ROLE, Role, roles};
pub use sampling::SampledNodes;
pub use settings::schema;
pub use storage::{
    Access, Burst, CacheUnit, Location, Queues, ReadCpu, RequestLimit, RequestPath, Service,
    Sharing, Storage, StripeOffset, Targets, Tier, TierCache, WriteLimits, Written,
};
pub use sync::{
    Averaging, Bucket, BucketShare, Fidelity, MessageCpu, Parameters, Reduction, Root, ServerPlace,
    Servers, Sync, Transport,
};
pub use uses::StorageUses;
pub use value::{Axis, Condition, Value};
pub use written::Setting;

/// Everything a run needs, already checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name, for reports and figures.
    pub name: String,
    /// Length, replications and seed of the run.
    pub run: Run,
    /// What the run simulates.
    pub fidelity: RunFidelity,
    /// Nodes and their network.
    pub cluster: Cluster,
    /// Storages that data sets are read from.
    pub storage: Vec<Storage>,
    /// Data sets that jobs read.
    pub datasets: Vec<Dataset>,
    /// Training jobs.
    pub jobs: Vec<Job>,
    /// Loads on storages that do not come from the jobs.
    pub background: Vec<Background>,
    /// Parts of the cluster that are slower than they should be, for a while.
    pub faults: Vec<Fault>,
    /// Keys whose numbers were measured.
    pub achieved: Vec<String>,
    /// What the cluster costs, if the scenario gives prices.
    pub prices: Option<Prices>,
    /// Remarks that a reader of results should know, one sentence each: settings without effect, and settings beyond the range
    /// that the profile's machine was measured at.
    pub remarks: Vec<String>,
    /// Notes on defaults that may differ from what the user expects.
    pub notes: Vec<String>,
    /// Keys that the file sets, and defaults of the keys that it leaves out.
    pub origins: Origins,
}

/// Length, replications and seed of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// When each job ends.
    pub stop: Stop,
    /// Warm-up: what to leave out at the beginning of each job.
    pub warm_up: WarmUp,
    /// Number of independent repetitions.
    pub replications: u32,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// What a run simulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunFidelity {
    /// Number of nodes of the sample that is simulated for all; `None` if all nodes are simulated.
    pub nodes: Option<u32>,
    /// Whether steps that repeat exactly are simulated.
    pub steady_state: SteadyState,
}

/// What becomes of steps that repeat the steps before them exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SteadyState {
    /// They are not simulated, because their results follow from those before.
    #[default]
    Skip,
    /// They are simulated.
    Simulate,
}

/// When a job ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stop {
    /// Each job ends after this many steps.
    Steps(u64),
    /// Each job ends after this many passes over its data set, possibly fractional. It runs the number of steps that this many
    /// fresh samples take, rounded up.
    Epochs(f64),
    /// Each job ends at this simulated time [s]; the step in progress is not counted.
    Duration(f64),
    /// Each job ends as soon as every job's throughput is known: as many samples enter its loader's buffers as leave them, and
    /// the half-width of its 95 % interval is at most `precision` of the mean. Each job ends after `most` events at the latest.
    Known {
        /// Maximum half-width of the interval ÷ mean.
        precision: f64,
        /// Maximum number of events of one replication.
        most: u64,
    },
}

/// Warm-up: what to leave out at the beginning of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// The number of steps that MSER-5 finds from the step times.
    Auto,
    /// The given number of steps.
    Steps(u64),
    /// Nothing is left out, because the transient is of interest.
    Off,
}

/// A load on a storage that does not come from the scenario's jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Background {
    /// Name, for reports.
    pub name: String,
    /// Index into [`Scenario::storage`].
    pub storage: usize,
    /// Transfers or requests that load the storage.
    pub load: BackgroundLoad,
}

/// Transfers or requests that load a storage. As for a job, the storage's operations, latency, per-stream cap and bandwidth limit
/// them; unlike a job, they use no node's NIC or cores.
#[derive(Debug, Clone, PartialEq)]
pub enum BackgroundLoad {
    /// Endless transfers, each as fast as sharing allows.
    Streams {
        /// Number of transfers that go on at once.
        streams: u32,
        /// Highest bandwidth of one transfer [B/s]; infinite if not given.
        cap: f64,
    },
    /// Requests that arrive as a Poisson process.
    Requests {
        /// Arrival rate [1/s].
        rate: f64,
        /// Size of a request [B].
        size: Distribution,
    },
}
