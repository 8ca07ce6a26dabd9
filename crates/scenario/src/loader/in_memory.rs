//! Synthetic data: batches that are always ready.

use super::settings::ResolvedLoader;
use super::{Order, Stage, StageGraph, Unit};
use schemars::JsonSchema;
use serde::Deserialize;

/// Synthetic data: batches that are always ready, which show how fast training alone is. Nothing is
/// read, kept in memory or cached, whatever the data set and its storage.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InMemory {}

impl InMemory {
    pub(super) fn resolve() -> ResolvedLoader {
        let stage = Stage {
            name: "memory".to_owned(),
            workers: 1,
            unit: Unit::Batch,
            per_sample: Vec::new(),
            per_item: Vec::new(),
            order: Order::Any,
            buffer: 1,
            ..Stage::default()
        };
        let graph = StageGraph::new(vec![stage]);
        ResolvedLoader { graph, last_buffer: None }
    }
}
