//! The parts of the transport of gradients that levers change.

use crate::report::format::{rate, seconds};
use crate::scenario::{Cluster, Job, ServerPlace};

use super::lever::Kind;

/// Which transfers of gradients a job has.
struct Ways {
    /// Transfers inside nodes.
    inside: bool,
    /// Transfers between nodes.
    across: bool,
}

impl Ways {
    fn of(job: &Job) -> Ways {
        let servers = job.servers().map(|of| of.place);
        let own = matches!(servers, Some(ServerPlace::Own { .. }));
        let inside = !own && (job.copies_per_node > 1 || servers.is_some());
        Ways { inside, across: job.nodes > 1 || own }
    }
}

/// Returns the keys of a job's transport that a lever changes, each with its amount in words; none for other levers, and none for what
/// has no effect on the job: latency between nodes if no transfer leaves its node, latency inside nodes if all leave them, or no cost.
pub(super) fn parts(job: &Job, kind: Kind) -> Vec<(&'static str, String)> {
    let Some(sync) = &job.sync else { return Vec::new() };
    let transport = &sync.transport;
    let Ways { inside, across } = Ways::of(job);
    let times = |all: &[(&'static str, f64, bool)]| {
        let used = all.iter().filter(|(_, time, is_used)| *is_used && *time > 0.0);
        used.map(|(key, time, _)| (*key, seconds(*time))).collect()
    };
    let rates = |all: &[(&'static str, f64, bool)]| {
        let used = all.iter().filter(|(_, of, is_used)| *is_used && of.is_finite());
        used.map(|(key, of, _)| (*key, rate(*of, "B"))).collect()
    };
    match kind {
        Kind::TransportLatency => times(&[
            ("latency_inside", transport.latency_inside, inside),
            ("latency", transport.latency, across),
            ("per_tensor", transport.per_tensor, true),
        ]),
        Kind::TransportStream => rates(&[
            ("per_stream_inside", transport.per_stream_inside, inside),
            ("per_stream", transport.per_stream, across),
            ("sum", transport.sum, true),
        ]),
        Kind::MessageCpu => times(&[
            ("cpu.per_message", transport.cpu.per_message, true),
            ("cpu.per_byte", transport.cpu.per_byte, true),
        ]),
        _ => Vec::new(),
    }
}

/// Returns an estimate of the share of a transfer's time that a lever on the transport shortens; `None` for other levers. The transfer is
/// one between nodes, if there are any, and carries a bucket of gradients; without a root and servers, it carries as much of the bucket as
/// each rank reduces.
pub(super) fn share_of_transfer(job: &Job, cluster: &Cluster, kind: Kind) -> Option<f64> {
    let sync = job.sync.as_ref()?;
    let of = &sync.transport;
    let bucket = sync.buckets.iter().max_by_key(|bucket| bucket.bytes)?;
    let parts = if sync.root.is_some() || sync.servers.is_some() { 1 } else { job.ranks() };
    let parts = f64::from(parts.max(1));
    let bytes = bucket.bytes as f64 / parts;
    let (latency, stream, link) = match Ways::of(job).across {
        true => (of.latency, of.per_stream, cluster.nic * of.efficiency),
        false => (of.latency_inside, of.per_stream_inside, cluster.node.intra.bandwidth),
    };
    let fixed = latency + of.per_tensor * f64::from(bucket.tensors) / parts;
    let cores = 2.0 * of.cpu.seconds(bytes);
    let stream = bytes / stream.min(of.sum);
    let all = fixed + cores + stream.max(bytes / link);
    let own = match kind {
        Kind::TransportLatency => fixed,
        Kind::TransportStream => stream,
        Kind::MessageCpu => cores,
        _ => return None,
    };
    Some(if all > 0.0 { own / all } else { 0.0 })
}
