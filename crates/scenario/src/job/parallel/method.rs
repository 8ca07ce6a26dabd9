//! The algorithm and the fidelity of collectives inside a model.

use crate::field::Field;
use crate::sync::{AlgorithmName, Fidelity, Reduction};

/// How ranks do their collectives, and how the simulator finds their time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Method {
    /// By which algorithm.
    pub reduction: Reduction,
    /// Transfer by transfer, or in the time on an idle network.
    pub fidelity: Fidelity,
    /// Transfers of a step by which that was chosen; `None` where it is written.
    pub chosen_by: Option<f64>,
}

impl Method {
    /// As is written; what is not is chosen later.
    pub(super) fn written(algorithm: &Field<AlgorithmName>, fidelity: &Field<Fidelity>) -> Method {
        Method {
            reduction: Reduction::named(algorithm.get()),
            fidelity: fidelity.get().copied().unwrap_or(Fidelity::Auto),
            chosen_by: None,
        }
    }
}
