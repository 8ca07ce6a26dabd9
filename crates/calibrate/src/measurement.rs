//! What a probe timed: raw samples with what they are samples of. Never summarised in place.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One timed trial. A file of samples has one of these as JSON per line, written as soon as it
/// exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The probe: `read`, `decode`, `queue`, `step`, `cache`, `clock`.
    pub probe: String,
    /// What distinguishes this trial's kind from others of the probe and is no number:
    /// `access = "direct"`, `model = "lenet5"`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What was varied, as numbers in SI units: `size`, `readers`, `batch`, `threads`.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
    /// Which repetition, in the order in which they ran.
    pub trial: u32,
    /// Operations that the trial made.
    pub operations: u64,
    /// Wall time of the trial, less the ruler's own [s].
    pub seconds: f64,
    /// Processor time of the threads that did the work [core-s].
    pub core_seconds: f64,
    /// Further observations: `latency_p50`, `bytes`, `loss`.
    #[serde(default)]
    pub observed: BTreeMap<String, f64>,
    /// Why the sample must not be used: the machine was not ours, a warm-up, a trend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
    /// Wall clock at the end of the trial [s since 1970].
    pub at: f64,
}

impl Sample {
    /// Wall time of one operation [s].
    #[must_use]
    pub fn seconds_each(&self) -> f64 {
        self.seconds / self.operations as f64
    }

    /// Processor time of one operation [core-s].
    #[must_use]
    pub fn core_seconds_each(&self) -> f64 {
        self.core_seconds / self.operations as f64
    }

    /// A setting; not a number where the trial has none of that name.
    #[must_use]
    pub fn setting(&self, name: &str) -> f64 {
        self.settings.get(name).copied().unwrap_or(f64::NAN)
    }

    /// A label; empty where the trial has none of that name.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}
