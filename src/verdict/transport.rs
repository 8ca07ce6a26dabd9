//! The parts of the transport of gradients that levers change.

use crate::report::format::{rate, seconds};
use crate::scenario::{Job, ServerPlace};

use super::lever::Kind;

/// Returns the keys of a job's transport that a lever changes, each with its amount in words; none for other levers, and none for what
/// has no effect on the job: latency between nodes if no transfer leaves its node, latency inside nodes if all leave them, or no cost.
pub(super) fn parts(job: &Job, kind: Kind) -> Vec<(&'static str, String)> {
    let Some(sync) = &job.sync else { return Vec::new() };
    let transport = &sync.transport;
    let servers = job.servers().map(|of| of.place);
    let own = matches!(servers, Some(ServerPlace::Own { .. }));
    let across = job.nodes > 1 || own;
    let inside = !own && (job.copies_per_node > 1 || servers.is_some());
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
