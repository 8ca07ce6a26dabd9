//! The node's main memory.

use super::settings::BandwidthSettings;
use super::{Bandwidth, StorageKind, Written};
use crate::scenario::field::Field;
use schemars::JsonSchema;
use serde::Deserialize;

/// The node's main memory: nothing but bytes, each node by itself.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Memory {
    /// Bandwidth of a node's memory (default: infinite).
    bandwidth: Field<BandwidthSettings>,
}

impl Memory {
    pub(super) fn written(&self) -> Written {
        Written { bandwidth: self.bandwidth.is_written(), ..Written::default() }
    }

    pub(super) fn resolve(&self) -> StorageKind {
        let given = self.bandwidth.get().map(BandwidthSettings::resolve);
        StorageKind::Memory { bandwidth: given.unwrap_or(Bandwidth::Fixed(f64::INFINITY)) }
    }
}
