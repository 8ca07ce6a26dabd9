//! Relaxes limits of storage.

use crate::scenario::storage::Bandwidth;
use crate::scenario::{Queues, RequestPath, Service, Storage};
use std::sync::Arc;

use super::FACTOR;
use crate::verdict::lever::Kind;

/// Relaxes one limit of a storage.
pub(super) fn lift(path: &mut RequestPath, kind: Kind) {
    match kind {
        Kind::Bandwidth => widen(&mut path.bandwidth),
        Kind::PerStream => path.per_stream *= FACTOR,
        Kind::Latency => path.latency = path.latency.scaled(1.0 / FACTOR),
        Kind::Operations => path.operations *= FACTOR,
        Kind::Queues | Kind::QueueDepth | Kind::QueueBandwidth => {
            path.queues.iter_mut().for_each(|queues| lift_queues(queues, kind));
        }
        Kind::Targets => path.targets.iter_mut().for_each(|of| of.bandwidth *= FACTOR),
        Kind::Stripes => path.targets.iter_mut().for_each(|of| {
            of.stripe_count = of.stripe_count.saturating_mul(2).min(of.number);
        }),
        Kind::Requests => path.limit.iter_mut().for_each(|limit| {
            limit.rate *= FACTOR;
            limit.burst *= FACTOR;
        }),
        Kind::Seek | Kind::Measured => lift_service(&mut path.service, kind),
        _ => {}
    }
}

fn lift_queues(queues: &mut Queues, kind: Kind) {
    match kind {
        Kind::Queues => queues.number *= 2,
        Kind::QueueDepth => queues.depth *= 2,
        _ => queues.bandwidth *= FACTOR,
    }
}

fn lift_service(service: &mut Service, kind: Kind) {
    match service {
        Service::DiskHead { seek } if kind == Kind::Seek => *seek /= FACTOR,
        Service::Measured(table) if kind == Kind::Measured => {
            *table = Arc::new(table.scaled(FACTOR));
        }
        Service::Link | Service::DiskHead { .. } | Service::Measured(_) => {}
    }
}

fn widen(bandwidth: &mut Bandwidth) {
    match bandwidth {
        Bandwidth::Fixed(rate) => *rate *= FACTOR,
        Bandwidth::ByTransfers(table) => table.iter_mut().for_each(|rate| *rate *= FACTOR),
    }
}

/// Relaxes a limit of a storage that is a tier or has a cache: its write bandwidth, or the capacity of the cache.
pub(super) fn lift_tier(storage: &mut Storage, kind: Kind) {
    match (kind, &mut storage.tier, &mut storage.cache) {
        (Kind::TierWrite, Some(tier), _) => tier.write = tier.write.map(|rate| rate * FACTOR),
        (Kind::TierCache, _, Some(cache)) => cache.capacity *= FACTOR,
        _ => {}
    }
}
