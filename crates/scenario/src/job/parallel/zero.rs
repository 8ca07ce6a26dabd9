//! Settings of `[job.parallel.zero]`: state that data parallel ranks shard.

use crate::field::Field;
use crate::number::Count;
use schemars::JsonSchema;

/// Sharding of state over data parallel ranks, instead of full copies on each rank (Rajbhandari et al., *ZeRO*, 2020).
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ZeroSettings {
    /// ZeRO's stage, which says what is sharded: 1, the optimizer's values; 2, gradients too; 3, parameters too.
    #[schemars(required)]
    pub(super) stage: Field<Count<1, 3>>,
}
