//! What serves requests: a disk in each node, or one server for all.

use super::Bandwidth;
use super::settings::BandwidthSettings;
use crate::scenario::Distribution;
use crate::scenario::check::Check;
use crate::scenario::distribution::settings::Varying;
use crate::scenario::document::NodeId;
use crate::scenario::field::Field;
use crate::scenario::number::Positive;
use crate::units::{self, Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// What serves requests.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct DeviceSettings {
    /// Bandwidth of the server, or of a node's disk; by number of concurrent transfers where it is
    /// a list.
    #[schemars(required)]
    bandwidth: Field<BandwidthSettings>,
    /// Fastest that one transfer may go (default: infinite).
    per_stream: Field<Positive<units::Bandwidth>>,
    /// Time from request to first byte (default: 0 s).
    latency: Field<Varying<Time>>,
    /// Operations per second of the server, or of a node's disk (default: infinite).
    operations: Field<Positive<Rate>>,
}

/// What serves requests, checked.
pub(super) struct Device {
    pub(super) bandwidth: Bandwidth,
    pub(super) per_stream: f64,
    pub(super) latency: Distribution,
    pub(super) operations: f64,
}

impl DeviceSettings {
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Device> {
        let remedy = "write `bandwidth = \"2 GB/s\"`";
        let bandwidth = check.required(at, &self.bandwidth, "bandwidth", remedy);
        let latency = match self.latency.given() {
            Some((at, latency)) => latency.resolve(check, at)?,
            None => Distribution::Constant(0.0),
        };
        Some(Device {
            bandwidth: bandwidth?.resolve(),
            per_stream: self.per_stream.get().map_or(f64::INFINITY, |given| given.0),
            latency,
            operations: self.operations.get().map_or(f64::INFINITY, |given| given.0),
        })
    }
}
