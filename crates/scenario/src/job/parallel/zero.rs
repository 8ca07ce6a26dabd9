//! States sharded over data parallel ranks: how `[job.parallel.zero]` is written.

use crate::field::Field;
use crate::number::Count;
use schemars::JsonSchema;

/// Data parallel ranks shard states that they would all have (Rajbhandari et al., *ZeRO*, 2020).
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ZeroSettings {
    /// What: 1, the optimizer's values; 2, gradients too; 3, parameters too.
    #[schemars(required)]
    pub(super) stage: Field<Count<1, 3>>,
}
