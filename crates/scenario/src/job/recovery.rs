//! Settings `job.checkpoint` and `job.failures`: what a job loses when a node fails, and how checkpoints limit the
//! loss.

use super::BatchInterval;
use super::Job;
use super::rules::Rules;
use super::settings::Around;
use crate::Servers;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Amount, Count, Factor, Positive};
use crate::storage::Service;
use forebay_model::units::{LongTime, Size, Time};
use schemars::JsonSchema;

/// Smallest Weibull shape of the times between failures: with a smaller one, nearly all failures come at once or never.
const LEAST_SHAPE: f64 = 0.1;

/// Checkpoints that a job writes from time to time, and from which it resumes after a failure.
///
/// A checkpoint is the state at the end of a step. Its bytes go from the writing nodes over the same links as reads and
/// gradients; opening and creating files is not counted. Model copies that take each step together have the same state,
/// which is written once.
///
/// Where model copies diverge between exchanges, the state that they share is written, and after a failure all of them
/// begin with it. With local SGD this is the average after an exchange; a checkpoint that is due waits for the next
/// exchange. With learners it is the last average of their reference models; the steps after that average are lost too.
/// Parameter servers write the parameters that they hold. Synchronous servers do so after an exchange. With other
/// servers, each model copy resumes after the last step that it had finished when the checkpoint began; the servers had
/// already added this step's push.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// How often a checkpoint is written.
    pub every: Every,
    /// Size of one checkpoint, all nodes together [B].
    pub bytes: f64,
    /// Index of the storage that checkpoints are written to, in [`crate::Scenario::storage`].
    pub storage: usize,
    /// Whether the job goes on training while a checkpoint is written.
    pub asynchronous: bool,
    /// Time for which training stops at every checkpoint, even an asynchronous one, because the state is first copied
    /// aside [s].
    pub pause: f64,
    /// Which nodes or parameter servers write a checkpoint.
    pub writers: Writers,
}

/// How often a job writes a checkpoint; each one begins at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Every {
    /// Time from the end of the last checkpoint, or from the start of the job, until the next checkpoint is due [s].
    Seconds(f64),
    /// Number of steps from one checkpoint to the next.
    Steps(u64),
}

/// Which nodes of the job, or which of its parameter servers, write a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Writers {
    /// The nodes of the first model copy write: a single node writes all of the state, and each of several nodes writes
    /// what its GPUs hold. ZeRO shards are written by each node that holds them. With parameter servers, the first
    /// server writes everything; how it gets the parameters of the other servers is not counted.
    First,
    /// All model copies write an equal part of the state: each node writes a part of the whole, or of what its GPUs
    /// hold. With parameter servers, each server writes the parameters that it holds.
    Each,
}

/// How nodes of a job fail, including the nodes of its parameter servers. A failure stops all model copies of the job
/// at once, and what they did since the last checkpoint is lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Failures {
    /// When nodes fail.
    pub when: FailureTimes,
    /// Time from a failure until the job trains again, or until it reads the checkpoint back [s].
    pub restart: f64,
    /// Whether the job's nodes or parameter servers read the checkpoint back before the job trains again.
    pub reads_back: bool,
    /// Where in the data set the job resumes reading.
    pub resume: Resume,
}

/// When nodes fail.
#[derive(Debug, Clone, PartialEq)]
pub enum FailureTimes {
    /// Times at which one of the nodes fails, counted from when the job began to train, ascending [s].
    At(Vec<f64>),
    /// Each node fails independently. The times between its failures follow a Weibull distribution; with shape 1 they
    /// are exponential.
    Random {
        /// Mean time between failures of a node [s].
        mtbf: f64,
        /// Weibull shape: below 1, failures come in bursts; above 1, they become likelier with age.
        shape: f64,
    },
}

/// Where in the data set a job resumes reading after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// Reading resumes at the first sample that the state of the checkpoint was not trained on. Later samples that this
    /// state was trained on are skipped, so that no sample is lost or trained on twice. Samples that were overwritten in a
    /// circular queue before the checkpoint began do not come again either.
    Position,
    /// Reading resumes at the start of the epoch of the first sample that the state of the checkpoint was not trained
    /// on, as with samplers whose state is not saved. Samples that are read again do not count as fresh.
    Epoch,
}

