//! The command `published`.

use super::format::ReportFormat;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Compare predictions with published measurements of clusters.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay published
  forebay published --figure published.svg
  forebay published --scenario azure-p100-resnet50-mpi-ib:32 > azure.toml
  forebay published mine.toml --format json
  forebay published --table transfer
  forebay published --table storage

Each result is simulated on the cluster that it was measured on, as the catalogue knows it; how fast one \
GPU is, is taken from the publication. Results marked `fit` determine what a transport costs; all others \
are predicted with that, or with the links of the catalogue alone. A fit serves all models of its transport at a site; \
a fit to three models or more, other models only if fits without each of the three predict that one better than the links \
alone. A file of your own has the form of calibrate/published/scaling.toml.

--table transfer leaves out each model of a transport in turn and predicts it from the others, wherever a site has \
results of three models; whether with fitted or nominal rates, the other models choose.

--table ranges predicts results from data sheets, over what publications reached of the lines' rates, and beside that with one \
measurement of each transport; without a file it takes calibrate/published/data-sheet.toml too.

--table storage compares official results of MLPerf Storage: the bandwidth of a storage is that of its own result with \
most bytes per second, or of its price list; what ranks do beside computing comes from other submitters' systems. A file \
of your own has the form of calibrate/published/mlperf.toml.")]
pub struct Published {
    /// File of published results; the results that are built into forebay if not given
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Draw predicted against measured results here, .svg or .png
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    pub figure: Option<PathBuf>,
    /// Print the scenario of one result instead: SERIES:GPUS, or SYSTEM:WORKLOAD-ACCELERATOR:RANKS of the table `storage`
    #[arg(long, value_name = "RESULT")]
    pub scenario: Option<String>,
    /// Kind of results
    #[arg(long, value_enum, default_value_t = PublishedTable::Training)]
    pub table: PublishedTable,
    /// Format of the table
    #[arg(long, value_enum, default_value_t = ReportFormat::Text, conflicts_with = "scenario")]
    pub format: ReportFormat,
}

/// Kinds of published results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PublishedTable {
    /// Data-parallel training on many GPUs
    Training,
    /// Models of training, each predicted from the other models of its transport
    Transfer,
    /// Training on clusters of which only data sheets are known, with lines at what publications reached
    Ranges,
    /// Official results of MLPerf Storage
    Storage,
}
