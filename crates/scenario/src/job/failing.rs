//! Settings `job.failures`: how a job's nodes fail, and what it loses with them.

use super::BatchInterval;
use super::Job;
use super::rules::Rules;
use crate::Servers;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Amount, Count, Factor, Positive};
use crate::role::Role;
use forebay_model::units::{LongTime, Time};
use schemars::JsonSchema;

/// Smallest Weibull shape of the times between failures: with a smaller one, nearly all failures come at once or never.
const LEAST_SHAPE: f64 = 0.1;

/// How nodes of a job fail, including the nodes of its parameter servers. A failure stops all model copies of the job
/// at once, and what they did since the last checkpoint is lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Failures {
    /// When nodes fail.
    pub when: FailureTimes,
    /// Time from a failure until the job trains again, or until it reads the checkpoint back [s].
    pub restart: f64,
    /// Whether the job's ranks or parameter servers read the checkpoint back before the job trains again.
    pub reads_back: bool,
    /// What happens to a node that fails.
    pub node: FailedNode,
    /// Node of the job that fails at each of [`FailureTimes::At`]; empty if each is drawn at random.
    pub nodes: Vec<u32>,
    /// Where in the data set the job resumes reading.
    pub resume: Resume,
}

/// What happens to a node that fails. It matters where checkpoints are on storages inside the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailedNode {
    /// Another node takes its place, and the files on its own disks are lost. If it had written a part of the job's checkpoints
    /// there, none of them is complete any more, and the job begins again at step 0.
    Replaced,
    /// It starts again with the files on its disks; what was in its memory is lost.
    Restarted,
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

/// How nodes of a job fail: at random, with a mean time `mtbf`, or at the times `at`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailureSettings {
    /// Mean time between failures of a node; may be longer than the run.
    #[schemars(extend("x-role" = Role::Limit))]
    mtbf: Field<Positive<LongTime>>,
    /// Weibull shape of the times between failures: 1 for failures that are equally likely at any time, below 1 for
    /// failures that come in bursts (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    shape: Field<Factor>,
    /// Times at which one of the job's nodes fails, counted from when the job first began to train (after staging),
    /// ascending.
    #[schemars(extend("x-role" = Role::Identity))]
    at: Field<List<Amount<Time>>>,
    /// Time from a failure until the job trains again; with `read_back`, until its nodes begin to read the checkpoint.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    restart: Field<Amount<Time>>,
    /// Whether each rank, or each parameter server, reads its state from the last checkpoint before the job trains again, in a
    /// stream of its own over the links that data and gradients use too (default: false).
    #[schemars(extend("x-role" = Role::Choice))]
    read_back: Field<bool>,
    /// What happens to a node that fails: "replaced", another node takes its place and the files on its own disks are lost, or
    /// "restarted", it keeps them. It matters where checkpoints are written to storages inside the nodes: without the failed node's
    /// part no checkpoint is complete, and the job begins again at step 0 (default: "replaced").
    #[schemars(extend("x-role" = Role::Choice))]
    node: Field<FailedNode>,
    /// Which node of the job fails at each time in `at`, counted from 0; it matters where only some nodes have parts of the
    /// checkpoints (default: a node drawn at random each time).
    #[schemars(extend("x-role" = Role::Identity))]
    nodes: Field<List<Count<0, 1_000_000_000>>>,
    /// Where in the data set the job resumes reading after a failure: "position", at the position in the data set that
    /// the checkpoint had reached, or "epoch", at the start of that position's epoch (default: "position").
    #[schemars(extend("x-role" = Role::Choice))]
    resume: Field<Resume>,
}

