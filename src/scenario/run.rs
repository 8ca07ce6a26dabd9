//! How `[run]` is written.

use super::check::Check;
use super::document::NodeId;
use super::field::Field;
use super::number::{Count, Factor, Positive};
use super::{Run, Stop, WarmUp};
use crate::units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Most steps of a job, so that their times fit into memory.
pub(super) const MOST_STEPS: u64 = 1_000_000_000;

/// How long to run, how often, from which seed.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSettings {
    /// Steps of each job. Write one of `steps`, `epochs` and `duration`.
    pub(super) steps: Field<Count<1, MOST_STEPS>>,
    /// Passes of each job over its data set; may be a fraction.
    pub(super) epochs: Field<Factor>,
    /// Simulated time after which everything stops.
    pub(super) duration: Field<Positive<Time>>,
    /// What to leave out at the beginning of each job: "auto" (MSER-5 on the step times), a number
    /// of steps, or "off" (default: "auto").
    warm_up: Field<WarmUp>,
    /// Independent repetitions (default: 5).
    replications: Field<Count<1, 100_000>>,
    /// Where all randomness comes from (default: 1).
    seed: Field<Count<0, { u64::MAX }>>,
}

impl RunSettings {
    /// The checked run of the table at node `at`.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Run> {
        let choices =
            [("steps", self.steps.at), ("epochs", self.epochs.at), ("duration", self.duration.at)];
        let remedy = "write `steps = 500`, `epochs = 2` or `duration = \"10 min\"`";
        let stop = match check.one_of(at, &choices, remedy)? {
            0 => Stop::Steps(self.steps.get()?.0),
            1 => Stop::Epochs(self.epochs.get()?.0),
            _ => Stop::Duration(self.duration.get()?.0),
        };
        let warm_up = self.warm_up.get().copied().unwrap_or(WarmUp::Auto);
        if let (WarmUp::Steps(leave_out), Stop::Steps(steps)) = (warm_up, stop)
            && leave_out >= steps
        {
            let at = check.blame(&[self.warm_up.at, self.steps.at], at);
            let what = format!("all {steps} steps are warm-up: nothing is left to measure");
            check.wrong(at, what, "write a smaller `warm_up`, or more `steps`");
        }
        Some(Run {
            stop,
            warm_up,
            replications: self.replications.get().map_or(5, |n| n.small()),
            seed: self.seed.get().map_or(1, |seed| seed.0),
        })
    }
}

impl<'de> Deserialize<'de> for WarmUp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrNumber;

        impl Visitor<'_> for WordOrNumber {
            type Value = WarmUp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\", \"off\" or a number of steps")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<WarmUp, E> {
                match text {
                    "auto" => Ok(WarmUp::Auto),
                    "off" => Ok(WarmUp::Off),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<WarmUp, E> {
                Count::<0, MOST_STEPS>::check(value).map(|steps| WarmUp::Steps(steps.0))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<WarmUp, E> {
                Count::<0, MOST_STEPS>::check(value).map(|steps| WarmUp::Steps(steps.0))
            }
        }

        deserializer.deserialize_any(WordOrNumber)
    }
}

impl JsonSchema for WarmUp {
    fn schema_name() -> Cow<'static, str> {
        "WarmUp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "enum": ["auto", "off"] }, { "type": "integer", "minimum": 0 }],
        })
    }
}
