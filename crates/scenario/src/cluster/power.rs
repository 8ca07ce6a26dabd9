//! What a node draws, at rest and at work.

use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Amount;
use forebay_model::units::Power as Watts;
use schemars::JsonSchema;
use serde::Deserialize;

/// What a node draws: so much at rest, and more for what is at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// With all at rest, GPUs and cores included [W].
    pub idle: f64,
    /// More, for each GPU that computes, or for the part of one that several use at once [W].
    pub gpu: f64,
    /// More, for each core that is busy [W].
    pub core: f64,
}

/// What a node draws, at rest and at work.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PowerSettings {
    /// With all at rest, GPUs and cores included.
    #[schemars(required)]
    idle: Field<Amount<Watts>>,
    /// More, for each GPU that computes (default: 0 W).
    gpu: Field<Amount<Watts>>,
    /// More, for each core that is busy (default: 0 W).
    core: Field<Amount<Watts>>,
}

impl PowerSettings {
    /// These keys, and those of `base` where they are not written.
    pub(super) fn over(&self, base: &PowerSettings) -> PowerSettings {
        PowerSettings {
            idle: self.idle.or(&base.idle),
            gpu: self.gpu.or(&base.gpu),
            core: self.core.or(&base.core),
        }
    }

    /// The checked power of the table at node `at`.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Power> {
        let remedy = "write `power = { idle = \"300 W\", gpu = \"250 W\", core = \"8 W\" }`";
        let idle = check.required(at, &self.idle, "idle", remedy)?;
        let more = |field: &Field<Amount<Watts>>| field.get().map_or(0.0, |watts| watts.0);
        Some(Power { idle: idle.0, gpu: more(&self.gpu), core: more(&self.core) })
    }
}
