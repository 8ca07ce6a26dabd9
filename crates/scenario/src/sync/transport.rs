//! Transports that carry collectives, and their costs in addition to the links'.

use super::Reduction;
use super::cpu::{CpuSettings, MessageCpu};
use crate::check::Check;
use crate::field::Field;
use crate::number::{Amount, Positive, Share};
use crate::role::Role;
use forebay_collective::{Algorithm, Library};
use forebay_model::units::{Bandwidth, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Smallest `efficiency` that is accepted.
const LEAST_EFFICIENCY: f64 = 1e-6;

/// Costs of a transfer in addition to the time that its bytes take on the links.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transport {
    /// Latency of a transfer inside a node [s].
    pub latency_inside: f64,
    /// Latency of a transfer between nodes [s].
    pub latency: f64,
    /// Highest bandwidth of one transfer inside a node [B/s]; may be infinite.
    pub per_stream_inside: f64,
    /// Highest bandwidth of one transfer between nodes [B/s]; may be infinite.
    pub per_stream: f64,
    /// Share of the bandwidth between nodes that carries payload.
    pub efficiency: f64,
    /// Time for each tensor of a bucket before the bucket is reduced: negotiation, copies into the buffer [s].
    pub per_tensor: f64,
    /// Rate at which a receiver adds received bytes to its own [B/s]; may be infinite.
    pub sum: f64,
    /// Core time that a message costs.
    pub cpu: MessageCpu,
    /// Whether bytes go through the nodes' memory: over PCIe, both at the sender and at the receiver.
    pub via_host: bool,
}

/// Transport that carries collectives, and what it costs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TransportSettings {
    /// NCCL: bytes go from GPU to GPU.
    Nccl(Field<Costs>),
    /// CUDA-aware MPI, which sends GPU buffers: bytes go from GPU to GPU.
    MpiCudaAware(Field<Costs>),
    /// MPI on host buffers: bytes go over PCIe through the nodes' memory.
    Mpi(Field<Costs>),
    /// Gloo: bytes go over PCIe through the nodes' memory.
    Gloo(Field<Costs>),
    /// gRPC: bytes go over PCIe through the nodes' memory.
    Grpc(Field<Costs>),
    /// Sockets: bytes go over PCIe through the nodes' memory.
    Tcp(Field<Costs>),
}

/// Costs of a transfer in addition to the time that its bytes take on the links.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Costs {
    /// Latency of a transfer inside a node (default: `cluster.node.intra.latency`).
    #[schemars(extend("x-role" = Role::Limit))]
    latency_inside: Field<Amount<Time>>,
    /// Latency of a transfer between nodes (default: `cluster.network.latency`).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Amount<Time>>,
    /// Highest bandwidth of one transfer inside a node, even if the links are faster (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_stream_inside: Field<Positive<Bandwidth>>,
    /// Highest bandwidth of one transfer between nodes, even if the links are faster (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_stream: Field<Positive<Bandwidth>>,
    /// Share of the bandwidth between nodes that carries payload (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    efficiency: Field<Share>,
    /// Time for each tensor of a bucket before the bucket is reduced: negotiation, copies (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    per_tensor: Field<Amount<Time>>,
    /// Rate at which a receiver adds received bytes to its own (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    sum: Field<Positive<Bandwidth>>,
    /// Core time that each message costs its sender's node and its receiver's node; messages compete with data
    /// loading for the cores (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    cpu: Field<CpuSettings>,
    /// Name of a transport in the scenario's profile: the simulation uses the time that was measured for an
    /// allreduce among the job's ranks. The allreduce loads links as a ring of the measured bus bandwidth (default:
    /// not so).
    #[schemars(extend("x-role" = Role::Identity))]
    profile: Field<String>,
}

/// Latencies of the cluster [s].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Latencies {
    /// Latency inside nodes [s].
    pub(crate) inside: f64,
    /// Latency between nodes [s].
    pub(crate) across: f64,
}

impl Transport {
    /// Returns a transport with these latencies inside nodes and between nodes [s], and no other costs in addition
    /// to the links'.
    #[must_use]
    pub fn of_links(latency_inside: f64, latency: f64) -> Transport {
        Transport {
            latency_inside,
            latency,
            per_stream_inside: f64::INFINITY,
            per_stream: f64::INFINITY,
            efficiency: 1.0,
            per_tensor: 0.0,
            sum: f64::INFINITY,
            cpu: MessageCpu::default(),
            via_host: false,
        }
    }
}

impl TransportSettings {
    fn parts(&self) -> (&Field<Costs>, bool) {
        match self {
            Self::Nccl(costs) | Self::MpiCudaAware(costs) => (costs, false),
            Self::Mpi(costs) | Self::Gloo(costs) | Self::Grpc(costs) | Self::Tcp(costs) => {
                (costs, true)
            }
        }
    }

    /// Returns whether a time for each tensor is set.
    pub(super) fn counts_tensors(&self) -> bool {
        self.parts().0.get().is_some_and(|costs| costs.per_tensor.is_written())
    }

    /// Returns the key that names a transport of the profile, if the scenario takes the time of collectives from the
    /// profile.
    pub(super) fn profile(&self) -> Option<&Field<String>> {
        let profile = &self.parts().0.get()?.profile;
        profile.is_written().then_some(profile)
    }

