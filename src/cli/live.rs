//! The command `live`.

use super::changes::Changes;
use super::format::ReportFormat;
use clap::Args;
use std::path::PathBuf;

/// Run a scenario on this machine and report what happened.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay live scenario.toml
  forebay live scenario.toml --directory /scratch/me --set job.batch_interval=4
  forebay live scenario.toml --data /data/images --format json --output report.json

Data sets are generated in a directory of its own below --directory, which vanishes afterwards. \
Each job copy is a process. Nodes are this machine: several job copies need \
`cluster.share_nodes = true`.")]
pub struct Live {
    /// Scenario file; `-` reads standard input
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Changes to keys of the scenario.
    #[command(flatten)]
    pub changes: Changes,
    /// Make working files here; the current directory if not given
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Read the files of this directory, instead of generated ones
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the report here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a timeline of the first replication, to be opened in Perfetto
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Number of replications, run one after the other, instead of the scenario's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub replications: Option<u32>,
}
