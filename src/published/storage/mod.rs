//! Official results of MLPerf Storage, compared with predictions: each result from its system's other results, and from what ranks do
//! beside computing on the systems of other submitters.
//!
//! The results are in a TOML file that anybody may add to; the repository's own is [`STORAGE`].

mod file;
mod law;
mod predict;
#[cfg(test)]
mod tests;

pub use law::{Law, Shape, fit, start};
pub use predict::{StorageCompared, compare, scenario};

/// The results that the repository contains.
pub const STORAGE: &str = include_str!("../../../calibrate/published/mlperf.toml");

/// All results of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageResults {
    /// Systems in the order of the file.
    pub systems: Vec<System>,
}

/// A storage and its hosts, as a submitter measured it.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Round of the benchmark: `v1.0`, `v3.0`.
    pub round: String,
    /// Who measured.
    pub submitter: String,
    /// Name of the system.
    pub name: String,
    /// What the storage is, where it is said.
    pub about: String,
    /// Bandwidth that its price list or data sheet promises [B/s], where it names one.
    pub read_bandwidth: Option<f64>,
    /// Its results.
    pub results: Vec<StorageResult>,
}

/// One official result.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageResult {
    /// Workload, by MLPerf Storage's name.
    pub workload: String,
    /// Emulated accelerator.
    pub accelerator: String,
    /// Number of emulated accelerators, on `hosts` equal hosts of `cores` cores.
    pub ranks: u32,
    /// Number of hosts.
    pub hosts: u32,
    /// Cores of a host.
    pub cores: u32,
    /// Loader workers of each rank.
    pub workers: u32,
    /// Samples of a rank's batch.
    pub batch: u32,
    /// Emulated time of computing a step [s].
    pub step: f64,
    /// Number of steps of an epoch.
    pub steps: u32,
    /// Mean bytes of a sample [B].
    pub sample_size: f64,
    /// Accelerator utilisation, as the round defines it.
    pub utilisation: f64,
    /// Samples per second of all ranks, as the round defines it.
    pub samples_per_second: f64,
    /// Mean time until a rank's first batch [s], over all epochs; `None` where the two figures do not give it.
    pub first_batch: Option<f64>,
    /// The same over all epochs but the first [s].
    pub first_batch_later: Option<f64>,
    /// Folder of the official repository.
    pub path: String,
    /// Line of the file, from 1.
    pub line: usize,
}

/// What a result is used for: as an input of predictions, or to judge them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageRole {
    /// Its bytes per second are the bandwidth of its system; it judges nothing.
    Bandwidth,
    /// It is predicted from its system's bandwidth.
    Held,
    /// It is predicted from its system's price list or data sheet.
    PriceList,
    /// Its system has no other result, and no price list: its own bytes per second are taken for the bandwidth, and it judges nothing.
    Single,
}

impl StorageResult {
    /// Returns the bytes per second that were read [B/s].
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.samples_per_second * self.sample_size
    }

    /// Returns the bytes of a step of all ranks [B].
    #[must_use]
    pub fn bytes_of_step(&self) -> f64 {
        f64::from(self.ranks) * f64::from(self.batch) * self.sample_size
    }

    /// Returns whether the workload's loader is PyTorch's; otherwise it is TensorFlow's.
    #[must_use]
    pub fn is_pytorch(&self) -> bool {
        matches!(self.workload.as_str(), "unet3d" | "retinanet" | "flux")
    }

    /// Returns the samples per second of ranks that never wait.
    #[must_use]
    pub fn fastest(&self) -> f64 {
        f64::from(self.ranks) * f64::from(self.batch) / self.step
    }

    /// Returns whether the first step of an epoch counts in samples per second.
    fn counts_first(round: &str) -> bool {
        round.starts_with("v1.") || round.starts_with("v0.")
    }
}

impl System {
    /// Returns the highest bandwidth at which first batches of the system's other results with the workload of `of` came, all workers of
    /// all ranks reading at once [B/s]; `None` if no other result shows it, or the loader is not PyTorch's.
    #[must_use]
    pub fn bandwidth_of_first_batches(&self, of: &StorageResult) -> Option<f64> {
        let others = self.results.iter().filter(|other| *other != of && other.is_pytorch());
        let others = others.filter(|other| other.workload == of.workload);
        let rates = others.filter_map(|other| {
            let bytes = other.bytes_of_step() * f64::from(other.workers);
            Some(bytes / other.first_batch_later?)
        });
        rates.max_by(f64::total_cmp)
    }

    /// Returns the bandwidth from which the system's results are predicted [B/s], and what each of its results is used for.
    #[must_use]
    pub fn bandwidth(&self) -> (f64, Vec<StorageRole>) {
        let rates = || self.results.iter().map(StorageResult::bytes_per_second);
        if let Some(promised) = self.read_bandwidth {
            return (promised, vec![StorageRole::PriceList; self.results.len()]);
        }
        let most = rates().fold(0.0, f64::max);
        let role = |rate: f64| match (self.results.len(), rate >= most) {
            (1, _) => StorageRole::Single,
            (_, true) => StorageRole::Bandwidth,
            (_, false) => StorageRole::Held,
        };
        (most, rates().map(role).collect())
    }
}

/// Returns the accelerator utilisation that a workload must reach to pass.
#[must_use]
pub fn target(workload: &str) -> f64 {
    match workload {
        "cosmoflow" => 0.7,
        "retinanet" => 0.85,
        _ => 0.9,
    }
}
