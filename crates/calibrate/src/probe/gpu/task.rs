//! Training on a GPU: what is asked for, and what it showed.

use super::Precision;
use super::compile::compile;
use super::survey::Beat;
use crate::probe::HostMemory;
use forebay_networks as network;
use schemars::JsonSchema;
use serde::Deserialize;

/// What is trained, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::probe) struct Task<'t> {
    /// Name of the network.
    pub(in crate::probe) model: &'t str,
    /// Samples of a step of one learner.
    pub(in crate::probe) batch: usize,
    pub(in crate::probe) precision: Precision,
    /// Networks that train at the same time, each on a stream of its own.
    pub(in crate::probe) learners: usize,
    /// Steps are recorded once and repeated as a whole.
    pub(in crate::probe) graph: bool,
    pub(in crate::probe) seed: u64,
}

impl Task<'_> {
    /// Memory that it needs, all learners together: the calls' block, and what libraries take besides, as
    /// far as one can tell before [B].
    pub(in crate::probe) fn memory(&self) -> usize {
        /// Room that cuBLAS and cuDNN are given.
        const ROOM: usize = 96 << 20;
        let bytes = block(self.model, self.batch, self.precision).unwrap_or(0);
        self.learners.saturating_mul(bytes.saturating_add(ROOM))
    }
}

/// Memory of the block that a learner of a network works in: parameters, gradients, what its optimiser keeps,
/// values between operators [B]; none of a name that is no network's.
#[must_use]
pub fn block(model: &str, batch: usize, precision: Precision) -> Option<usize> {
    network::model(model).map(|of| compile(&of, batch, precision).bytes)
}

/// Training that goes on beside what feeds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Training<'t> {
    /// Name of the network.
    pub model: &'t str,
    /// Number of the GPU.
    pub gpu: usize,
    /// Sizes of batches of one learner [samples], the full one first.
    pub batches: &'t [usize],
    /// How numbers are computed with.
    pub precision: Precision,
    /// Networks that train at the same time, each on a stream of its own.
    pub learners: usize,
    /// Steps are recorded once and repeated as a whole.
    pub graph: bool,
    /// Batches that may be on their way or wait on the GPU at a time.
    pub lanes: usize,
    /// Bytes of a batch on its way.
    pub bytes: usize,
    /// Learners bring their batches themselves, when they take them; otherwise somebody else does.
    pub brings: bool,
    /// Steps after which learners agree each time, if they do.
    pub agree_every: Option<u64>,
    /// Share of its last move that the central model makes again then.
    pub keep: f32,
    /// Seed of parameters and batches.
    pub seed: u64,
}

/// What steps showed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::probe) struct Steps {
    /// Steps of each learner.
    pub(in crate::probe) rounds: u64,
    /// Wall time of all [s].
    pub(in crate::probe) seconds: f64,
    /// Time of each step of the first learner, by the GPU's clock [s].
    pub(in crate::probe) laps: Vec<f64>,
    /// Last loss of the first learner.
    pub(in crate::probe) loss: f64,
    /// Memory of a learner's own block [B].
    pub(in crate::probe) memory: usize,
    /// What the GPU has less of with all learners on it [B].
    pub(in crate::probe) memory_taken: usize,
    /// Its clock before and after, where that can be seen.
    pub(in crate::probe) beats: Option<(Beat, Beat)>,
}

/// Copies from the host to a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::probe) struct Copies<'t> {
    /// Bytes of each.
    pub(in crate::probe) bytes: usize,
    /// From which kind of the host's memory.
    pub(in crate::probe) memory: HostMemory,
    /// How many.
    pub(in crate::probe) times: u64,
    /// What is trained meanwhile on another stream, if anything.
    pub(in crate::probe) beside: Option<Task<'t>>,
}

/// A collective among GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exchange {
    /// Every rank has the sum of all.
    #[serde(rename = "allreduce")]
    AllReduce,
    /// Every rank has its part of the sum of all.
    ReduceScatter,
    /// Every rank has what each had.
    #[serde(rename = "allgather")]
    AllGather,
    /// Every rank has what one had.
    Broadcast,
    /// One rank has the sum of all.
    Reduce,
}

impl Exchange {
    /// All of them.
    pub const ALL: [Exchange; 5] = [
        Exchange::AllReduce,
        Exchange::ReduceScatter,
        Exchange::AllGather,
        Exchange::Broadcast,
        Exchange::Reduce,
    ];

    /// Its name in plans, samples and profiles.
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

/// What copies showed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::probe) struct Copied {
    /// Wall time of all [s].
    pub(in crate::probe) seconds: f64,
    /// Steps that were trained meanwhile, and the time of one while nothing is copied [s].
    pub(in crate::probe) steps: u64,
    pub(in crate::probe) step_alone: f64,
}
