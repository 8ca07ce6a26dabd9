//! Costs of the transport of gradients that levers change: their keys and amounts, and their share of a transfer's time.

use crate::report::format::{rate, seconds};
use crate::scenario::{Cluster, Job, ServerPlace};

use super::lever::Kind;

/// Whether transfers of a job's collectives stay inside nodes, or cross from one to another.
struct Ways {
    inside: bool,
    across: bool,
}

impl Ways {
    fn of(job: &Job) -> Ways {
        let own = job.servers().is_some_and(|of| matches!(of.place, ServerPlace::Own { .. }));
        let several = job.ranks_by_node().any(|ranks| ranks > 1);
        // Gradients go to servers beside the nodes, but the GPUs that a model copy is spread over exchange other data.
        let inside = match (own, job.servers().is_some()) {
            (true, _) => several && job.parallelism.is_some(),
            (false, servers) => several || servers,
        };
        Ways { inside, across: job.nodes > 1 || own }
    }
}

/// Returns the keys of a job's transport that a lever changes, each with its amount in words. Costs that are 0 or have no effect on the job
/// are left out, such as the latency between nodes if no transfer leaves its node.
pub(super) fn parts(job: &Job, kind: Kind) -> Vec<(&'static str, String)> {
    let Some(sync) = &job.sync else { return Vec::new() };
    let transport = &sync.transport;
    let Ways { inside, across } = Ways::of(job);
    // If a profile gives the measured time of collectives, only the time for each tensor is added to it.
    let is_modelled = sync.measured.is_none() || job.parallelism.is_some();
    let (inside, across) = (inside && is_modelled, across && is_modelled);
    let adds = is_modelled && sync.servers.is_none();
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
            ("sum", transport.sum, adds),
        ]),
        Kind::MessageCpu => times(&[
            ("cpu.per_message", transport.cpu.per_message, is_modelled),
            ("cpu.per_byte", transport.cpu.per_byte, is_modelled),
        ]),
        _ => Vec::new(),
    }
}

/// Returns whether a lever is on the transport, and none of the costs that it changes has an effect on the job.
pub(super) fn is_idle(job: &Job, kind: Kind) -> bool {
    is_cost(kind) && parts(job, kind).is_empty()
}

/// Returns whether a lever changes costs of the transport.
pub(super) fn is_cost(kind: Kind) -> bool {
    matches!(kind, Kind::TransportLatency | Kind::TransportStream | Kind::MessageCpu)
}

/// Returns an estimate of the share of a transfer's time that a lever on the transport shortens. `None` for other levers, for measured
/// collectives, and for a model copy that is spread over several GPUs, because these exchange more than gradients.
///
/// The transfer carries the largest bucket of gradients, between nodes if there are any. Without a root and servers, it carries the bucket
/// divided by the number of ranks.
pub(super) fn share_of_transfer(job: &Job, cluster: &Cluster, kind: Kind) -> Option<f64> {
    let sync = job.sync.as_ref().filter(|sync| sync.measured.is_none())?;
    if job.parallelism.is_some() || !is_cost(kind) {
        return None;
    }
    let of = &sync.transport;
    let bucket = sync.buckets.iter().max_by_key(|bucket| bucket.bytes)?;
    let whole = sync.root.is_some() || sync.servers.is_some();
    let parts = if whole { 1.0 } else { f64::from(job.ranks().max(1)) };
    let bytes = bucket.bytes as f64 / parts;
    let (latency, stream, link) = match Ways::of(job).across {
        true => (of.latency, of.per_stream, cluster.nic * of.efficiency),
        false => (of.latency_inside, of.per_stream_inside, cluster.node.intra.bandwidth),
    };
    let sum = if sync.servers.is_some() { f64::INFINITY } else { of.sum };
    let fixed = latency + of.per_tensor * f64::from(bucket.tensors) / parts;
    let cores = 2.0 * of.cpu.seconds(bytes);
    let stream = bytes / stream.min(sum);
    let all = fixed + cores + stream.max(bytes / link);
    let own = match kind {
        Kind::TransportLatency => fixed,
        Kind::MessageCpu => cores,
        _ => stream,
    };
    Some(if all > 0.0 { own / all } else { 0.0 })
}
