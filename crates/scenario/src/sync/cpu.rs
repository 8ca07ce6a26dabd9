//! What messages cost the cores of nodes.

use crate::field::Field;
use crate::number::Amount;
use forebay_model::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// Core-seconds of a message, paid by its sender before the bytes leave and as much by its receiver when they
/// are there: the overhead of LogP (D. Culler et al., *LogP: Towards a Realistic Model of Parallel
/// Computation*, 1993), which may grow with size (T. Kielmann et al., *Fast Measurement of LogP Parameters
/// for Message Passing Platforms*, 2000).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MessageCpu {
    /// For each message [core-s].
    pub per_message: f64,
    /// For each byte [core-s/B].
    pub per_byte: f64,
}

impl MessageCpu {
    /// What a message of so many bytes costs at each of its ends [core-s].
    #[must_use]
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.per_message + self.per_byte * bytes
    }

    /// Whether messages leave cores alone.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == MessageCpu::default()
    }
}

/// Time of a node's core that a message costs, at its sender and again at its receiver. Nothing unless it is
/// written, of any transport: NICs with RDMA leave cores alone, and what sockets cost depends on kernel,
/// packets and NIC so much that it has to be measured.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CpuSettings {
    /// For each message (default: 0 s).
    per_message: Field<Amount<Time>>,
    /// For each byte (default: 0 s).
    per_byte: Field<Amount<Time>>,
}

impl CpuSettings {
    pub(super) fn resolve(&self) -> MessageCpu {
        let or_zero = |field: &Field<Amount<Time>>| field.get().map_or(0.0, |given| given.0);
        MessageCpu { per_message: or_zero(&self.per_message), per_byte: or_zero(&self.per_byte) }
    }
}
