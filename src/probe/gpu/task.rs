//! Training on a GPU: what is asked for, and what it showed.

use super::Precision;
use super::compile::compile;
use crate::probe::network;

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
        let network = network::model(self.model);
        let bytes = network.map_or(0, |of| compile(&of, self.batch, self.precision).bytes);
        self.learners.saturating_mul(bytes.saturating_add(ROOM))
    }
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
    /// Memory of a learner [B].
    pub(in crate::probe) memory: usize,
}