/// Checkpoints that a job writes from time to time, and from which it resumes after a failure: after each `interval` or
/// number of `steps`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointSettings {
    /// Time from the end of one checkpoint until the next is due; a checkpoint begins at the end of a step.
    interval: Field<Positive<Time>>,
    /// Steps from the state that one checkpoint has to that of the next.
    steps: Field<Count<1, 1_000_000_000>>,
    /// Bytes of a checkpoint (default: the model's parameters, and the values that `model.optimizer` keeps for each
    /// parameter).
    bytes: Field<Positive<Size>>,
    /// Name of the storage that checkpoints are written to (default: the storage of the job's data set).
    storage: Field<String>,
    /// Whether the job goes on training while a checkpoint is written (default: false).
    asynchronous: Field<bool>,
    /// Time for which training stops at every checkpoint, even an asynchronous one, because the state is first copied
    /// aside (default: 0 s).
    pause: Field<Amount<Time>>,
    /// Which nodes write a checkpoint: "first", the nodes of the first model copy, or "each", all nodes, an equal part
    /// each. Where a model is split over nodes, each node writes what its GPUs hold, and its own ZeRO shards. With
    /// parameter servers, "first" is the first server, and "each" all servers, each with the parameters that it holds
    /// (default: "first", or "each" beside parameter servers).
    writers: Field<Writers>,
}

/// How nodes of a job fail: at random, with a mean time `mtbf`, or at the times `at`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailureSettings {
    /// Mean time between failures of a node; may be longer than the run.
    mtbf: Field<Positive<LongTime>>,
    /// Weibull shape of the times between failures: 1 for failures that are equally likely at any time, below 1 for
    /// failures that come in bursts (default: 1).
    shape: Field<Factor>,
    /// Times at which one of the job's nodes fails, counted from when the job first began to train (after staging),
    /// ascending.
    at: Field<List<Amount<Time>>>,
    /// Time from a failure until the job trains again; with `read_back`, until its nodes begin to read the checkpoint.
    #[schemars(required)]
    restart: Field<Amount<Time>>,
    /// Whether each node, or each parameter server, reads its state from the last checkpoint before the job trains again, over
    /// the links that data and gradients use too (default: false).
    read_back: Field<bool>,
    /// Where in the data set the job resumes reading after a failure: "position", at the position in the data set that
    /// the checkpoint had reached, or "epoch", at the start of that position's epoch (default: "position").
    resume: Field<Resume>,
}

/// Facts that the settings of checkpoints depend on: the job's storage, its parameter servers, and the size of its
/// state.
pub(super) struct Of<'s> {
    pub(super) storage: Option<usize>,
    pub(super) servers: Option<&'s Servers>,
    /// Bytes of the model's parameters and its optimizer's values; 0 where they are not known [B].
    pub(super) state: f64,
}

impl Job {
    /// Returns the number of nodes whose failure stops a copy of the job: its own nodes, and those of its parameter
    /// servers.
    #[must_use]
    pub fn failing_nodes(&self) -> u32 {
        self.nodes.saturating_add(self.servers().map_or(0, Servers::own_nodes))
    }
}

impl CheckpointSettings {
    /// Returns the checked settings of the table at document node `at`; `None` if they are wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        around: Around<'_>,
        of: Of<'_>,
    ) -> Option<Checkpoint> {
        let choices = [("interval", self.interval.at), ("steps", self.steps.at)];
        let remedy = "write `interval = \"10 min\"` or `steps = 1000`";
        let every = match check.one_of(at, &choices, remedy)? {
            0 => Every::Seconds(self.interval.get()?.0),
            _ => Every::Steps(self.steps.get()?.0),
        };
        let storage = match self.storage.is_written() {
            true => check.reference(&self.storage, "storage", around.storage_names)?,
            false => of.storage?,
        };
        self.check_storage(check, at, around, storage);
        if of.servers.is_some_and(|servers| servers.own_nodes() > 0) {
            self.check_reach(check, at, around, storage);
        }
        let (usual, name) = match of.servers {
            Some(_) => (Writers::Each, "\"each\""),
            None => (Writers::First, "\"first\""),
        };
        if !self.writers.is_written() {
            check.assume(at, "writers", name, "forebay");
        }
        Some(Checkpoint {
            every,
            bytes: self.bytes(check, at, of.state)?,
            storage,
            asynchronous: self.asynchronous.get().copied().unwrap_or(false),
            pause: self.pause.get().map_or(0.0, |pause| pause.0),
            writers: self.writers.get().copied().unwrap_or(usual),
        })
    }

    fn check_storage(&self, check: Check<'_>, at: NodeId, around: Around<'_>, storage: usize) {
        let storage = around.storage.get(storage).and_then(Option::as_ref);
        if let Some(storage) = storage.filter(|of| of.path.service != Service::Link) {
            let what = format!("the write bandwidth of {:?} is not known", storage.name);
            let remedy = "name another `storage` for checkpoints";
            check.wrong(self.storage.at.unwrap_or(at), what, remedy);
        }
    }

    /// Reports an error if the storage for checkpoints is inside the job's nodes, because parameter servers on nodes of
    /// their own cannot reach it.
    fn check_reach(&self, check: Check<'_>, at: NodeId, around: Around<'_>, storage: usize) {
        let storage = around.storage.get(storage).and_then(Option::as_ref);
        if let Some(storage) = storage.filter(|of| !of.path.is_remote()) {
            let what = format!(
                "servers on nodes of their own write checkpoints, but {:?} is on the job's nodes",
                storage.name
            );
            let remedy = "name a `storage` for checkpoints that is reached over the network, or write \
                          `server.placement = \"with-workers\"`";
            check.wrong(self.storage.at.unwrap_or(at), what, remedy);
        }
    }

    fn bytes(&self, check: Check<'_>, at: NodeId, state: f64) -> Option<f64> {
        if let Some(bytes) = self.bytes.get() {
            return Some(bytes.0);
        }
        if state <= 0.0 && !self.bytes.is_written() {
            let what = "the key `bytes` is missing, and the model's parameters are not known";
            let remedy = "write `bytes = \"1 GB\"`, or a `model.catalogue`";
            check.wrong(at, what, remedy);
            return None;
        }
        Some(state)
    }
}

