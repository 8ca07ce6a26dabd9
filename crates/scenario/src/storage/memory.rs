//! Storage in the main memory of each node.

use super::settings::{BandwidthSettings, Kind};
use super::tier::Tier;
use super::{Access, Bandwidth, Location, RequestPath, Written};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Positive;
use crate::role::Role;
use forebay_model::units::{self, Size};
use schemars::JsonSchema;
use serde::Deserialize;

/// The main memory of each node, which is limited by its bandwidth alone.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    /// Bandwidth of a node's memory (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    bandwidth: Field<BandwidthSettings>,
    /// Capacity of each node's memory for data that is copied to it (default: the node's memory).
    #[schemars(extend("x-role" = Role::Limit))]
    capacity: Field<Positive<Size>>,
    /// Bandwidth of a node's writes, which share the memory with its reads (default: as that of
    /// reads).
    #[schemars(extend("x-role" = Role::Limit))]
    write_bandwidth: Field<Positive<units::Bandwidth>>,
}

impl Kind for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn tier(&self) -> Option<Tier> {
        Some(Tier::new(&self.capacity, &self.write_bandwidth))
    }

    fn written(&self) -> Written {
        Written { bandwidth: self.bandwidth.is_written(), ..Written::default() }
    }

    fn path(&self, _: Check<'_>, _: NodeId, _: &str) -> Option<RequestPath> {
        let given = self.bandwidth.get().map(BandwidthSettings::resolve);
        Some(RequestPath {
            bandwidth: given.unwrap_or(Bandwidth::Fixed(f64::INFINITY)),
            ..RequestPath::unlimited(Location::NodeMemory, Access::Warm)
        })
    }
}