    /// Remarks on costs that have no effect because the profile's measured times include them.
    pub(super) fn remark(&self, check: Check<'_>) {
        let Some(costs) = self.parts().0.get() else { return };
        let why = "the profile says how long a collective takes";
        for time in [&costs.latency, &costs.latency_inside] {
            check.no_effect(time.at, why);
        }
        for rate in [&costs.per_stream, &costs.per_stream_inside, &costs.sum] {
            check.no_effect(rate.at, why);
        }
        check.no_effect(costs.efficiency.at, why);
        check.no_effect(costs.cpu.at, why);
    }
}

/// Returns how a collective is done by default, which depends on its transport, and the source of this default.
pub(super) fn auto(settings: &Field<TransportSettings>) -> (Reduction, &'static str) {
    let ring = Reduction::By {
        algorithm: Algorithm::Ring,
        levels: (Algorithm::Ring, Algorithm::Ring),
        chunk: None,
    };
    match settings.get() {
        None => (Reduction::Auto(Library::Nccl), "no `transport` names a library: NCCL 2.20"),
        Some(TransportSettings::Nccl(_)) => {
            (Reduction::Auto(Library::Nccl), "NCCL 2.20: ncclTopoGetAlgoTime, src/graph/tuning.cc")
        }
        Some(TransportSettings::Mpi(_) | TransportSettings::MpiCudaAware(_)) => {
            (Reduction::Auto(Library::OpenMpi), "Open MPI: fixed decisions of coll_tuned")
        }
        Some(TransportSettings::Gloo(_)) => {
            (ring, "Gloo: AllreduceOptions without an algorithm takes its ring")
        }
        Some(TransportSettings::Grpc(_)) => {
            (ring, "TensorFlow: CommunicationImplementation.RING is what goes over gRPC")
        }
        Some(TransportSettings::Tcp(_)) => {
            (Reduction::Auto(Library::Nccl), "sockets name no library: NCCL 2.20")
        }
    }
}

/// Returns how a root's collectives are done by default (the library of their transport chooses the algorithm), and
/// the source of this default.
pub(super) fn library(settings: &Field<TransportSettings>) -> (Reduction, &'static str) {
    match auto(settings) {
        (Reduction::By { .. }, _) => (Reduction::Auto(Library::Nccl), "NCCL 2.20"),
        by_library => by_library,
    }
}

/// Reports a problem if `profile` is set with a root or servers: profiles have times of whole allreduces, not of the
/// transfers of a root or of servers.
pub(super) fn refuse_profile(settings: &Field<TransportSettings>, check: Check<'_>) {
    let profile = settings.get().and_then(TransportSettings::profile);
    if let Some(at) = profile.and_then(|profile| profile.at) {
        let what = "transfers of a root or of servers cannot be taken from a profile";
        let remedy =
            "write what a transfer costs: `latency`, `per_stream`; or `[job.sync.allreduce]`";
        check.wrong(at, what, remedy);
    }
}

/// Remarks that the transport's `sum` has no effect with servers, which add at the rate of their `update`.
pub(super) fn remark_servers(settings: &Field<TransportSettings>, check: Check<'_>) {
    if let Some(costs) = settings.get().and_then(|settings| settings.parts().0.get()) {
        let why = "servers sum pushed gradients at the rate of their `update`";
        check.no_effect(costs.sum.at, why);
    }
}

/// Checks and returns the transport of `settings`, with the latencies of the cluster `of` where no latencies are
/// set; `None` if the settings are wrong.
pub(super) fn resolve(
    settings: &Field<TransportSettings>,
    check: Check<'_>,
    of: Latencies,
) -> Option<Transport> {
    let none = Costs::default();
    let (costs, via_host) = match settings.given() {
        Some((_, settings)) => {
            let (costs, via_host) = settings.parts();
            (costs.get()?, via_host)
        }
        None if settings.is_written() => return None,
        None => (&none, false),
    };
    let seconds = |time: &Field<Amount<Time>>, or: f64| time.get().map_or(or, |time| time.0);
    let rate = |rate: &Field<Positive<Bandwidth>>| rate.get().map_or(f64::INFINITY, |rate| rate.0);
    let efficiency = costs.efficiency.get().map_or(1.0, |share| share.0);
    if let (Some((at, _)), true) = (costs.efficiency.given(), efficiency < LEAST_EFFICIENCY) {
        check.wrong(at, "`efficiency` is too small", "write at least 1e-6, such as 0.8");
        return None;
    }
    let cpu = costs.cpu.get().filter(|_| !costs.profile.is_written());
    Some(Transport {
        latency_inside: seconds(&costs.latency_inside, of.inside),
        latency: seconds(&costs.latency, of.across),
        per_stream_inside: rate(&costs.per_stream_inside),
        per_stream: rate(&costs.per_stream),
        efficiency,
        per_tensor: seconds(&costs.per_tensor, 0.0),
        sum: rate(&costs.sum),
        cpu: cpu.map_or(MessageCpu::default(), CpuSettings::resolve),
        via_host,
    })
}
