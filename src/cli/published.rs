//! The command `published`.

use super::format::ReportFormat;
use clap::Args;
use std::path::PathBuf;

/// Compare predictions with published measurements of clusters.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay published
  forebay published --figure published.svg
  forebay published --scenario azure-p100-resnet50-mpi-ib:32 > azure.toml
  forebay published mine.toml --format json

Each result is simulated on the cluster that it was measured on, as the catalogue knows it; how fast one \
GPU is, is taken from the publication. Results marked `fit` determine what a transport costs; all others \
are predicted with that, or with the links of the catalogue alone. A file of your own has the form of \
calibrate/published/scaling.toml.")]
pub struct Published {
    /// File of published results; the results that are built into forebay if not given
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Draw predicted against measured results here, .svg or .png
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    pub figure: Option<PathBuf>,
    /// Print the scenario of one result instead
    #[arg(long, value_name = "SERIES:GPUS")]
    pub scenario: Option<String>,
    /// Format of the table
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}
