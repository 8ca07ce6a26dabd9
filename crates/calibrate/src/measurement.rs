//! Samples: the raw times that probes measure, with their labels and settings. Summaries are kept elsewhere
//! and never replace samples.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One timed trial. A file of samples holds one `Sample` as JSON per line, written as soon as the trial ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The probe: `read`, `decode`, `queue`, `step`, `cache`, `clock`.
    pub probe: String,
    /// Labels that distinguish this kind of trial from other kinds of the same probe, as text:
    /// `access = "direct"`, `model = "lenet5"`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Parameters of this trial as numbers in SI units: `size`, `readers`, `batch`, `threads`.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
    /// Number of the repetition, in the order in which the trials ran.
    pub trial: u32,
    /// Operations that the trial performed.
    pub operations: u64,
    /// Wall time of the trial, less the overhead of measuring it [s].
    pub seconds: f64,
    /// Processor time of the threads that did the work, less the overhead of measuring it [core-s].
    pub core_seconds: f64,
    /// Further observations: `latency_p50`, `bytes`, `loss`.
    #[serde(default)]
    pub observed: BTreeMap<String, f64>,
    /// What others took of the process's cores during the trial, if it was much: `others kept 0.8 cores busy`. The sample counts
    /// all the same, because interference is part of a machine; fits tell both kinds apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Why the sample must not be used, such as a warm-up or a trend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded: Option<String>,
    /// Wall clock at the end of the trial [s since 1970].
    pub at: f64,
}

impl Sample {
    /// Returns the wall time of one operation [s].
    #[must_use]
    pub fn seconds_each(&self) -> f64 {
        self.seconds / self.operations as f64
    }

    /// Returns the processor time of one operation [core-s].
    #[must_use]
    pub fn core_seconds_each(&self) -> f64 {
        self.core_seconds / self.operations as f64
    }

    /// Returns the setting called `name`; NaN if the trial has no setting of that name.
    #[must_use]
    pub fn setting(&self, name: &str) -> f64 {
        self.settings.get(name).copied().unwrap_or(f64::NAN)
    }

    /// Returns the label called `name`; empty if the trial has no label of that name.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}
