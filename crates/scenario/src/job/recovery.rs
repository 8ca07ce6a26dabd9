//! Settings `job.checkpoint`: how checkpoints limit what a job loses when a node fails.

use super::failing::FailedNode;
use super::rules::Rules;
use super::settings::Around;
use super::{Device, Job};
use crate::Servers;
use crate::Storage;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Positive};
use crate::role::Role;
use crate::storage::Service;
use forebay_model::units::{Bandwidth, Size, Time};
use schemars::JsonSchema;

/// Checkpoints that a job writes from time to time, and from which it resumes after a failure.
///
/// A checkpoint is the state at the end of a step. Its bytes go from the writing ranks over the same links as reads and
/// gradients; opening and creating files is not counted. Model copies that take each step together have the same state,
/// which is written once.
///
/// On a storage inside the job's nodes, each node keeps what its own ranks write, and reads that back after a failure; how ranks
/// exchange the rest is not counted.
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
    /// What happens to an asynchronous checkpoint that falls due while an earlier one is not yet written.
    pub when_busy: WhenBusy,
    /// Time for which training stops at every checkpoint, even an asynchronous one, because the state is first copied
    /// aside [s].
    pub pause: f64,
    /// What `pause` is for asynchronous checkpoints if the scenario does not set it: the time in which the GPU with the largest part of
    /// the state copies it into its node's memory [s].
    pub copying: f64,
    /// Which ranks or parameter servers write a checkpoint.
    pub writers: Writers,
    /// Highest rate at which one of them writes its part [B/s]; may be infinite.
    pub per_writer: f64,
}

/// How often a job writes a checkpoint; each one begins at the end of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Every {
    /// Time from when training went on after the last checkpoint, or from the start of the job, until the next checkpoint is due
    /// [s]. Training goes on when a checkpoint is written or, if it is asynchronous, when its state is copied aside.
    Seconds(f64),
    /// Number of steps from one checkpoint to the next.
    Steps(u64),
}

/// What happens to an asynchronous checkpoint that falls due while an earlier one is not yet written. No checkpoint is left
/// out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenBusy {
    /// Training waits until the earlier one is written, and then the new one begins: TorchTitan waits so for its last
    /// asynchronous save (`CheckpointManager._async_wait`, torchtitan/components/checkpoint.py).
    Wait,
    /// The state is copied aside at once, and is written after the earlier ones: Lightning's `AsyncCheckpointIO` hands
    /// checkpoints to one thread (`ThreadPoolExecutor(max_workers=1)`, lightning/pytorch/plugins/io/async_plugin.py).
    Queue,
    /// The state is copied aside at once, and is written beside the earlier ones: Megatron-LM warns and starts
    /// (`save_checkpoint`, megatron/training/checkpointing.py: "Starting a checkpoint save before previous has finished").
    Together,
}

/// Which ranks of the job, or which of its parameter servers, write a checkpoint. Each writes a file of its own in a stream of its
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Writers {
    /// The ranks of the first model copy write: a single rank writes all of the state, and each of several ranks (GPUs)
    /// writes what its GPU holds. ZeRO shards are written by each rank that holds them. With parameter servers, the first
    /// server writes everything; how it gets the parameters of the other servers is not counted.
    First,
    /// The ranks of all model copies write: each an equal part of the whole, or of what its GPU holds, as with PyTorch's
    /// distributed checkpoints. With parameter servers, each server writes the parameters that it holds.
    Each,
}

/// Checkpoints that a job writes from time to time, and from which it resumes after a failure: after each `interval` or
/// number of `steps`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointSettings {
    /// Time from when training goes on after one checkpoint until the next is due: from when the checkpoint is written or, if it
    /// is `asynchronous`, from when its state is copied aside. A checkpoint begins at the end of a step.
    #[schemars(extend("x-role" = Role::Choice))]
    interval: Field<Positive<Time>>,
    /// Steps from the state that one checkpoint has to that of the next.
    #[schemars(extend("x-role" = Role::Choice))]
    steps: Field<Count<1, 1_000_000_000>>,
    /// Bytes of a checkpoint (default: the model's parameters, and the values that `model.optimizer` keeps for each
    /// parameter).
    #[schemars(extend("x-role" = Role::Limit))]
    bytes: Field<Positive<Size>>,
    /// Name of the storage that checkpoints are written to (default: the storage of the job's data set).
    #[schemars(extend("x-role" = Role::Choice))]
    storage: Field<String>,
    /// Whether the job goes on training while a checkpoint is written (default: false).
    #[schemars(extend("x-role" = Role::Choice))]
    asynchronous: Field<bool>,
    /// What happens to an `asynchronous` checkpoint that falls due while an earlier one is not yet written; none is left out.
    /// "wait": training waits until the earlier one is written, as with TorchTitan; "queue": the state is copied aside and
    /// waits its turn, as with Lightning's `AsyncCheckpointIO`; "together": both are written at the same time, as Megatron-LM
    /// does, with a warning. Copied states take memory of the nodes (default: "wait").
    #[schemars(extend("x-role" = Role::Choice))]
    when_busy: Field<WhenBusy>,
    /// Time for which training stops at every checkpoint, even an asynchronous one, because the state is first copied
    /// aside (default: 0 s; of an asynchronous checkpoint, the time in which each GPU copies what it holds of the state into its
    /// node's memory, at `cluster.node.pcie`).
    #[schemars(extend("x-role" = Role::Limit))]
    pause: Field<Amount<Time>>,
    /// Which ranks write a checkpoint, each in a stream and a file of its own: "first", one rank or, where a model is split
    /// over GPUs, those of the first model copy, each what its GPU holds; or "each", all ranks, an equal part each, as
    /// PyTorch's distributed checkpoints (DCP) do with replicas. Each rank writes its own ZeRO shards. With parameter
    /// servers, "first" is the first server, and "each" all servers, each with the parameters that it holds (default:
    /// "first", or "each" beside parameter servers).
    #[schemars(extend("x-role" = Role::Choice))]
    writers: Field<Writers>,
    /// Highest rate at which one rank or server writes its part, whatever the storage can do: serialising, checksums, a single thread
    /// (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_writer: Field<Positive<Bandwidth>>,
}

