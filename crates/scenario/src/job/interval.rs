//! Settings of `batch_interval`.

use super::BatchInterval;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Factor, Positive};
use crate::role::Role;
use forebay_model::units::Samples;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// How often a model copy takes a fresh batch.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IntervalSettings {
    /// A fresh batch is taken after a fixed number of steps, which may be a fraction.
    Every(Factor),
    /// A fresh batch is taken when the queue holds enough samples.
    Adaptive(AdaptiveSettings),
}

/// A fresh batch is taken when the queue holds enough samples, and at the latest after `max` steps on one batch.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdaptiveSettings {
    /// Number of samples in the queue from which on a model copy takes a fresh batch, even if it has done fewer than
    /// `max` steps on its last one.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) level: Field<Positive<Samples>>,
    /// Maximum number of steps on one batch.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    max: Field<Count<1, 1_000_000_000>>,
}

impl AdaptiveSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<BatchInterval> {
        let remedy = "write `level = \"512 samples\"`";
        let level = check.required(at, &self.level, "level", remedy);
        let max = check.required(at, &self.max, "max", "write `max = 16`");
        Some(BatchInterval::Adaptive { level: level?.whole(), max: max?.0 })
    }
}

impl JsonSchema for IntervalSettings {
    fn schema_name() -> Cow<'static, str> {
        "BatchInterval".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let adaptive = generator.subschema_for::<AdaptiveSettings>();
        let every = json_schema!({ "type": "number", "minimum": 1, "description": "Steps on one batch; may be a fraction." });
        json_schema!({
            "anyOf": [every, {
                "type": "object",
                "properties": { "every": every, "adaptive": adaptive },
                "additionalProperties": false,
                "minProperties": 1,
                "maxProperties": 1,
            }],
        })
    }
}

impl IntervalSettings {
    /// Returns the checked interval of the value at document node `at`; `None` if it is wrong.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<BatchInterval> {
        match self {
            Self::Every(steps) if steps.0 < 1.0 => {
                let remedy = "write at least 1; for more samples per step write a larger `batch`";
                let what = format!("an interval of {} steps is less than one", steps.0);
                check.wrong(at, what, remedy);
                None
            }
            Self::Every(steps) => Some(BatchInterval::Every(steps.0)),
            Self::Adaptive(adaptive) => adaptive.resolve(check, check.inside(at)),
        }
    }
}
