//! A loader of stages that the user defines.

use super::decode::DecodeSettings;
use super::settings::Placed;
use super::{Operation, Order, Stage, Unit};
use crate::Dataset;
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Count, Positive};
use crate::role::Role;
use forebay_model::units::{self, Bandwidth, Batches, Samples, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Maximum number of items of a buffer.
pub(super) const MOST_ITEMS: u64 = 1_000_000_000;

/// A pool of identical workers and the buffer that they fill.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StageSettings {
    /// Name, for reports and traces.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    name: Field<String>,
    /// Number of workers in each loader: one on each node or, with `loaders = "per-rank"`, one for each model copy.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    workers: Field<Count<1, 1_000_000>>,
    /// Items of this stage, samples or batches (default: "sample").
    #[schemars(extend("x-role" = Role::Choice))]
    unit: Field<Unit>,
    /// Work for each sample of an item, one after the other (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    per_sample: Field<List<OperationSettings>>,
    /// Work for an item as a whole, after the work for its samples (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    per_item: Field<List<OperationSettings>>,
    /// Order in which items enter the buffer (default: "any").
    #[schemars(extend("x-role" = Role::Choice))]
    order: Field<Order>,
    /// Items that fit into the buffer: a number of items, samples or batches.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) buffer: Field<BufferSize>,
    /// Number of items that stay in the buffer as long as more items may arrive, as in a shuffle buffer: a number of
    /// items, samples or batches (default: none).
    #[schemars(extend("x-role" = Role::Identity))]
    kept: Field<BufferSize>,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum OperationSettings {
    /// Read one sample from the job's storage: first stage, `per_sample` only.
    Read,
    /// Copy the item's decoded bytes to the device.
    Copy,
    /// Use a core to copy the item's decoded bytes, at this rate: `per_item` only.
    Memcpy(Positive<Bandwidth>),
    /// Decode the sample, `per_sample` only: `"decode"` alone takes the profile's law; otherwise core-seconds,
    /// which may depend on its bytes and pixels.
    Decode(DecodeSettings),
    /// Use a core of the node, for core-seconds.
    Compute(Varying<Time>),
    /// Do nothing for a time: a remote service, a sleep.
    Delay(Varying<Time>),
}

/// Size of a buffer in any unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum BufferSize {
    Items(u64),
    Samples(u64),
    Batches(u64),
}

impl StageSettings {
    /// Checks the table at document node `at` and returns its stage, for batches of `batch` samples; `None` if the
    /// table is invalid.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        batch: u64,
        dataset: Option<&Dataset>,
    ) -> Option<Placed> {
        let name = check.required(at, &self.name, "name", "write `name = \"read\"`");
        let workers = check.required(at, &self.workers, "workers", "write `workers = 4`");
        check.required(at, &self.buffer, "buffer", "write `buffer = \"64 samples\"`");
        let unit = self.unit.get().copied().unwrap_or(Unit::Sample);
        let items = |(at, size): (NodeId, &BufferSize)| size.items(check, at, unit, batch);
        let buffer = self.buffer.given().and_then(items);
        let kept = self.kept.given().map_or(Some(0), items);
        let (per_sample, samples) = operations(check, &self.per_sample, dataset)?;
        let (per_item, items) = operations(check, &self.per_item, dataset)?;
        let stage = Stage {
            name: name?.clone(),
            workers: workers?.small(),
            unit,
            per_sample,
            per_item,
            order: self.order.get().copied().unwrap_or(Order::Any),
            buffer: buffer?,
            kept: kept?,
            ..Stage::default()
        };
        Some(Placed { stage, at, buffer: self.buffer.at, per_sample: samples, per_item: items })
    }
}

/// Checks a list of operations and returns them with their document nodes; `None` if an operation is invalid.
fn operations(
    check: Check<'_>,
    list: &Field<List<OperationSettings>>,
    dataset: Option<&Dataset>,
) -> Option<(Vec<Operation>, Vec<NodeId>)> {
    let fields = list.get().map_or(&[][..], |list| &list.0);
    let resolved = fields.iter().map(|field| {
        let (at, settings) = field.given()?;
        let operation = match settings {
            OperationSettings::Read => Operation::Read,
            OperationSettings::Copy => Operation::Copy,
            OperationSettings::Memcpy(rate) => Operation::Memcpy(1.0 / rate.0),
            OperationSettings::Decode(decode) => {
                decode.resolve(check, check.inside(at), dataset)?
            }
            OperationSettings::Compute(work) => {
                Operation::Compute(work.resolve(check, check.inside(at))?)
            }
            OperationSettings::Delay(time) => {
                Operation::Delay(time.resolve(check, check.inside(at))?)
            }
        };
        Some((operation, at))
    });
    // All operations are checked before the first wrong one makes the result `None`, so that all problems are recorded.
    let resolved: Vec<_> = resolved.collect();
    resolved.into_iter().collect()
}

impl BufferSize {
    /// Returns the size of a buffer as a number of items, each of which is a `unit`; reports a problem and returns
    /// `None` if the size is invalid.
    fn items(self, check: Check<'_>, at: NodeId, unit: Unit, batch: u64) -> Option<u64> {
        let items = match (self, unit) {
            (Self::Items(items), _)
            | (Self::Samples(items), Unit::Sample)
            | (Self::Batches(items), Unit::Batch) => items,
            (Self::Batches(batches), Unit::Sample) => batches.saturating_mul(batch),
            (Self::Samples(samples), Unit::Batch) => {
                if !samples.is_multiple_of(batch) {
                    let what =
                        format!("{samples} samples are no whole number of batches of {batch}");
                    check.wrong(at, what, "write a number of batches: \"4 batches\"");
                    return None;
                }
                samples / batch
            }
        };
        if items > MOST_ITEMS {
            let what = format!("a buffer of {items} items cannot be simulated");
            check.wrong(at, what, format!("write at most {MOST_ITEMS} items"));
            return None;
        }
        Some(items)
    }
}

impl<'de> Deserialize<'de> for BufferSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeInAnyUnit;

        impl Visitor<'_> for SizeInAnyUnit {
            type Value = BufferSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"64 samples\", \"4 batches\" or a number of items")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BufferSize, E> {
                let deserializer = serde::de::value::StrDeserializer::new(text);
                if text.parse::<units::Quantity<Batches>>().is_ok() {
                    let batches = Positive::<Batches>::deserialize(deserializer)?;
                    return Ok(BufferSize::Batches(batches.whole()));
                }
                if text.parse::<units::Quantity<Samples>>().is_ok() {
                    let samples = Positive::<Samples>::deserialize(deserializer)?;
                    return Ok(BufferSize::Samples(samples.whole()));
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<BufferSize, E> {
                Count::<1, MOST_ITEMS>::check(value).map(|items| BufferSize::Items(items.0))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<BufferSize, E> {
                Count::<1, MOST_ITEMS>::check(value).map(|items| BufferSize::Items(items.0))
            }
        }

        deserializer.deserialize_any(SizeInAnyUnit)
    }
}

impl JsonSchema for BufferSize {
    fn schema_name() -> Cow<'static, str> {
        "BufferSize".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let samples = generator.subschema_for::<Positive<Samples>>();
        let batches = generator.subschema_for::<Positive<Batches>>();
        let items = json_schema!({ "type": "integer", "minimum": 1, "maximum": MOST_ITEMS });
        json_schema!({ "anyOf": [items, samples, batches] })
    }
}
