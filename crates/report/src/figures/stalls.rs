//! Shares of time that accelerators wait, by cause.

use crate::{Cause, StallCause};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;

use super::Figure;

/// Shares of time that accelerators waited.
#[derive(Debug, Clone, PartialEq)]
pub struct StallReport {
    /// All causes together.
    pub total: Figure,
    /// Share for each cause, in a fixed order. The usual causes are always listed, the others only if they occurred.
    pub causes: Vec<(StallCause, Figure)>,
}

impl StallReport {
    /// Returns the share of time that accelerators waited for one cause; 0 if it was not observed.
    pub fn share(&self, of: StallCause) -> f64 {
        let found = self.causes.iter().find(|(cause, _)| *cause == of);
        found.and_then(|(_, figure)| figure.mean).unwrap_or(0.0)
    }

    /// Returns the cause with the largest share of time, and that share; `None` if accelerators never waited. A rank's wait and
    /// the waits of its peers for the same cause count as one cause, named after the rank's own wait.
    ///
    /// `ranks` is the number of model copies, which start each step together. If a rank starts to compute late because of its own
    /// wait, each other rank later waits equally long for this rank to finish computing, even if all step times are equal. Waits
    /// for computing peers therefore count as a separate cause only if they exceed this time. Communication ends for all ranks at
    /// once, so no rank starts late because of it.
    pub fn largest(&self, ranks: f64) -> Option<(StallCause, f64)> {
        let late = Cause::ALL.iter().filter(|cause| **cause != Cause::Communication);
        let own: f64 = late.map(|cause| self.share(StallCause::own(*cause))).sum();
        let uneven = self.share(StallCause::peer(Cause::Compute)) > 1.01 * own * (ranks - 1.0);
        let together = Cause::ALL.iter().filter(|cause| uneven || **cause != Cause::Compute);
        let together = together.map(|cause| {
            let (own, peer) = (StallCause::own(*cause), StallCause::peer(*cause));
            let first = if self.share(own) > 0.0 { own } else { peer };
            (first, self.share(own) + self.share(peer))
        });
        // Of equal shares the first one wins.
        let largest = together.rev().max_by(|a, b| a.1.total_cmp(&b.1));
        largest.filter(|(_, share)| *share > 0.0)
    }
}

impl Serialize for StallReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.causes.len()))?;
        map.serialize_entry("total", &self.total)?;
        for (cause, figure) in &self.causes {
            map.serialize_entry(&cause.to_string(), figure)?;
        }
        map.end()
    }
}

impl JsonSchema for StallReport {
    fn schema_name() -> Cow<'static, str> {
        "StallReport".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let figure = generator.subschema_for::<Figure>();
        let own =
            Cause::ALL.map(StallCause::own).into_iter().filter(|of| of.cause != Cause::Compute);
        let names = own.chain(Cause::ALL.map(StallCause::peer)).map(|of| of.to_string());
        let names = ["total".to_owned()].into_iter().chain(names);
        let properties: serde_json::Map<_, _> =
            names.map(|name| (name, figure.clone().to_value())).collect();
        json_schema!({ "type": "object", "properties": properties, "required": ["total"] })
    }
}
