//! Costs of a transport in addition to the links of the catalogue.

use crate::scenario::Scenario;

/// Costs of a transport, as in `job.sync.allreduce.transport`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// Latency of a transfer [s].
    pub latency: f64,
    /// Maximum rate of a transfer inside a node [B/s].
    pub inside: f64,
    /// Maximum rate of a transfer between nodes [B/s].
    pub across: f64,
    /// Maximum rate between GPUs of a node that are not joined directly [B/s].
    pub between: f64,
    /// Time for each tensor in a bucket, in addition to the time of its bytes [s].
    pub per_tensor: f64,
}

/// Latency of a message by RDMA or over NVLink, including the launch of the kernel that sends it, as in NCCL's own cost model
/// [s].
const DIRECT: f64 = 10e-6;
/// Latency of a message through the kernel's TCP stack and a cloud's or a rack's switches [s].
const SOCKETS: f64 = 50e-6;

impl Constants {
    /// Returns the costs of a transport without a fit: the rates of the catalogue's links, and a typical latency.
    #[must_use]
    pub fn of_kind(transport: &str) -> Constants {
        let sockets = transport.contains("tcp") || transport.contains("gloo");
        let latency = if sockets { SOCKETS } else { DIRECT };
        Constants {
            latency,
            inside: f64::INFINITY,
            across: f64::INFINITY,
            between: f64::INFINITY,
            per_tensor: 0.0,
        }
    }

    /// Returns the key of a scenario that sets these costs.
    pub(super) fn text(&self) -> String {
        let latency = self.latency;
        let mut keys = vec![
            format!("latency = \"{latency} s\""),
            format!("latency_inside = \"{} s\"", latency.min(DIRECT)),
            format!("per_tensor = \"{} s\"", self.per_tensor),
        ];
        for (key, rate) in [("per_stream_inside", self.inside), ("per_stream", self.across)] {
            if rate.is_finite() {
                keys.push(format!("{key} = \"{rate} B/s\""));
            }
        }
        format!("transport.nccl = {{ {} }}", keys.join(", "))
    }

    /// Sets these costs in a resolved scenario, as [`Constants::text`] does in its file. `between` is the rate of the link between
    /// GPUs of a node that are not joined directly [B/s]. `None` if the scenario exchanges no gradients.
    pub(super) fn set(&self, scenario: &mut Scenario, between: Option<f64>) -> Option<()> {
        let transport = &mut scenario.jobs.first_mut()?.sync.as_mut()?.transport;
        transport.latency = self.latency;
        transport.latency_inside = self.latency.min(DIRECT);
        transport.per_tensor = self.per_tensor;
        transport.per_stream_inside = self.inside;
        transport.per_stream = self.across;
        if let Some(between) = between {
            scenario.cluster.node.intra.tree.uplink = between.min(self.between);
        }
        Some(())
    }
}
