//! Workloads of DLIO and MLPerf Storage: their YAML files, with Hydra's overrides, as scenarios.
//!
//! Meanings and defaults are those of `dlio_benchmark/utils/config.py` and of its loaders: workers
//! persist, samples that fill no batch are dropped, PyTorch's prefetch factor is the number of
//! batches wanted ahead over workers and rounded up, and "preprocessing" sleeps. What forebay does not
//! simulate is named in the scenario's first lines.

mod place;
mod text;
mod yaml;

use serde_json::Value;

pub use place::{Said, said, source};
pub use text::scenario;
pub use yaml::{DlioError, read};

/// What a workload asks, in SI units.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Name of the model.
    pub name: String,
    /// Whether PyTorch's loader reads; otherwise TensorFlow's.
    pub pytorch: bool,
    /// Files of the training set.
    pub files: u64,
    /// Samples in each.
    pub samples_per_file: u64,
    /// Mean size of a sample [B].
    pub sample_size: f64,
    /// Standard deviation of it [B].
    pub sample_size_sd: f64,
    /// Bytes that a reader asks for at once, where that is said [B].
    pub transfer_size: Option<f64>,
    /// Whether files come in another order in each epoch.
    pub shuffled: bool,
    /// Whether each rank reads a contiguous slice of the samples; TensorFlow's own reader of TFRecord
    /// files deals records out in turn.
    pub contiguous: bool,
    /// Samples of a batch, on each accelerator.
    pub batch: u64,
    /// Reading workers of each accelerator.
    pub read_threads: u64,
    /// Decoding calls at once of each accelerator, in TensorFlow.
    pub computation_threads: u64,
    /// Batches (PyTorch: of all workers together) wanted ahead.
    pub prefetch: u64,
    /// Sleep for each sample.
    pub preprocess: Times,
    /// Emulated time of a step.
    pub step: Times,
    /// Passes over the training set.
    pub epochs: u64,
    /// Steps after which to stop, if that is said.
    pub steps: Option<u64>,
    /// Steps at the beginning that do not count.
    pub warm_up: u64,
    /// Accelerator utilisation that is asked for.
    pub utilisation: Option<f64>,
    /// Seed.
    pub seed: u64,
    /// Keys that say something which is not simulated.
    pub left_out: Vec<String>,
}

/// A time, or how it is distributed [s].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Times {
    /// Always the same.
    Constant(f64),
    /// Normal; DLIO takes the absolute value.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
    /// Uniform.
    Uniform {
        /// Least.
        low: f64,
        /// Greatest.
        high: f64,
    },
    /// Gamma.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
}

impl Times {
    /// The mean [s], before truncation.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Times::Constant(time) => time,
            Times::Normal { mean, .. } | Times::Exponential { mean } => mean,
            Times::Uniform { low, high } => (low + high) / 2.0,
            Times::Gamma { shape, scale } => shape * scale,
        }
    }

    /// Standard deviation ÷ mean.
    #[must_use]
    pub fn cv(self) -> f64 {
        match self {
            Times::Constant(_) => 0.0,
            Times::Normal { mean, sd } => sd / mean,
            Times::Uniform { low, high } => (high - low) / (high + low) / 3.0_f64.sqrt(),
            Times::Gamma { shape, .. } => 1.0 / shape.sqrt(),
            Times::Exponential { .. } => 1.0,
        }
    }
}

/// Where a workload runs: what its file does not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// Accelerators in all.
    pub accelerators: u32,
    /// Client hosts that they are on.
    pub hosts: u32,
    /// Bandwidth of the storage, as scenarios write it.
    pub bandwidth: String,
    /// What is imported, for the first lines.
    pub source: String,
}

/// The value at a path of keys, if it is there.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key)).filter(|found| !found.is_null())
}
