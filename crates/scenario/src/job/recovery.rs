//! How `job.checkpoint` and `job.failures` are written: what is lost when a node fails, and how that is
//! limited.

use super::Job;
use super::rules::Rules;
use super::settings::Around;
use super::{BatchInterval, QueueKind};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Amount, Count, Factor, Positive};
use crate::storage::Service;
use crate::{Dataset, Servers};
use forebay_model::units::{Size, Time};
use schemars::JsonSchema;

/// Least shape of failures' times: below, nearly all come at once or never.
const LEAST_SHAPE: f64 = 0.1;

/// What a job writes from time to time, to begin there again.
///
/// The state is that at the end of a step. Its bytes go from the nodes that write over what reads and
/// gradients use too; opening and creating files is not counted. Model copies that take each step together have the same
/// state, which is written once.
///
/// Where model copies go their own ways for a while, it is what they share, and after a failure all begin with it: of
/// local SGD the average after an exchange, which a checkpoint that is due waits for; of learners the last average of
/// their reference models, and steps after it are lost too. Servers write what they have: synchronous ones after an
/// exchange; of others each model copy goes on behind the last step that it had finished, whose push was added.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// How often.
    pub every: Every,
    /// Bytes of one, all nodes together [B].
    pub bytes: f64,
    /// Index into [`crate::Scenario::storage`].
    pub storage: usize,
    /// Whether the job trains while its last state is written.
    pub asynchronous: bool,
    /// For how long it does not train in any case: the state is copied aside [s].
    pub pause: f64,
    /// Who writes.
    pub writers: Writers,
}

/// How often a job writes a checkpoint: at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Every {
    /// The first one so long after the last checkpoint was written, or the job began [s].
    Seconds(f64),
    /// After so many steps.
    Steps(u64),
}

/// Who writes a checkpoint: nodes of the job, or the servers that have its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Writers {
    /// The first model copy: its node all of it, or its nodes what their GPUs hold; of shards each node has its own. Of
    /// servers the first one all of it; how it comes by what others have is not counted.
    First,
    /// All model copies an equal part: each node one, or of what its GPUs hold. Of servers each what it has.
    Each,
}

/// How nodes of a job fail, those of its servers among them. The job stops at once with all its model copies, and what
/// it did since its last checkpoint is lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Failures {
    /// When they do.
    pub when: FailureTimes,
    /// From a failure until the job trains again [s].
    pub restart: f64,
    /// Where it goes on to read.
    pub resume: Resume,
}

/// When nodes fail.
#[derive(Debug, Clone, PartialEq)]
pub enum FailureTimes {
    /// One of them at each of these times since the job began to train, ascending [s].
    At(Vec<f64>),
    /// Each by itself, after times of this mean and shape since it failed last: Weibull's, of shape 1
    /// exponential.
    Random {
        /// Mean [s].
        mtbf: f64,
        /// Shape: below 1 failures come in bursts, above 1 with age.
        shape: f64,
    },
}

/// Where a job goes on to read after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resume {
    /// With the first sample that its checkpoint has not trained on, and of those behind it the others that it has not:
    /// none is lost or trained on twice.
    Position,
    /// At the start of that sample's epoch: samplers whose state is not kept. What comes again is not fresh.
    Epoch,
}

/// What a job writes from time to time, to begin there again: `interval` or `steps`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointSettings {
    /// Time from the end of one checkpoint to the next, which begins at the end of a step.
    interval: Field<Positive<Time>>,
    /// Steps from one checkpoint to the next.
    steps: Field<Count<1, 1_000_000_000>>,
    /// Bytes of a checkpoint (default: the model's parameters and what `model.optimizer` keeps for each).
    bytes: Field<Positive<Size>>,
    /// Name of the storage that it is written to (default: the job's).
    storage: Field<String>,
    /// Whether the job trains while its last state is written (default: false).
    asynchronous: Field<bool>,
    /// For how long it does not train in any case, because the state is copied aside (default: 0 s).
    pause: Field<Amount<Time>>,
    /// Who writes: "first", the nodes of the first model copy, or "each" node, an equal part of what all have. Where a model
    /// is split over nodes, each writes of what its GPUs hold, and all write their shards. Of servers the first one writes,
    /// or each what it has (default: "first", or "each" beside parameter servers).
    writers: Field<Writers>,
}

/// How nodes of a job fail: `mtbf` or `at`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailureSettings {
    /// Mean time between failures of a node.
    mtbf: Field<Positive<Time>>,
    /// Shape of these times, as Weibull's: 1 for failures that come at any time alike, below 1 for such that
    /// come in bursts (default: 1).
    shape: Field<Factor>,
    /// Times at which one of its nodes fails, since it first began to train (after staging), ascending.
    at: Field<List<Amount<Time>>>,
    /// From a failure until the job trains again.
    #[schemars(required)]
    restart: Field<Amount<Time>>,
    /// Where it goes on to read: "position", where its checkpoint was, or "epoch", at the start of that epoch
    /// (default: "position").
    resume: Field<Resume>,
}

/// What checkpoints are of: a job on this storage, and the servers that have its parameters.
pub(super) struct Of<'s> {
    pub(super) storage: Option<usize>,
    pub(super) servers: Option<&'s Servers>,
    /// Bytes of the model's parameters and its optimizer's values; 0 where they are not known [B].
    pub(super) state: f64,
}

