//! Settings of `prefill`.

use crate::number::Amount;
use forebay_model::units::Samples;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Samples in the last buffer at the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Prefill {
    Full,
    Samples(u64),
}

impl<'de> Deserialize<'de> for Prefill {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrSamples;

        impl Visitor<'_> for WordOrSamples {
            type Value = Prefill;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"full\" or a number of samples, like \"1000 samples\",")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Prefill, E> {
                if text == "full" {
                    return Ok(Prefill::Full);
                }
                let text = serde::de::value::StrDeserializer::new(text);
                Amount::<Samples>::deserialize(text)
                    .map(|samples| Prefill::Samples(samples.whole()))
            }
        }

        deserializer.deserialize_any(WordOrSamples)
    }
}

impl JsonSchema for Prefill {
    fn schema_name() -> Cow<'static, str> {
        "Prefill".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let samples = generator.subschema_for::<Amount<Samples>>();
        json_schema!({ "anyOf": [{ "const": "full" }, samples] })
    }
}
