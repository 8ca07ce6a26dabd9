//! Collectives whose time was measured.

use std::sync::Arc;

use forebay_collective::Schedule;
use forebay_model::law::TransportLaw;
use forebay_scenario::Fidelity;

use super::plan::Reduction;
use crate::event::Delay;

/// A pace of transfers that is used instead of the transport's: latency and throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Latency before a transfer's bytes.
    pub(super) latency: Delay,
    /// Maximum throughput of each transfer [B/s].
    pub(super) cap: f64,
}

/// Returns how to simulate an allreduce of `bytes` among `ranks` ranks so that it takes the measured time, which `law` gives.
///
/// The measurement does not say how much the allreduce used each link. The allreduce is assumed to load links as a ring does:
/// after the part of its time that does not depend on the size, each rank sends 2 (n − 1) ÷ n of the bytes to the next one, at
/// most at the measured throughput, which nccl-tests call the bus bandwidth.
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
