//! Imports workloads of DLIO and MLPerf Storage as scenarios: their YAML files, with Hydra's overrides.
//!
//! Meanings and defaults are those of `dlio_benchmark/utils/config.py` and of its loaders: workers persist, samples that do not
//! fill a batch are dropped, "preprocessing" sleeps, and PyTorch's prefetch factor is the number of batches to prefetch divided
//! by the workers, rounded up. The scenario's first lines name the keys that are not used.

mod beside;
mod checkpoints;
mod keys;
mod place;
mod text;
mod yaml;

use serde_json::Value;

pub use beside::{
    Beside, START_OF_RESNET50, START_OF_WORKER, START_PER_FILE, beside, pytorch_start,
    tensorflow_start,
};
pub use checkpoints::Checkpoints;
pub use place::{Said, said, source};
pub use text::scenario;
pub use yaml::{DlioError, read};

/// Settings of a workload, in SI units.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Workload {
    /// Name of the model.
    pub name: String,
    /// Whether the data loader is PyTorch's; otherwise it is TensorFlow's.
    pub pytorch: bool,
    /// Number of files in the training set.
    pub files: u64,
    /// Samples in each file.
    pub samples_per_file: u64,
    /// Mean size of a sample [B].
    pub sample_size: f64,
    /// Standard deviation of the size of a sample [B].
    pub sample_size_sd: f64,
    /// Size of a reader's request; `None` if it is not set [B].
    pub transfer_size: Option<f64>,
    /// Whether files have a different order in each epoch.
    pub shuffled: bool,
    /// Whether each rank reads a contiguous part of the samples. If not, records are distributed to the ranks round robin, as
    /// TensorFlow's reader of TFRecord files does.
    pub contiguous: bool,
    /// Samples in a batch, for each accelerator.
    pub batch: u64,
    /// Number of reading workers for each accelerator.
    pub read_threads: u64,
    /// Number of concurrent decoding calls for each accelerator, in TensorFlow.
    pub computation_threads: u64,
    /// Number of batches to prefetch (PyTorch: over all workers).
    pub prefetch: u64,
    /// Preprocessing time of each sample, for which a worker sleeps.
    pub preprocess: Times,
    /// Emulated time of a step.
    pub step: Times,
    /// Passes over the training set.
    pub epochs: u64,
    /// Steps after which to stop; `None` if the file does not set it.
    pub steps: Option<u64>,
    /// Steps at the beginning that are excluded from metrics.
    pub warm_up: u64,
    /// Target for the accelerator utilisation; `None` if the file sets none.
    pub utilisation: Option<f64>,
    /// Random seed.
    pub seed: u64,
    /// Checkpoints of a workload that only writes them; `None` if it trains. The other settings are then those of
    /// [`Workload::default`].
    pub checkpoints: Option<Checkpoints>,
    /// Keys that are not used.
    pub left_out: Vec<String>,
}

/// A constant time, or the distribution of a time [s].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Times {
    /// Always the same time.
    Constant(f64),
    /// Normal distribution; DLIO takes the absolute value of each sampled time.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
    /// Uniform distribution.
    Uniform {
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
    },
    /// Gamma distribution.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
    /// Exponential distribution.
    Exponential {
        /// Mean.
        mean: f64,
    },
}

impl Default for Times {
    fn default() -> Times {
        Times::Constant(0.0)
    }
}

impl Times {
    /// Returns the mean before truncation [s].
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Times::Constant(time) => time,
            Times::Normal { mean, .. } | Times::Exponential { mean } => mean,
            Times::Uniform { low, high } => (low + high) / 2.0,
            Times::Gamma { shape, scale } => shape * scale,
        }
    }

    /// Returns standard deviation ÷ mean.
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

/// Accelerators and storage with which a workload runs; the workload's file does not contain them.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// Number of accelerators in all.
    pub accelerators: u32,
    /// Number of client hosts with accelerators.
    pub hosts: u32,
    /// Cores of each host.
    pub cores: u32,
    /// Bandwidth of a host's NICs together, in the notation of scenarios; `None` if they are no limit.
    pub nic: Option<String>,
    /// Bandwidth of the storage, in the notation of scenarios.
    pub bandwidth: String,
    /// Work beside computing of each rank; `None`: as official results of the workload show it.
    pub beside: Option<Beside>,
    /// Time that the loader takes to begin an epoch, beside reading [s]: that of each of PyTorch's workers before the first epoch, or that of
    /// TensorFlow's pipeline before each; `None`: as official results show it.
    pub start: Option<f64>,
    /// Name of the import's source, for the first lines of the scenario.
    pub source: String,
}

/// Returns the value at a path of keys; `None` if it is missing or null.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key)).filter(|found| !found.is_null())
}
