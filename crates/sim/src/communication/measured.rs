//! Collectives that take what was measured of them.

use std::sync::Arc;

use crate::event::Delay;
use forebay_collective::Schedule;
use forebay_model::law::TransportLaw;
use forebay_scenario::Fidelity;

use super::plan::Reduction;

/// How transfers go instead of as the transport says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Before their bytes.
    pub(super) latency: Delay,
    /// Most that each gets [B/s].
    pub(super) cap: f64,
}

/// An allreduce of `bytes` among `ranks` in the time of `law`.
///
/// What it did on which link is not known. It is taken to load them as a ring does: after the part that does not
/// depend on the size, each rank sends the next one 2 (n − 1) ÷ n of the bytes, at most as fast as was
/// measured, which nccl-tests call the bus bandwidth.
pub(super) fn allreduce(
    law: &TransportLaw,
    bytes: u64,
    ranks: u32,
    fidelity: Fidelity,
) -> Reduction {
    let (size, range) = (bytes as f64, law.range(bytes as f64));
    let moving = (range.beta + range.gamma) * size;
    if fidelity == Fidelity::Analytic || moving <= 0.0 {
        return Reduction::Analytic(Delay::once(range.alpha + moving));
    }
    let each = (2.0 * size * (1.0 - 1.0 / f64::from(ranks))).round().max(1.0);
    let pace = Pace { latency: Delay::once(range.alpha), cap: each / moving };
    Reduction::Flow(Arc::new(Schedule::to_next(ranks, each as u64)), Some(pace))
}
