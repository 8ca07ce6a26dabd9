//! Settings of `[run]`.

use super::check::Check;
use super::document::NodeId;
use super::field::Field;
use super::number::{Count, Factor, Positive, Precision};
use super::{Run, Stop, WarmUp};
use crate::role::Role;
use forebay_model::units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Largest number of steps of a job: their times must fit into memory.
pub(super) const MOST_STEPS: u64 = 1_000_000_000;

/// Maximum number of events of a replication that the scenario may set: hours of wall-clock time.
const MOST_EVENTS: u64 = 1_000_000_000_000;

/// Default number of replications if the scenario sets the length of the run.
const REPLICATIONS: u32 = 5;

/// Length, replications and seed of the run.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunSettings {
    /// Steps of each job. Write one of `steps`, `epochs` and `duration`, or none: then the run ends as soon as the throughput of
    /// every job is known to `precision`.
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) steps: Field<Count<1, MOST_STEPS>>,
    /// Passes of each job over its data set, whole or fractional.
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) epochs: Field<Factor>,
    /// Simulated time after which all jobs stop.
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) duration: Field<Positive<Time>>,
    /// Precision at which a run ends if its length is not set: half-width of the 95 % interval of each job's throughput,
    /// relative to the mean (default: 0.005).
    #[schemars(extend("x-role" = Role::Output))]
    precision: Field<Precision>,
    /// Maximum number of events of each replication if the length of the run is not set (default: 20 million).
    #[schemars(extend("x-role" = Role::Output))]
    most: Field<Count<10_000, MOST_EVENTS>>,
    /// Warm-up: the beginning of each job, which results leave out. "auto": until the loader's buffers are in balance, and at
    /// least as long as MSER-5 finds from the step times; or a number of steps; or "off" (default: "auto").
    #[schemars(extend("x-role" = Role::Output))]
    warm_up: Field<WarmUp>,
    /// Number of independent replications (default: 5; 1 if the length of the run is not set).
    #[schemars(extend("x-role" = Role::Output))]
    replications: Field<Count<1, 100_000>>,
    /// Seed of all random numbers (default: 1).
    #[schemars(extend("x-role" = Role::Output))]
    seed: Field<Count<0, { u64::MAX }>>,
}

impl RunSettings {
    /// Checks the table at document node `at` and returns the run that it describes; `None` if the table is invalid.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Run> {
        let choices =
            [("steps", self.steps.at), ("epochs", self.epochs.at), ("duration", self.duration.at)];
        let written = choices.iter().any(|(_, at)| at.is_some());
        let stop = match written.then(|| check.one_of(at, &choices, "keep one of them")) {
            None => self.until_known(),
            Some(None) => return None,
            Some(Some(0)) => Stop::Steps(self.steps.get()?.0),
            Some(Some(1)) => Stop::Epochs(self.epochs.get()?.0),
            Some(Some(_)) => Stop::Duration(self.duration.get()?.0),
        };
        if written {
            check.no_effect(self.precision.at, "the length of the run is written");
            check.no_effect(self.most.at, "the length of the run is written");
        }
        let warm_up = self.warm_up.get().copied().unwrap_or(WarmUp::Auto);
        if let (WarmUp::Steps(leave_out), Stop::Steps(steps)) = (warm_up, stop)
            && leave_out >= steps
        {
            let at = check.blame(&[self.warm_up.at, self.steps.at], at);
            let what = format!("all {steps} steps are warm-up: nothing is left to measure");
            check.wrong(at, what, "write a smaller `warm_up`, or more `steps`");
        }
        let replications = if written { REPLICATIONS } else { 1 };
        Some(Run {
            stop,
            warm_up,
            replications: self.replications.get().map_or(replications, |n| n.small()),
            seed: self.seed.get().map_or(1, |seed| seed.0),
        })
    }

    /// Returns how a run ends if its length is not set.
    fn until_known(&self) -> Stop {
        let Stop::Known { precision, most } = Run::default().stop else {
            return Run::default().stop;
        };
        Stop::Known {
            precision: self.precision.get().map_or(precision, |of| of.0),
            most: self.most.get().map_or(most, |of| of.0),
        }
    }
}

impl Default for Run {
    /// Returns the run of a scenario without `[run]`.
    fn default() -> Run {
        let stop = Stop::Known { precision: 0.005, most: 20_000_000 };
        Run { stop, warm_up: WarmUp::Auto, replications: 1, seed: 1 }
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
