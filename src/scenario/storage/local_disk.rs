//! A disk in each node.

use super::StorageKind;
use super::settings::BandwidthSettings;
use crate::scenario::Distribution;
use crate::scenario::check::Check;
use crate::scenario::distribution::settings::Varying;
use crate::scenario::document::NodeId;
use crate::scenario::field::Field;
use crate::scenario::number::Positive;
use crate::units::{Bandwidth, Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// A disk in each node.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct LocalDisk {
    /// Bandwidth of a node's disk, by number of concurrent transfers where it is a list.
    #[schemars(required)]
    bandwidth: Field<BandwidthSettings>,
    /// Fastest that one transfer may go (default: infinite).
    per_stream: Field<Positive<Bandwidth>>,
    /// Time from request to first byte (default: 0 s).
    latency: Field<Varying<Time>>,
    /// Operations per second of a node's disk (default: infinite).
    operations: Field<Positive<Rate>>,
}

impl LocalDisk {
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<StorageKind> {
        let remedy = "write `bandwidth = \"2 GB/s\"`";
        let bandwidth = check.required(at, &self.bandwidth, "bandwidth", remedy);
        let latency = match self.latency.given() {
            Some((at, latency)) => latency.resolve(check, at)?,
            None => Distribution::Constant(0.0),
        };
        Some(StorageKind::LocalDisk {
            bandwidth: bandwidth?.resolve(),
            per_stream: self.per_stream.get().map_or(f64::INFINITY, |given| given.0),
            latency,
            operations: self.operations.get().map_or(f64::INFINITY, |given| given.0),
        })
    }
}
