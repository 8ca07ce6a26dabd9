//! One server that all nodes share, behind their NICs.

use super::settings::{BandwidthSettings, CpuSettings};
use super::tier::{CacheSettings, Tier};
use super::{StorageKind, Written};
use crate::Distribution;
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Positive;
use forebay_model::units::{Bandwidth, Rate, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// One server that all nodes share, behind their NICs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileServer {
    /// Bandwidth of the server, by number of concurrent transfers where it is a list.
    #[schemars(required)]
    bandwidth: Field<BandwidthSettings>,
    /// Fastest that one transfer may go (default: infinite).
    per_stream: Field<Positive<Bandwidth>>,
    /// Time from request to first byte (default: 0 s).
    latency: Field<Varying<Time>>,
    /// Operations per second of the server (default: infinite).
    operations: Field<Positive<Rate>>,
    /// Bytes that it holds, for what jobs stage to it (default: as many as they are).
    capacity: Field<Positive<Size>>,
    /// Bandwidth of all writes together, which share it with reads (default: as that of reads).
    write_bandwidth: Field<Positive<Bandwidth>>,
    /// What a request costs the reading node's cores, as part of its time (default: nothing).
    cpu: Field<CpuSettings>,
    /// What each node keeps of it on a tier of its own (default: nothing).
    pub(super) cache: Field<CacheSettings>,
}

impl FileServer {
    pub(super) fn tier(&self) -> Tier {
        Tier::new(&self.capacity, &self.write_bandwidth)
    }

    pub(super) fn written(&self) -> Written {
        Written {
            bandwidth: self.bandwidth.is_written(),
            per_stream: self.per_stream.is_written(),
            latency: self.latency.is_written(),
            operations: self.operations.is_written(),
        }
    }

    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<StorageKind> {
        let remedy = "write `bandwidth = \"2 GB/s\"`";
        let bandwidth = check.required(at, &self.bandwidth, "bandwidth", remedy);
        let latency = match self.latency.given() {
            Some((at, latency)) => latency.resolve(check, at)?,
            None => Distribution::Constant(0.0),
        };
        Some(StorageKind::FileServer {
            bandwidth: bandwidth?.resolve(),
            per_stream: self.per_stream.get().map_or(f64::INFINITY, |given| given.0),
            latency,
            operations: self.operations.get().map_or(f64::INFINITY, |given| given.0),
            cpu: self.cpu.get().map(CpuSettings::resolve).unwrap_or_default(),
            targets: None,
            limit: None,
            objects: false,
        })
    }
}
