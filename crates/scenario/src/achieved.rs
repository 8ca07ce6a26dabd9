//! Numbers that a scenario says were measured, although data sheets have such numbers too.

use super::check::Check;
use super::field::{Field, List};
use schemars::JsonSchema;
use serde::Deserialize;

/// A key whose value was measured: no range of published results is drawn for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
pub enum Achieved {
    /// What a NIC reaches.
    #[serde(rename = "cluster.network.nic")]
    Nic,
    /// What a NIC of the network for storage reaches.
    #[serde(rename = "cluster.network.storage_nic")]
    StorageNic,
    /// What the link between the GPUs of a node reaches.
    #[serde(rename = "cluster.node.intra.bandwidth")]
    Intra,
}

impl Achieved {
    /// Returns the key.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Nic => "cluster.network.nic",
            Self::StorageNic => "cluster.network.storage_nic",
            Self::Intra => "cluster.node.intra.bandwidth",
        }
    }
}

/// Returns the keys in order, each once; `None` if one of them is wrong. That a key is not set is no mistake, because a change may
/// remove it.
pub(super) fn resolve(field: &Field<List<Achieved>>, check: Check<'_>) -> Option<Vec<Achieved>> {
    let Some((_, list)) = field.given() else {
        return (!field.is_written()).then(Vec::new);
    };
    let mut found = list.0.iter().map(|entry| entry.get().copied()).collect::<Option<Vec<_>>>()?;
    found.sort_unstable();
    found.dedup();
    for key in found.iter().map(|of| of.key()) {
        if check.find(&key.split('.').collect::<Vec<_>>()).is_none() {
            check.remark(format!("`achieved` names `{key}`, which is not set: it has no effect."));
        }
    }
    Some(found)
}
