//! How `[job.model]` is written.

use super::StepTime;
use crate::scenario::check::Check;
use crate::scenario::distribution::settings::Jitter;
use crate::scenario::document::NodeId;
use crate::scenario::field::Field;
use crate::scenario::number::Amount;
use crate::units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// What is trained.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct ModelSettings {
    /// Time of one step of one model copy: forward, backward and update.
    #[schemars(required)]
    step: Field<StepSettings>,
    /// Factor drawn anew for each step and model copy, with mean 1 (default: none).
    jitter: Field<Jitter>,
}

/// Time of a step: `fixed + batch · per_sample`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct StepSettings {
    fixed: Field<Amount<Time>>,
    per_sample: Field<Amount<Time>>,
}

impl ModelSettings {
    /// The checked step time of the table at node `at`.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<StepTime> {
        check.required(at, &self.step, "step", "write `step = \"3 ms\"`");
        let jitter = match self.jitter.given() {
            Some((at, jitter)) => Some(jitter.resolve(check, at)?),
            None => None,
        };
        let (at, step) = self.step.given()?;
        let fixed = step.fixed.get().map_or(0.0, |time| time.0);
        let per_sample = step.per_sample.get().map_or(0.0, |time| time.0);
        if fixed == 0.0 && per_sample == 0.0 {
            let wrong = |time: &Field<Amount<Time>>| time.is_written() && time.get().is_none();
            if !wrong(&step.fixed) && !wrong(&step.per_sample) {
                let remedy = "write `step = \"3 ms\"` or `step = { fixed = \"2 ms\", per_sample = \
                              \"15 us\" }`";
                check.wrong(at, "a step takes no time", remedy);
            }
            return None;
        }
        Some(StepTime { fixed, per_sample, jitter })
    }
}

impl JsonSchema for StepSettings {
    fn schema_name() -> Cow<'static, str> {
        "StepTime".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Amount<Time>>();
        json_schema!({
            "anyOf": [time, {
                "type": "object",
                "properties": { "fixed": time, "per_sample": time },
                "additionalProperties": false,
                "minProperties": 1,
            }],
        })
    }
}