impl Job {
    /// Returns the number of nodes whose failure stops a copy of the job: its own nodes, and those of its parameter
    /// servers.
    #[must_use]
    pub fn failing_nodes(&self) -> u32 {
        self.nodes.saturating_add(self.servers().map_or(0, Servers::own_nodes))
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
                check.no_effect(self.shape.at, "it is used only with `mtbf`");
                FailureTimes::At(self.times(check)?)
            }
        };
        let nodes = self.nodes(check, &when)?;
        let node = self.node.get().copied().unwrap_or(FailedNode::Replaced);
        let resume = self.resume.get().copied().unwrap_or(Resume::Position);
        let reads_back = self.read_back.get().copied().unwrap_or(false);
        Some(Failures { when, restart: restart?.0, reads_back, node, nodes, resume })
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

    /// Returns the nodes that fail at the given times; `None` if they are wrong.
    fn nodes(&self, check: Check<'_>, when: &FailureTimes) -> Option<Vec<u32>> {
        let Some((at, list)) = self.nodes.given() else { return Some(Vec::new()) };
        let FailureTimes::At(times) = when else {
            check.no_effect(self.nodes.at, "with `mtbf` each node fails at times of its own");
            return Some(Vec::new());
        };
        let nodes: Option<Vec<u32>> = list.0.iter().map(|of| Some(of.get()?.small())).collect();
        let nodes = nodes?;
        if nodes.len() != times.len() {
            let (given, wanted) = (counted(nodes.len(), "node"), counted(times.len(), "time"));
            let example = vec!["0"; times.len().min(8)].join(", ");
            let more = if times.len() > 8 { ", …" } else { "" };
            let remedy =
                format!("write one node for each time, such as `nodes = [{example}{more}]`");
            check.wrong(at, format!("{given} for {wanted} in `at`"), remedy);
            return None;
        }
        Some(nodes)
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

/// Returns a number with the noun `one` in the singular or plural: `1 node`, `2 nodes`.
fn counted(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

impl Rules<'_> {
    /// Remarks that `read_back` has no effect for a job that writes no checkpoints.
    pub(super) fn remark_read_back(&self, job: &Job) {
        if let (Some(settings), None) = (self.settings.failures.get(), &job.checkpoint) {
            self.check.no_effect(settings.read_back.at, "the job writes no checkpoints");
        }
    }

    /// Remarks that failed nodes take checkpoints with them, or that it does not matter which node fails, or whether it is replaced,
    /// because no checkpoint is on it.
    pub(super) fn remark_failed_node(&self, job: &Job) {
        let Some(settings) = self.settings.failures.get() else { return };
        let storage = job.checkpoint.as_ref().map(|checkpoint| checkpoint.storage);
        let of = storage.and_then(|index| self.around.storage.get(index)?.as_ref());
        if let (Some(of), Some(checkpoint), Some(failures)) = (of, &job.checkpoint, &job.failures)
            && checkpoint.is_lost_with_nodes(of, failures.node)
        {
            let remedy = match of.path.is_memory() {
                true => "",
                false => " or, if a failed node keeps its disks, `failures.node = \"restarted\"`",
            };
            self.check.remark(format!(
                "Checkpoints of `{}` go to {:?}, inside its nodes: after the failure of a node with a part of them it begins again at \
                 step 0. Write a `checkpoint.storage` that is reached over the network{remedy}.",
                job.name, of.name
            ));
        }
        let why = match of {
            None => "the job writes no checkpoints",
            Some(of) if of.path.is_remote() => "checkpoints are not on the job's nodes",
            Some(of) if of.path.is_memory() => {
                let why = "what is in a node's memory is lost in any case";
                return self.check.no_effect(settings.node.at, why);
            }
            Some(_) if settings.mtbf.is_written() => return,
            Some(_) if settings.node.get() == Some(&FailedNode::Restarted) => {
                return self.check.no_effect(settings.nodes.at, "a restarted node keeps its files");
            }
            Some(_) => return,
        };
        self.check.no_effect(settings.node.at, why);
        // With `mtbf`, `nodes` has no effect on any storage, which is said elsewhere.
        if !settings.mtbf.is_written() {
            self.check.no_effect(settings.nodes.at, why);
        }
    }

    /// Checks that the nodes that fail are nodes of the job.
    fn check_failed_nodes(&self, job: &Job) {
        let Some(failures) = &job.failures else { return };
        if let Some(node) = failures.nodes.iter().find(|node| **node >= job.failing_nodes()) {
            let at = self.settings.failures.get().and_then(|settings| settings.nodes.at);
            let number = job.failing_nodes();
            let what =
                format!("node {node} fails, and the job has {}", counted(number as usize, "node"));
            let remedy = match number {
                1 => "write 0".to_owned(),
                _ => format!("write numbers from 0 to {}", number - 1),
            };
            self.check.wrong(at.unwrap_or(self.at), what, remedy);
        }
    }

    /// Checks that the nodes that fail are the job's, and that the steps that it repeats after a failure can be counted.
    pub(super) fn check_recovery(&self, job: &Job) {
        self.check_failed_nodes(job);
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
