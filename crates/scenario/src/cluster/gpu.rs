//! Setting `cluster.node.gpu`: the name of a GPU in the catalogue.

use crate::names::choose;
use forebay_model::catalogue::{self, GPUS, Gpu};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A GPU of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GpuName(pub(super) &'static Gpu);

fn names() -> Vec<&'static str> {
    GPUS.iter().map(|gpu| gpu.name).collect()
}

impl<'de> Deserialize<'de> for GpuName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = GpuName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a GPU, such as \"v100-sxm2\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<GpuName, E> {
                let unknown =
                    || E::custom(format!("unknown GPU {text:?}\n{}", choose(text, &names())));
                catalogue::gpu(text).map(GpuName).ok_or_else(unknown)
            }
        }

        deserializer.deserialize_str(Name)
    }
}

impl JsonSchema for GpuName {
    fn schema_name() -> Cow<'static, str> {
        "GpuName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": names() })
    }
}
