//! A training step, cut into pieces at the points where parameters are needed or gradients are ready.

use forebay_collective::Operation;
use forebay_engine::Span;
use forebay_scenario::{Bucket, Sync};

use crate::communication::{Piece, Pieces, Planned};

/// Returns the collectives of a step of duration `step` [s]: first those of parameters, then those of gradients.
pub(super) fn collectives(sync: &Sync, step: f64) -> Vec<Planned> {
    let run = |operation, bytes, tensors: u32, late| {
        let overhead = Span::from_seconds(sync.transport.per_tensor * f64::from(tensors));
        Planned { operation, bytes, late: Span::from_seconds(late), overhead, then: None }
    };
    let parameters = sync.root.iter().flat_map(|root| &root.parameters);
    let out = parameters.map(|of| run(Operation::Broadcast, of.bytes, of.tensors, 0.0));
    let back = sync.buckets.iter().map(|of| {
        // A framework's cycle may end after the step has ended.
        run(sync.operation(), of.bytes, of.tensors, (sync.ready(of) - 1.0).max(0.0) * step)
    });
    out.chain(back).collect()
}

/// Returns the pieces of a step that ends with an exchange; their shares sum to 1. `after` says whether the exchange averages
/// parameters, which are complete only after the step.
pub(super) fn pieces(sync: &Sync, after: bool) -> Pieces {
    let parameters = sync.root.iter().flat_map(|root| &root.parameters);
    let needed = until(parameters.map(|of| of.needed).collect());
    let ready = |of: &Bucket| if after { 1.0 } else { sync.ready(of).min(1.0) };
    let ready = from_then(sync.buckets.iter().map(ready).collect());
    let mut ends: Vec<f64> = needed.iter().chain(&ready).copied().chain([1.0]).collect();
    ends.retain(|end| *end > 0.0);
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let (mut start, mut made, mut pieces) = (0.0, 0, Vec::new());
    for end in ends {
        let needs = needed.partition_point(|at| *at <= start);
        let by_then = ready.partition_point(|at| *at <= end);
        let ready = &sync.buckets[made..by_then];
        let compress = ready.iter().map(|bucket| bucket.compress).sum();
        let bytes = ready.iter().map(|bucket| bucket.raw as f64).sum();
        let (needs, ready) = (needs as u32, ready.len() as u32);
        pieces.push(Piece { share: end - start, compress, needs, made: ready, bytes });
        (start, made) = (end, by_then);
    }
    Pieces::new(pieces, needed.len() as u32)
}

/// Returns the time by which each parameter bucket must have arrived, given the time when each bucket is used. A computation that
/// waits for a bucket also waits for all buckets sent before it. So each bucket is needed no later than the buckets sent after
/// it.
fn until(mut needed: Vec<f64>) -> Vec<f64> {
    let mut least = f64::INFINITY;
    for at in needed.iter_mut().rev() {
        least = least.min(*at);
        *at = least;
    }
    needed
}

/// Returns the time from which each gradient bucket can be reduced. Buckets are reduced in order, so no bucket can be reduced
/// earlier than the buckets before it.
fn from_then(mut ready: Vec<f64>) -> Vec<f64> {
    let mut most = 0.0_f64;
    for at in &mut ready {
        most = most.max(*at);
        *at = most;
    }
    ready
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn need_and_ready_times_of_buckets_never_decrease_in_exchange_order() {
        assert_eq!(until(vec![0.2, 0.0, 0.5, 0.3]), [0.0, 0.0, 0.3, 0.3]);
        assert_eq!(from_then(vec![0.6, 0.9, 0.7, 1.0]), [0.6, 0.9, 0.9, 1.0]);
    }
}
