//! What the user says, checked: holding a [`Scenario`] means that it can be simulated.
//!
//! Everything here is plain data in SI units: seconds, bytes, bytes per second, operations per
//! second, core-seconds. Indices into the vectors of a scenario (`storage`, `datasets`) are in
//! range.
//!
//! # Example
//!
//! What is wrong in a file is refused with its line and what to write.
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
mod check;
pub mod cluster;
pub mod dataset;
pub mod distribution;
mod document;
mod fault;
mod field;
mod file;
mod idle;
pub mod job;
pub mod layout;
mod limits;
pub mod loader;
mod names;
mod number;
mod problem;
pub mod profile;
mod reader;
mod reading;
mod run;
mod settings;
pub mod storage;
mod sweep;
pub mod sync;
#[cfg(test)]
mod tests;
mod tiers;
mod unread;
mod value;

pub use assumed::{Assumed, Assumptions, default_in};
pub use cluster::{
    Cluster, Group, Intra, IntraKind, NicsAt, Node, PageCache, Power, Racks, Scheduling, Smt, Tree,
};
pub use dataset::{Dataset, Image, SampleOrder, SampleSizes};
pub use distribution::Distribution;
pub use fault::{Fault, Faulty, FaultyLink};
pub use file::ScenarioFile;
pub use job::{
    Accuracy, Arrivals, BatchInterval, Catalogue, Checkpoint, Context, Convert, CountedBatch,
    CpuUse, DecodedCache, Device, ENDLESS, Every, Expert, FailureTimes, Failures, Goal,
    InnerThreads, Job, Kernels, KeyExchange, Launch, Learners, Load, Members, Method, Parallelism,
    Pipeline, QueueKind, RealGpu, Replicas, Resume, Schedule, Share, Split, StageBucket, Staging,
    StepOf, StepTime, Swap, Tensor, Tuning, Writers,
};
pub use layout::{Framing, Layout, Ranges, RowGroups};
pub use loader::{
    Dealt, Generator, Kernel, NextEpoch, Operation, Order, Preset, Replaced, Requests, Stage,
    StageGraph, Unit,
};
pub use names::choose;
pub use problem::{Problem, Problems, printable, printable_line};
pub use reading::Reading;
pub use settings::schema;
pub use storage::{
    Access, CacheUnit, Location, Queues, ReadCpu, RequestLimit, RequestPath, Service, Storage,
    StripeOffset, Targets, Tier, TierCache, Written,
};
pub use sync::{
    Averaging, Bucket, BucketShare, Fidelity, MessageCpu, Parameters, Reduction, Root, ServerPlace,
    Servers, Sync, Transport,
};
pub use value::{Axis, Override, Value};

/// Everything a run needs, already checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Name, for reports and figures.
    pub name: String,
    /// How long to run, how often, from which seed.
    pub run: Run,
    /// The machines.
    pub cluster: Cluster,
    /// Where data sets are kept.
    pub storage: Vec<Storage>,
    /// What is read.
    pub datasets: Vec<Dataset>,
    /// Who trains.
    pub jobs: Vec<Job>,
    /// Who else uses the storage.
    pub background: Vec<Background>,
    /// What is slower than it should be, for a while.
    pub faults: Vec<Fault>,
    /// What a reader of results should know, one sentence each: settings without effect, and those
    /// beyond what the profile's machine was measured at.
    pub remarks: Vec<String>,
    /// What it takes that is not written.
    pub assumed: Assumptions,
}

/// How long to run, how often, from which seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// When each job ends.
    pub stop: Stop,
    /// What to leave out at the beginning of each job.
    pub warm_up: WarmUp,
    /// Independent repetitions.
    pub replications: u32,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// When a job ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stop {
    /// After this many steps of each job.
    Steps(u64),
    /// After this many passes of each job over its data set; may be a fraction. The number of
    /// steps is that of fresh samples, rounded up.
    Epochs(f64),
    /// At this simulated instant [s]: the step in progress is not counted.
    Duration(f64),
    /// As soon as every job's throughput is known: what goes into its buffers equals what comes out, and the half-width of
    /// its 95 % interval is at most `precision` of the mean. At the latest after `most` events.
    Known {
        /// Half-width of the interval ÷ mean.
        precision: f64,
        /// Events of one replication.
        most: u64,
    },
}

/// What to leave out at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// As much as MSER-5 on the step times says.
    Auto,
    /// This many steps.
    Steps(u64),
    /// Nothing: the transient is the question.
    Off,
}

/// A load on a storage that is not one of our jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Background {
    /// Name, for reports.
    pub name: String,
    /// Index into [`Scenario::storage`].
    pub storage: usize,
    /// What it asks.
    pub load: BackgroundLoad,
}

/// What a background load asks of a storage. It uses the storage's operations, latency, per-stream
/// cap and bandwidth as a job does, but no node's NIC or cores.
#[derive(Debug, Clone, PartialEq)]
pub enum BackgroundLoad {
    /// Endless transfers, each as fast as sharing allows.
    Streams {
        /// How many.
        streams: u32,
        /// Fastest that one may go [B/s]; infinite where not given.
        cap: f64,
    },
    /// Requests that arrive as a Poisson process.
    Requests {
        /// Arrival rate [1/s].
        rate: f64,
        /// Size of one [B].
        size: Distribution,
    },
}
