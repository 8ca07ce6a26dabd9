//! The algorithm and the fidelity of collectives inside a model.

use crate::field::Field;
use crate::sync::{AlgorithmName, Fidelity, Reduction};

/// How ranks do their collectives, and how the simulator finds their time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Method {
    /// Algorithm of the collectives.
    pub reduction: Reduction,
    /// Whether each transfer is simulated, or the time of a collective is computed for an idle network.
    pub fidelity: Fidelity,
    /// Number of transfers in a step by which the fidelity was chosen; `None` if the scenario file sets the fidelity.
    pub chosen_by: Option<f64>,
}

impl Method {
    /// Returns the method that the scenario file sets; a fidelity that is "auto" or not set is chosen later.
    pub(super) fn written(algorithm: &Field<AlgorithmName>, fidelity: &Field<Fidelity>) -> Method {
        Method {
            reduction: Reduction::named(algorithm.get()),
            fidelity: fidelity.get().copied().unwrap_or(Fidelity::Auto),
            chosen_by: None,
        }
    }
}
