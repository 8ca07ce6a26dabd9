//! NVMe over fabrics: block devices of a shared target, through I/O queues of limited depth.

use super::burst::{BurstSettings, burst, operation_burst};
use super::service::{InFlight, ServiceKeys, ServiceOrder};
use super::settings::{BandwidthSettings, CpuSettings, Kind, or_infinite, time_or_none};
use super::tier::{CacheSettings, Tier};
use super::{Access, Bandwidth, Location, Queues, ReadCpu, RequestPath, Written};
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use crate::role::Role;
use forebay_model::units::{Bandwidth as BytesPerSecond, Rate, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Default queue depth, the number of requests of a queue that are in progress at once: `NVMF_DEF_QUEUE_SIZE` of
/// Linux.
const DEPTH: u32 = 128;

/// NVMe over fabrics (TCP or RDMA): all nodes share a target, behind their NICs. Each node reads through I/O
/// queues, each of which belongs to one of the node's cores. Each request is one NVMe command.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NvmeOf {
    /// Bandwidth of the target for all transfers together; a list has one entry for each number of concurrent
    /// transfers.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<BandwidthSettings>,
    /// Token bucket by which the target gives more than its `bandwidth` for a while: the credits of a cloud volume (default:
    /// there is none).
    #[schemars(extend("x-role" = Role::Identity))]
    burst: Field<BurstSettings>,
    /// I/O queues of each node: `nr-io-queues` of `nvme connect`. Worker number `i` of a node uses queue `i` modulo
    /// `queues`.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    queues: Field<Count<1, 65_535>>,
    /// Maximum number of requests of a queue in progress at once, `queue-size` of `nvme connect`; further requests
    /// wait (default: 128).
    #[schemars(extend("x-role" = Role::Limit))]
    queue_depth: Field<Count<1, 65_536>>,
    /// Bandwidth of a queue: over TCP, the bandwidth of one connection and of the core that serves it (default:
    /// infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    queue_bandwidth: Field<Positive<BytesPerSecond>>,
    /// Time from request to first byte (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Varying<Time>>,
    /// Requests per second of the target, all nodes together (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    operations: Field<Positive<Rate>>,
    /// How files are read: "direct": past the page cache (`O_DIRECT`), so that every epoch reads from the target; "cold": through
    /// a page cache that is empty at the start; "warm": from each node's page cache, which holds all files from the start, so
    /// that the target's limits do not apply to reads; "emulated": as "direct", except that live runs keep the files in the page
    /// cache and hold reads to the limits that the scenario sets (default: "cold").
    #[schemars(extend("x-role" = Role::Choice))]
    access: Field<Access>,
    /// How reads by loaders share the target's bandwidth: "in-order": in order of arrival, `in_flight` at once; "round-robin": clients
    /// take turns; "fair": all at once, with the same bandwidth for each, as connections do (default: "fair").
    #[schemars(extend("x-role" = Role::Identity))]
    service: Field<ServiceOrder>,
    /// Requests that the target serves at once, with "in-order" and "round-robin" (default: as many as reach the full bandwidth).
    #[schemars(extend("x-role" = Role::Limit))]
    in_flight: Field<InFlight>,
    /// Bytes of a request that are served in a turn, with "round-robin"; its rest waits for the client's next turn (default: the whole
    /// request).
    #[schemars(extend("x-role" = Role::Identity))]
    piece: Field<Positive<Size>>,
    /// Core time that each request costs the reading node; the request's time includes it (default: nothing).
    #[schemars(extend("x-role" = Role::Limit))]
    cpu: Field<CpuSettings>,
    /// Capacity of the target for data sets that jobs copy to it (default: as much as they copy).
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Bandwidth of all writes together; writes and reads share the target (default: as that of reads).
    #[schemars(extend("x-role" = Role::Limit))]
    write_bandwidth: Field<Positive<BytesPerSecond>>,
    /// Cache of the target's files on a tier of each node (default: nothing).
    #[schemars(extend("x-role" = Role::Limit))]
    cache: Field<CacheSettings>,
}

impl Kind for NvmeOf {
    fn name(&self) -> &'static str {
        "nvme-of"
    }

    fn tier(&self) -> Option<Tier> {
        Some(Tier::new(&self.capacity, &self.write_bandwidth))
    }

    fn cache(&self) -> Option<&Field<CacheSettings>> {
        Some(&self.cache)
    }

    fn written(&self) -> Written {
        Written {
            bandwidth: self.bandwidth.is_written(),
            per_stream: false,
            per_client: false,
            latency: self.latency.is_written(),
            operations: self.operations.is_written(),
            queues: self.queues.is_written(),
            burst: self.burst.is_written(),
        }
    }

    fn warm(&self, _: Check<'_>, _: &str) -> Option<RequestPath> {
        let unlimited = RequestPath::unlimited(Location::Node, Access::Warm);
        let warm = self.access.get() == Some(&Access::Warm);
        warm.then(|| RequestPath { cpu: self.cpu(), ..unlimited })
    }

    fn check_own_limits(&self, check: Check<'_>, at: NodeId, _: &str) {
        let remedy = "write `bandwidth = \"10 GB/s\"`";
        let _reported = check.required(at, &self.bandwidth, "bandwidth", remedy);
        let _reported = check.required(at, &self.queues, "queues", "write `queues = 8`");
    }

    fn path(&self, check: Check<'_>, at: NodeId, layout: &str) -> Option<RequestPath> {
        let access = self.access.get().copied().unwrap_or(Access::Cold);
        if access != Access::Warm {
            self.check_own_limits(check, at, layout);
        }
        let needed = access != Access::Warm || self.bandwidth.is_written();
        let bandwidth = match self.bandwidth.get() {
            Some(bandwidth) => bandwidth.resolve(),
            None if needed => return None,
            None => Bandwidth::Fixed(f64::INFINITY),
        };
        let queues = match self.queues.get() {
            Some(queues) => Some(Queues {
                number: queues.small(),
                depth: self.queue_depth.get().map_or(DEPTH, |depth| depth.small()),
                bandwidth: or_infinite(&self.queue_bandwidth),
            }),
            None if access != Access::Warm || self.queues.is_written() => return None,
            None => None,
        };
        let burst = burst(check, &self.burst, &bandwidth);
        let keys =
            ServiceKeys { service: &self.service, in_flight: &self.in_flight, piece: &self.piece };
        let operations = or_infinite(&self.operations);
        Some(RequestPath {
            latency: time_or_none(check, &self.latency)?,
            burst,
            operation_burst: operation_burst(check, &self.burst, operations),
            sharing: keys.resolve(check, ServiceOrder::Fair, f64::INFINITY),
            bandwidth,
            queues,
            operations,
            cpu: self.cpu(),
            ..RequestPath::unlimited(Location::Shared, access)
        })
    }
}

impl NvmeOf {
    fn cpu(&self) -> ReadCpu {
        self.cpu.get().map(CpuSettings::resolve).unwrap_or_default()
    }
}