/// Facts that the settings of checkpoints depend on: the job's storage, its parameter servers, and the size of its
/// state.
pub(super) struct Of<'s> {
    pub(super) storage: Option<usize>,
    pub(super) servers: Option<&'s Servers>,
    /// Bytes of the model's parameters and its optimizer's values; 0 where they are not known [B].
    pub(super) state: f64,
}

impl Checkpoint {
    /// Returns whether a failed node takes the parts with it that it has written to `storage`.
    #[must_use]
    pub fn is_lost_with_nodes(&self, storage: &Storage, node: FailedNode) -> bool {
        let kept = node == FailedNode::Restarted && !storage.path.is_memory();
        !storage.path.is_remote() && !kept
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
        let asynchronous = self.asynchronous.get().copied().unwrap_or(false);
        if !asynchronous {
            let why =
                "training waits until each checkpoint is written, unless `asynchronous = true`";
            check.no_effect(self.when_busy.at, why);
        }
        Some(Checkpoint {
            every,
            bytes: self.bytes(check, at, of.state)?,
            storage,
            asynchronous,
            when_busy: self.when_busy.get().copied().unwrap_or(WhenBusy::Wait),
            pause: self.pause.get().map_or(0.0, |pause| pause.0),
            copying: 0.0,
            writers: self.writers.get().copied().unwrap_or(usual),
            per_writer: self.per_writer.get().map_or(f64::INFINITY, |rate| rate.0),
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

impl Rules<'_> {
    /// Sets how long training stops while GPUs copy the state of a checkpoint into their nodes' memory, unless the scenario says it.
    /// PyTorch's `async_save`, for one, copies the whole state of each rank before it returns
    /// (torch/distributed/checkpoint/state_dict_saver.py).
    pub(super) fn copy_state_aside(&self, job: &mut Job) {
        let (Some((at, settings)), Some(cluster)) =
            (self.settings.checkpoint.given(), self.around.cluster)
        else {
            return;
        };
        let out_of_core =
            self.settings.model.get().is_some_and(|model| model.out_of_core.get() == Some(&true));
        let in_memory = job.device != Device::Accelerator || job.servers().is_some() || out_of_core;
        if settings.pause.is_written() || in_memory || !job.can_be_laid_out() {
            return;
        }
        let pcie = cluster.weakest(self.settings.nodes_of(self.around)).node.pcie;
        let Some(checkpoint) = &job.checkpoint else { return };
        let (copying, asynchronous) =
            (job.largest_state(checkpoint) / pcie, checkpoint.asynchronous);
        if let Some(checkpoint) = job.checkpoint.as_mut() {
            checkpoint.copying = copying;
            if asynchronous {
                checkpoint.pause = copying;
            }
        }
        if asynchronous && pcie.is_finite() {
            let source = "bytes of the state on a GPU ÷ `cluster.node.pcie`";
            self.check.assume(at, "pause", &format!("{copying} s"), source);
        } else if asynchronous {
            self.check.note(format!(
                "Checkpoints of `{}` are copied aside in no time: write `cluster.node.pcie`, or their `pause`.",
                job.name
            ));
        }
    }

    /// Remarks that `writers` has no effect where there is one parameter server, or no two ranks hold the same state.
    pub(super) fn remark_writers(&self, job: &Job) {
        let Some(settings) = self.settings.checkpoint.get() else { return };
        let why = match job.servers() {
            Some(_) => "the only parameter server writes everything",
            None => "no two ranks have the same state to write",
        };
        if !job.has_copies_of_state() {
            self.check.no_effect(settings.writers.at, why);
        }
    }
}
