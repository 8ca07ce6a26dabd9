//! Figures of the exchanges between model copies.

use super::Figure;

/// Synchronisation of a job's model copies.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct SyncReport {
    /// Number of steps that a model copy makes from one exchange to the next; each step trains on one batch.
    pub steps_per_exchange: u64,
    /// Bytes of gradients or parameters that a model copy contributes to each exchange [B].
    pub bytes_per_exchange: u64,
    /// How the time of collectives is found: "flow", by simulating each transfer, or "analytic", computed for an idle
    /// network; `None` with parameter servers, whose transfers are always simulated one by one.
    pub fidelity: Option<&'static str>,
    /// What a step is, and how model copies exchange, in words.
    pub text: String,
    /// Staleness of updates; present only if parameter servers hold the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness: Option<StalenessReport>,
}

/// Staleness of updates. The staleness of an update is the number of updates of other model copies that the servers applied
/// between sending the parameters from which the update was computed and applying the update.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StalenessReport {
    /// Mean staleness over updates.
    pub mean: Figure,
    /// Largest staleness of any update.
    pub max: u64,
    /// Shares of updates by staleness, over all copies and replications.
    pub distribution: Vec<StalenessShare>,
}

/// Share of the updates whose staleness is at least `from` and below 2 × `from`; if `from` is 0, of the updates whose staleness
/// is 0.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct StalenessShare {
    /// Minimum staleness of these updates.
    pub from: u64,
    /// Number of these updates ÷ number of all updates.
    pub share: f64,
}