impl FailureSettings {
    /// Returns the checked settings of the table at document node `at`; `None` if they are wrong.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Failures> {
        let remedy = "write `restart = \"2 min\"`";
        let restart = check.required(at, &self.restart, "restart", remedy);
        let choices = [("mtbf", self.mtbf.at), ("at", self.at.at)];
        let remedy = "write `mtbf = \"1000 h\"` or `at = [\"10 min\"]`";
        let when = match check.one_of(at, &choices, remedy)? {
            0 => FailureTimes::Random { mtbf: self.mtbf.get()?.0, shape: self.shape(check)? },
            _ => {
                check.no_effect(&self.shape, "it is used only with `mtbf`");
                FailureTimes::At(self.times(check)?)
            }
        };
        let resume = self.resume.get().copied().unwrap_or(Resume::Position);
        let reads_back = self.read_back.get().copied().unwrap_or(false);
        Some(Failures { when, restart: restart?.0, reads_back, resume })
    }

    fn shape(&self, check: Check<'_>) -> Option<f64> {
        let Some((at, Factor(shape))) = self.shape.given() else { return Some(1.0) };
        if !(LEAST_SHAPE..=100.0).contains(shape) {
            let what = format!("the shape {shape} is out of range");
            check.wrong(at, what, format!("write a number from {LEAST_SHAPE} to 100"));
            return None;
        }
        Some(*shape)
    }

    fn times(&self, check: Check<'_>) -> Option<Vec<f64>> {
        let (at, list) = self.at.given()?;
        let times: Option<Vec<f64>> = list.0.iter().map(|time| time.get().map(|t| t.0)).collect();
        let times = times?;
        if times.is_empty() {
            let remedy = "write `at = [\"10 min\"]`, or remove `failures`";
            check.wrong(at, "the list of failure times is empty", remedy);
            return None;
        }
        if let Some(pair) = times.windows(2).find(|pair| pair[0] >= pair[1]) {
            let what = format!("{} s is not later than {} s before it", pair[1], pair[0]);
            check.wrong(at, what, "write times in ascending order");
            return None;
        }
        Some(times)
    }
}

impl Rules<'_> {
    /// Remarks that `writers` has no effect where no two nodes hold the same state.
    pub(super) fn remark_writers(&self, job: &Job) {
        if let (Some(settings), false) = (self.settings.checkpoint.get(), job.has_copies_of_state())
        {
            let why = "no two nodes have the same state to write";
            self.check.no_effect(&settings.writers, why);
        }
    }

    /// Remarks that `read_back` has no effect for a job that writes no checkpoints.
    pub(super) fn remark_read_back(&self, job: &Job) {
        if let (Some(settings), None) = (self.settings.failures.get(), &job.checkpoint) {
            self.check.no_effect(&settings.read_back, "the job writes no checkpoints");
        }
    }

    /// Checks that the steps that a job repeats after a failure can be counted.
    pub(super) fn check_recovery(&self, job: &Job) {
        let replays = job.failures.as_ref().is_some_and(|f| f.resume == Resume::Epoch);
        if replays && matches!(job.batch_interval, BatchInterval::Adaptive { .. }) {
            let what = "batches that are repeated after a failure are not counted in an adaptive `batch_interval`";
            let at = self.settings.batch_interval.at;
            self.check.wrong(
                self.check.blame(&[at], self.at),
                what,
                "write `batch_interval` as a number of steps",
            );
        }
    }
}
