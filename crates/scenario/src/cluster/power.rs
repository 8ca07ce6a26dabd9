//! Power that a node draws, at rest and at work.

use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::Amount;
use crate::role::Role;
use forebay_model::units::Power as Watts;
use schemars::JsonSchema;
use serde::Deserialize;

/// Power that a node draws: a constant part at rest, and more for each GPU and core at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    /// Power with all parts at rest, GPUs and cores included [W].
    pub idle: f64,
    /// Additional power for each GPU that computes [W]; for a GPU that several tasks share, in proportion to the part
    /// of the GPU that they use together.
    pub gpu: f64,
    /// Additional power for each busy core [W].
    pub core: f64,
}

/// Power that a node draws, at rest and at work.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PowerSettings {
    /// Power with all parts at rest, GPUs and cores included.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Output))]
    idle: Field<Amount<Watts>>,
    /// Additional power for each GPU that computes (default: 0 W).
    #[schemars(extend("x-role" = Role::Output))]
    gpu: Field<Amount<Watts>>,
    /// Additional power for each busy core (default: 0 W).
    #[schemars(extend("x-role" = Role::Output))]
    core: Field<Amount<Watts>>,
}

impl PowerSettings {
    /// Returns these settings, with the keys that are not set taken from `base`.
    pub(super) fn over(&self, base: &PowerSettings) -> PowerSettings {
        PowerSettings {
            idle: self.idle.or(&base.idle),
            gpu: self.gpu.or(&base.gpu),
            core: self.core.or(&base.core),
        }
    }

    /// Checks the table at document node `at` and returns its power settings; `None` if they are wrong.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Power> {
        let remedy = "write `power = { idle = \"300 W\", gpu = \"250 W\", core = \"8 W\" }`";
        let idle = check.required(at, &self.idle, "idle", remedy)?;
        let more = |field: &Field<Amount<Watts>>| field.get().map_or(0.0, |watts| watts.0);
        Some(Power { idle: idle.0, gpu: more(&self.gpu), core: more(&self.core) })
    }
}
