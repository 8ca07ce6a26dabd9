//! Tasks for GPUs (training, copies, collectives) and their results.

use super::compile::compile;
use super::crew::Centre;
use super::survey::Beat;
use super::{Form, Precision};
use crate::probe::HostMemory;
use forebay_networks as network;
use schemars::JsonSchema;
use serde::Deserialize;

/// A task of training on a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::probe) struct Task<'t> {
    /// Name of the network.
    pub(in crate::probe) model: &'t str,
    /// Batch size of one learner [samples].
    pub(in crate::probe) batch: usize,
    pub(in crate::probe) precision: Precision,
    /// Number of networks that train at the same time, each on a stream of its own.
    pub(in crate::probe) learners: usize,
    /// Number of steps between two averagings of the networks; `None` without averaging.
    pub(in crate::probe) average_every: Option<u64>,
    /// Whether a step is recorded once as a CUDA graph and then launched as a whole.
    pub(in crate::probe) graph: bool,
    pub(in crate::probe) seed: u64,
}

impl Task<'_> {
    /// Returns an estimate of the memory that all learners together need [B]: the block of memory of each
    /// program, the central model if the learners average, and the workspace of libraries.
    pub(in crate::probe) fn memory(&self) -> usize {
        /// Estimated workspace of cuBLAS and cuDNN for one learner [B].
        const ROOM: usize = 96 << 20;
        let of = network::model(self.model);
        let program = of.map(|of| compile(&of, self.batch, self.precision));
        let (bytes, model) = program.map_or((0, 0), |program| {
            (program.bytes.saturating_add(program.input.bytes()), program.parameters.bytes())
        });
        let centre = self.average_every.map_or(0, |_| Centre::MODELS * model);
        self.learners.saturating_mul(bytes.saturating_add(ROOM)).saturating_add(centre)
    }

    /// Returns the training of learners that average every `every` steps, as in live runs. Each learner has a lane for batches of
    /// `bytes` in this form.
    pub(super) fn averaging<'a>(
        &'a self,
        gpu: usize,
        batches: &'a [usize],
        every: u64,
        (bytes, form): (usize, Form),
    ) -> Training<'a> {
        Training {
            model: self.model,
            gpu,
            batches,
            precision: self.precision,
            learners: self.learners,
            graph: self.graph,
            lanes: self.learners,
            bytes,
            form,
            brings: false,
            agree_every: Some(every),
            keep: 0.9,
            seed: self.seed,
        }
    }
}

/// Returns the size of a learner's block of memory [B]: parameters, gradients, state of the optimiser,
/// activations. Returns `None` if no network has the name `model`.
#[must_use]
pub fn block(model: &str, batch: usize, precision: Precision) -> Option<usize> {
    network::model(model).map(|of| compile(&of, batch, precision).bytes)
}

/// A task of training on a GPU while batches are copied to it, as in live runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Training<'t> {
    /// Name of the network.
    pub model: &'t str,
    /// Number of the GPU.
    pub gpu: usize,
    /// Batch sizes of one learner [samples], the full batch first.
    pub batches: &'t [usize],
    /// Number format of the training.
    pub precision: Precision,
    /// Number of networks that train at the same time, each on a stream of its own.
    pub learners: usize,
    /// Whether a step is recorded once as a CUDA graph and then launched as a whole.
    pub graph: bool,
    /// Number of batches that may be on their way to the GPU or wait there at the same time.
    pub lanes: usize,
    /// Size of a batch as it is copied to the GPU [B].
    pub bytes: usize,
    /// Form of the samples in a batch.
    pub form: Form,
    /// Whether learners start the copies of their batches themselves when they need them; otherwise other
    /// threads copy batches.
    pub brings: bool,
    /// Number of steps between two averagings of the replicas; `None` without averaging.
    pub agree_every: Option<u64>,
    /// Momentum of the central model: the share of its previous move that each averaging adds to its new move.
    pub keep: f32,
    /// Seed of parameters and batches.
    pub seed: u64,
}

/// Result of training steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::probe) struct Steps {
    /// Number of steps of each learner.
    pub(in crate::probe) rounds: u64,
    /// Wall time of all steps [s].
    pub(in crate::probe) seconds: f64,
    /// Time of each step of the first learner, by the GPU's clock [s].
    pub(in crate::probe) laps: Vec<f64>,
    /// Last loss of the first learner.
    pub(in crate::probe) loss: f64,
    /// Size of one learner's block of memory [B].
    pub(in crate::probe) memory: usize,
    /// Decrease of the GPU's free memory by all learners together [B].
    pub(in crate::probe) memory_taken: usize,
    /// The GPU's clock before and after the steps, if NVML reports it.
    pub(in crate::probe) beats: Option<(Beat, Beat)>,
}

/// A task of copies from the host to a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::probe) struct Copies<'t> {
    /// Size of each copy [B].
    pub(in crate::probe) bytes: usize,
    /// Kind of host memory to copy from.
    pub(in crate::probe) memory: HostMemory,
    /// Largest number of copies.
    pub(in crate::probe) times: u64,
    /// Wall time after which no further copy is made, apart from the first [s].
    pub(in crate::probe) within: f64,
    /// Training that runs on another stream during the copies, if any.
    pub(in crate::probe) beside: Option<Task<'t>>,
}

/// A collective among GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exchange {
    /// Every rank gets the sum over all ranks.
    #[serde(rename = "allreduce")]
    AllReduce,
    /// Every rank gets its part of the sum over all ranks.
    ReduceScatter,
    /// Every rank gets the data of all ranks.
    #[serde(rename = "allgather")]
    AllGather,
    /// Every rank gets the data of one rank.
    Broadcast,
    /// One rank gets the sum over all ranks.
    Reduce,
}

impl Exchange {
    /// All collectives.
    pub const ALL: [Exchange; 5] = [
        Exchange::AllReduce,
        Exchange::ReduceScatter,
        Exchange::AllGather,
        Exchange::Broadcast,
        Exchange::Reduce,
    ];

    /// Returns the name in plans, samples and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Exchange::AllReduce => "allreduce",
            Exchange::ReduceScatter => "reduce-scatter",
            Exchange::AllGather => "allgather",
            Exchange::Broadcast => "broadcast",
            Exchange::Reduce => "reduce",
        }
    }
}

/// Result of copies.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::probe) struct Copied {
    /// Number of copies.
    pub(in crate::probe) times: u64,
    /// Wall time of all copies, without waiting for batches [s].
    pub(in crate::probe) seconds: f64,
    /// Number of training steps during the copies (`steps`), the wall time that they took together (`training`), and the time of
    /// a step while nothing is copied (`step_alone`) [s].
    pub(in crate::probe) steps: u64,
    pub(in crate::probe) training: f64,
    pub(in crate::probe) step_alone: f64,
}
