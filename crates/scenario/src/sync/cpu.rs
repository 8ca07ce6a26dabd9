//! Core time that messages cost at the nodes that send and receive them.

use crate::field::Field;
use crate::number::Amount;
use crate::role::Role;
use forebay_model::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// Core-seconds of a message: its sender pays them before the bytes leave, and its receiver pays them again when
/// the bytes have arrived. This is the overhead of LogP (D. Culler et al., *LogP: Towards a Realistic Model of
/// Parallel Computation*, 1993), which may grow with size (T. Kielmann et al., *Fast Measurement of LogP Parameters
/// for Message Passing Platforms*, 2000).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MessageCpu {
    /// Core time for each message [core-s].
    pub per_message: f64,
    /// Core time for each byte [core-s/B].
    pub per_byte: f64,
}

impl MessageCpu {
    /// Returns the core time of a message of `bytes` bytes at each of its two ends [core-s].
    #[must_use]
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.per_message + self.per_byte * bytes
    }

    /// Returns whether messages cost no core time.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == MessageCpu::default()
    }
}

/// Core time that a message costs its sender, and again its receiver. It is zero for every transport unless it is
/// set: NICs with RDMA take no core time, and the cost of sockets depends so much on kernel, packets and NIC that it
/// has to be measured.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CpuSettings {
    /// Core time for each message (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    per_message: Field<Amount<Time>>,
    /// Core time for each byte (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    per_byte: Field<Amount<Time>>,
}

impl CpuSettings {
    pub(super) fn resolve(&self) -> MessageCpu {
        let or_zero = |field: &Field<Amount<Time>>| field.get().map_or(0.0, |given| given.0);
        MessageCpu { per_message: or_zero(&self.per_message), per_byte: or_zero(&self.per_byte) }
    }
}