impl Job {
    /// Nodes whose failure stops a copy of it: its own, and those of its servers.
    #[must_use]
    pub fn failing_nodes(&self) -> u32 {
        self.nodes.saturating_add(self.servers().map_or(0, Servers::own_nodes))
    }
}

impl CheckpointSettings {
    /// The checked settings of the table at node `at`.
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
            let what = format!("how fast {:?} is written to is not known", storage.name);
            let remedy = "name another `storage` for checkpoints";
            check.wrong(self.storage.at.unwrap_or(at), what, remedy);
        }
    }

    /// Servers on nodes of their own reach the storage.
    fn check_reach(&self, check: Check<'_>, at: NodeId, around: Around<'_>, storage: usize) {
        let storage = around.storage.get(storage).and_then(Option::as_ref);
        if let Some(storage) = storage.filter(|of| !of.path.is_remote()) {
            let what = format!(
                "servers on nodes of their own write checkpoints, and {:?} is on the job's",
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
    /// The checked settings of the table at node `at`.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Failures> {
        let remedy = "write `restart = \"2 min\"`";
        let restart = check.required(at, &self.restart, "restart", remedy);
        let choices = [("mtbf", self.mtbf.at), ("at", self.at.at)];
        let remedy = "write `mtbf = \"1000 h\"` or `at = [\"10 min\"]`";
        let when = match check.one_of(at, &choices, remedy)? {
            0 => FailureTimes::Random { mtbf: self.mtbf.get()?.0, shape: self.shape(check)? },
            _ => {
                check.no_effect(&self.shape, "it belongs to `mtbf`, and the times are written");
                FailureTimes::At(self.times(check)?)
            }
        };
        let resume = self.resume.get().copied().unwrap_or(Resume::Position);
        Some(Failures { when, restart: restart?.0, resume })
    }

    fn shape(&self, check: Check<'_>) -> Option<f64> {
        let Some((at, Factor(shape))) = self.shape.given() else { return Some(1.0) };
        if !(LEAST_SHAPE..=100.0).contains(shape) {
            let what = format!("failures of shape {shape} come all at once");
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
            check.wrong(at, "no time of a failure is written", remedy);
            return None;
        }
        if let Some(pair) = times.windows(2).find(|pair| pair[0] >= pair[1]) {
            let what = format!("{} s does not come after {} s", pair[1], pair[0]);
            check.wrong(at, what, "write times that become later");
            return None;
        }
        Some(times)
    }
}

impl Rules<'_> {
    /// Which model copies write matters where several nodes have the same.
    pub(super) fn remark_writers(&self, job: &Job) {
        if let (Some(settings), false) = (self.settings.checkpoint.get(), job.has_copies_of_state())
        {
            let why = "no two nodes have the same to write";
            self.check.no_effect(&settings.writers, why);
        }
    }

    /// Which samples of its files are left when some batches of an epoch were trained on is known if these are alike, or
    /// come in order.
    fn check_batches_that_fail(&self, job: &Job) {
        let Some(requests) = job.loader.requests.filter(|_| job.failures.is_some()) else { return };
        let apart = job.ranks_may_diverge() && job.models_per_loader() > 1;
        let dataset = self.around.datasets.get(job.dataset).and_then(Option::as_ref);
        let mixes = |of: &&Dataset| {
            let rest = || job.samples_of_epoch(of).into_iter().any(|own| own % job.batch > 0);
            job.batch > 0 && !requests.drop_last && !of.layout.is_by_sample() && rest()
        };
        if dataset.is_some_and(|of| mixes(&of)) && (!requests.in_order || apart) {
            let what =
                "a job that fails is not simulated where smaller batches of files overtake others";
            let remedy = "write `drop_last = true` in the `loader`, or remove `failures`";
            self.check.wrong(self.check.blame(&[self.settings.failures.at], self.at), what, remedy);
        }
    }

    /// A job that fails can be set back to where it was.
    pub(super) fn check_recovery(&self, job: &Job) {
        let written = [self.settings.failures.at, self.settings.checkpoint.at];
        if job.failures.is_none() && job.checkpoint.is_none() {
            return;
        }
        let requests = job.loader.requests.as_ref();
        let unlike = [
            (job.queue == QueueKind::Circular, "its queue is circular"),
            (requests.is_some_and(|r| r.iterable), "its workers have files of their own"),
        ];
        let why = unlike.iter().find(|(is, _)| *is).map(|(_, why)| why);
        if let (Some(why), true) = (why, job.failures.is_some()) {
            let what = format!("a job that fails is not simulated where {why}");
            self.check.wrong(self.check.blame(&written, self.at), what, "remove `failures`");
        }
        self.check_batches_that_fail(job);
        let replays = job.failures.as_ref().is_some_and(|f| f.resume == Resume::Epoch);
        if replays && matches!(job.batch_interval, BatchInterval::Adaptive { .. }) {
            let what = "what comes again of an epoch is not counted in adaptive intervals";
            let at = self.settings.batch_interval.at;
            self.check.wrong(self.check.blame(&[at], self.at), what, "write a number of steps");
        }
    }
}
