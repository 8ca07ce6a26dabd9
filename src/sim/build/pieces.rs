//! A step in pieces, between which parameters are needed and gradients ready.

use crate::collective::Operation;
use crate::engine::Span;
use crate::scenario::Sync;
use crate::sim::communication::{BucketRun, Piece};

/// What a step of so long sends: parameters, then gradients.
pub(super) fn buckets(sync: &Sync, step: f64) -> Vec<BucketRun> {
    let run = |operation, bytes, tensors: u32, late| {
        let overhead = Span::from_seconds(sync.transport.per_tensor * f64::from(tensors));
        BucketRun { operation, bytes, late: Span::from_seconds(late), overhead }
    };
    let parameters = sync.root.iter().flat_map(|root| &root.parameters);
    let out = parameters.map(|of| run(Operation::Broadcast, of.bytes, of.tensors, 0.0));
    let back = sync.buckets.iter().map(|of| {
        // A cycle may end after the step has.
        run(sync.operation(), of.bytes, of.tensors, (of.ready - 1.0).max(0.0) * step)
    });
    out.chain(back).collect()
}

/// The pieces of a step: their shares sum to 1.
pub(super) fn pieces(sync: &Sync) -> Vec<Piece> {
    let parameters = sync.root.iter().flat_map(|root| &root.parameters);
    let needed: Vec<f64> = parameters.map(|of| of.needed).collect();
    let ready: Vec<f64> = sync.buckets.iter().map(|of| of.ready.min(1.0)).collect();
    let mut ends: Vec<f64> = needed.iter().chain(&ready).copied().chain([1.0]).collect();
    ends.retain(|end| *end > 0.0);
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let (mut start, mut made, mut pieces) = (0.0, 0, Vec::new());
    for end in ends {
        // What waits for one of them waits for all that are sent before.
        let needs = needed.iter().rposition(|at| *at <= start).map_or(0, |last| last + 1);
        let by_then = ready.iter().take_while(|at| **at <= end).count();
        pieces.push(Piece {
            share: end - start,
            needs: needs as u32,
            made: (by_then - made) as u32,
        });
        (start, made) = (end, by_then);
    }
    pieces
}
