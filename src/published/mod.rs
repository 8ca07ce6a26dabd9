//! Published results of data-parallel training on clusters, compared with predictions.
//!
//! The results are in a TOML file that anybody may add to; the repository's own is [`SCALING`]. Errors in such a file are
//! reported with line and remedy.

mod absorbed;
mod check;
mod constants;
mod file;
mod fit;
mod interval;
mod over_ranges;
mod predict;
mod scenario;
pub mod storage;
#[cfg(test)]
mod tests;
mod transfer;

pub use absorbed::{Absorbed, Limit};
pub use constants::Constants;
pub use file::PublishedError;
pub use fit::{Fit, Fitted, Group, Rates, fit, fit_for};
pub use interval::{Coverage, Spread, Transferred, coverage, residual, transferred};
pub use over_ranges::{OverRanges, over_ranges};
pub use predict::{Compared, compare, constants, predict, scenario};
pub use transfer::{Errors, LeftOut, LeftOutResult, Transfer, Transfers, left_out, transfers};

use serde::Deserialize;
use std::collections::BTreeMap;

/// The results that the repository contains.
pub const SCALING: &str = include_str!("../../calibrate/published/scaling.toml");

/// Further results, on clusters of which only data sheets are known.
pub const DATA_SHEET: &str = include_str!("../../calibrate/published/data-sheet.toml");

/// All results of a file, with the clusters that they were measured on.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Clusters by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// Results in the order of the file.
    pub results: Vec<PublishedResult>,
}

/// A cluster of equal nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Description of the cluster.
    pub about: String,
    /// GPU type, by the catalogue's name.
    pub gpu: String,
    /// Number of GPUs in a node.
    pub gpus_per_node: u32,
    /// Interconnect between the GPUs of a node, by the catalogue's name.
    pub inside: String,
    /// Interconnect between nodes, by the catalogue's name; `None` for a single node.
    pub network: Option<String>,
    /// Number of GPUs in each directly joined group of a node, with one link for each pair; `None` if all GPUs of a node are
    /// joined alike.
    pub switch: Option<u32>,
    /// Interconnect between the directly joined groups of a node, by the catalogue's name.
    pub between: Option<String>,
    /// Number of network interfaces of a node.
    pub nics: u32,
    /// Site of the cluster: clusters of one site share the fit of a transport.
    pub site: String,
}

/// One published result.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedResult {
    /// Name of the series of the result: equal runs on several numbers of GPUs.
    pub series: String,
    /// The cluster, by name.
    pub cluster: String,
    /// The model, by the catalogue's name.
    pub model: String,
    /// Floating-point format in which the model is trained.
    pub precision: Precision,
    /// Number of samples of a step on each GPU.
    pub batch: u32,
    /// Whether samples were read or synthetic.
    pub data: Data,
    /// Transport of the gradients, such as `nccl-tcp`.
    pub transport: String,
    /// The program that trained.
    pub framework: String,
    /// Number of GPUs that trained.
    pub gpus: u32,
    /// Quantity that was measured.
    pub quantity: Quantity,
    /// Number of GPUs of the baseline run, to which efficiency and growth are relative.
    pub baseline: u32,
    /// Samples of an epoch, for results that are epoch times.
    pub samples: Option<u64>,
    /// The value, in the quantity's unit.
    pub measured: f64,
    /// Whether fits may use the result.
    pub fit: bool,
    /// Whether the value was checked against its source.
    pub verified: bool,
    /// Publication that has the result.
    pub source: String,
    /// URL of the publication.
    pub url: String,
    /// How the value was taken from the publication: `primary`, `chart-digitised`, `slides`.
    pub provenance: String,
    /// Further remarks.
    pub note: String,
    /// Line of the file, from 1.
    pub line: usize,
}

/// How predictions use a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The result is an input of predictions: the speed of one GPU.
    Input,
    /// The result is used to fit the costs of a transport.
    Fit,
    /// The result is held out, to measure the error of predictions.
    HeldOut,
}

impl PublishedResult {
    /// Returns how predictions use this result.
    #[must_use]
    pub fn role(&self) -> Role {
        match (self.gpus, self.quantity) {
            (1, Quantity::Throughput) => Role::Input,
            _ if self.fit => Role::Fit,
            _ => Role::HeldOut,
        }
    }
}

/// Floating-point format in which a model is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats.
    Fp32,
    /// 32-bit floats, with matrix products in TF32.
    Tf32,
    /// Mixed precision: matrix products and gradients in 16 bits, weights in 32.
    Mixed,
}

/// Source of the samples that are trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Synthetic samples, generated once: nothing is read.
    Synthetic,
    /// Samples are read and decoded.
    Real,
}

/// Quantity that a result gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Samples per second of all GPUs together.
    Throughput,
    /// Throughput per GPU relative to the throughput per GPU of the baseline run.
    Efficiency,
    /// Step time relative to the step time of the baseline run.
    StepGrowth,
    /// Time of a pass over the data set.
    EpochTime,
}

impl Quantity {
    /// Returns the unit of the quantity.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Throughput => "samples/s",
            Quantity::Efficiency | Quantity::StepGrowth => "1",
            Quantity::EpochTime => "s",
        }
    }
}
