//! One server that all nodes share, behind their NICs.

use super::burst::{BurstSettings, burst, operation_burst};
use super::service::{InFlight, ServiceKeys, ServiceOrder};
use super::settings::{BandwidthSettings, CpuSettings, Kind};
use super::shared::{SharedFit, SharedKeys, sharing};
use super::tier::{CacheSettings, Tier};
use super::{Access, Bandwidth, Location, RequestPath, WriteLimits, Written};
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Positive;
use crate::role::Role;
use forebay_model::units::{Bandwidth as BytesPerSecond, Rate, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// One server that all nodes share, behind their NICs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileServer {
    /// Bandwidth of the server for all transfers together; a list has one entry for each number of concurrent
    /// transfers (default: as the profile of a cluster says).
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<BandwidthSettings>,
    /// Token bucket by which the server gives more than its `bandwidth` for a while: the credits of a cloud file system (default:
    /// there is none).
    #[schemars(extend("x-role" = Role::Identity))]
    burst: Field<BurstSettings>,
    /// Highest bandwidth of one transfer (default: as the profile of a cluster says, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_stream: Field<Positive<BytesPerSecond>>,
    /// Highest bandwidth of all transfers of one node together, as a node's client or its mount has (default: as the profile of a cluster
    /// says, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    per_client: Field<Positive<BytesPerSecond>>,
    /// Time from request to first byte (default: as the profile of a cluster says, or 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    latency: Field<Varying<Time>>,
    /// File opens per second that the server can serve (default: as the profile of a cluster says, or infinite). Reads are not counted. A data sheet often counts
    /// several
    /// operations for each file (lookup, open, read, close): divide its figure by their number.
    #[schemars(extend("x-role" = Role::Limit))]
    operations: Field<Positive<Rate>>,
    /// How reads by loaders share the bandwidth: "in-order": in order of arrival, `in_flight` at once, as servers with few threads
    /// do; "round-robin": clients take turns; "fair": all at once, with the same bandwidth for each (default: "fair").
    #[schemars(extend("x-role" = Role::Identity))]
    service: Field<ServiceOrder>,
    /// Requests that are served at once, with "in-order" and "round-robin" (default: as many as reach the full bandwidth).
    #[schemars(extend("x-role" = Role::Limit))]
    in_flight: Field<InFlight>,
    /// Bytes of a request that are served in a turn, with "round-robin"; its rest waits for the client's next turn (default: the whole
    /// request).
    #[schemars(extend("x-role" = Role::Identity))]
    piece: Field<Positive<Size>>,
    /// Capacity of the server for data sets that jobs copy to it (default: as much as they copy).
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Bandwidth of all writes together; writes and reads share the server (default: as the profile of a cluster says, or as that of
    /// reads).
    #[schemars(extend("x-role" = Role::Limit))]
    write_bandwidth: Field<Positive<BytesPerSecond>>,
    /// Highest bandwidth of one writer, such as a rank that writes its part of a checkpoint (default: as `per_stream`).
    #[schemars(extend("x-role" = Role::Limit))]
    write_per_stream: Field<Positive<BytesPerSecond>>,
    /// Highest bandwidth of all writers of one node together, beside what the node reads (default: reads and writes share `per_client`).
    #[schemars(extend("x-role" = Role::Limit))]
    write_per_client: Field<Positive<BytesPerSecond>>,
    /// Core time that each request costs the reading node; the request's time includes it (default: nothing).
    #[schemars(extend("x-role" = Role::Limit))]
    cpu: Field<CpuSettings>,
    /// Cache of the server's files on a tier of each node (default: nothing).
    #[schemars(extend("x-role" = Role::Limit))]
    cache: Field<CacheSettings>,
}

impl Kind for FileServer {
    fn name(&self) -> &'static str {
        "file-server"
    }

    fn tier(&self) -> Option<Tier> {
        Some(Tier::new(&self.capacity, &self.write_bandwidth))
    }

    fn writes(&self) -> WriteLimits {
        let rate = |key: &Field<Positive<BytesPerSecond>>| key.get().map(|of| of.0);
        WriteLimits {
            per_stream: rate(&self.write_per_stream),
            per_client: rate(&self.write_per_client),
        }
    }

    fn cache(&self) -> Option<&Field<CacheSettings>> {
        Some(&self.cache)
    }

    fn written(&self) -> Written {
        Written {
            bandwidth: self.bandwidth.is_written(),
            per_stream: self.per_stream.is_written(),
            per_client: self.per_client.is_written(),
            latency: self.latency.is_written(),
            operations: self.operations.is_written(),
            queues: false,
            burst: self.burst.is_written(),
        }
    }

    fn path(&self, check: Check<'_>, at: NodeId, _: &str) -> Option<RequestPath> {
        self.remark_on_profile(check, at);
        let remedy = "write `bandwidth = \"2 GB/s\"`";
        let bandwidth = match SharedFit::of(check).filter(|_| !self.bandwidth.is_written()) {
            Some(fit) => Bandwidth::Fixed(fit.bandwidth()),
            None => check.required(at, &self.bandwidth, "bandwidth", remedy)?.resolve(),
        };
        let burst = burst(check, &self.burst, &bandwidth);
        let keys =
            ServiceKeys { service: &self.service, in_flight: &self.in_flight, piece: &self.piece };
        let shared = SharedKeys {
            per_stream: &self.per_stream,
            per_client: &self.per_client,
            latency: &self.latency,
            operations: &self.operations,
        };
        let path = shared.fill(check, RequestPath::unlimited(Location::Shared, Access::Cold))?;
        Some(RequestPath {
            burst,
            operation_burst: operation_burst(check, &self.burst, path.operations),
            sharing: sharing(
                check,
                &keys,
                keys.resolve(check, ServiceOrder::Fair, f64::INFINITY),
                &path,
                bandwidth.most(),
            ),
            bandwidth,
            cpu: self.cpu.get().map(CpuSettings::resolve).unwrap_or_default(),
            ..path
        })
    }
}

impl FileServer {
    /// Remarks which limits are neither written nor taken from the profile, if there is one with reads.
    fn remark_on_profile(&self, check: Check<'_>, at: NodeId) {
        let keys = [
            ("latency", self.latency.is_written()),
            ("per_stream", self.per_stream.is_written()),
            ("operations", self.operations.is_written()),
            ("cpu", self.cpu.is_written()),
        ];
        let open = keys.iter().filter(|(_, written)| !written);
        let open: Vec<String> = open.map(|(key, _)| format!("`{key}`")).collect();
        let measured =
            |of: &crate::profile::Profile| of.read.is_empty() || of.shared_reads().is_some();
        if open.is_empty() || check.profile.is_none_or(measured) {
            return;
        }
        let path = check.document.path(at);
        check.remark(format!(
            "`{path}` takes nothing of the profile, whose reads are of one machine's own files: {} limit nothing unless they are \
             written.",
            open.join(", ")
        ));
    }
}
