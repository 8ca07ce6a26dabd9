//! The command `compare`.

use super::format::ReportFormat;
use super::scenario::ScenarioOptions;
use clap::Args;
use std::path::PathBuf;

/// Put scenarios, options of one scenario or reports side by side: figures with their intervals, causes and costs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay compare base.toml nic.toml cache.toml
  forebay compare mine.toml --option as-is --option 'nic=cluster.network.nic=100 Gbit/s' --option 'both=cluster.network.nic=100 Gbit/s,cluster.nodes=8'
  forebay compare before.json after.json
  forebay compare scenarios/buy-storage.toml --format json
  forebay compare scenarios/buy-storage.toml --figure options.svg

A single scenario is compared with its options: those of the command line, or else those of its `[plan]`. Differences are to the first \
column; a `*` marks those beyond chance, where the 95 % intervals do not overlap. Smaller differences may be real, too: `forebay plan` \
compares replication by replication. If an option or a file is refused, the others are compared, and the exit code is 2. `forebay diff` \
lists every figure of two reports.")]
pub struct Compare {
    /// Scenario files, or reports in JSON; `-` reads a scenario from standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Changes to all scenarios.
    #[command(flatten)]
    pub options: ScenarioOptions,
    /// An option of the scenario by name, with the keys that it changes; without any, the scenario as it is
    #[arg(long, value_name = "NAME[=KEY=VALUE,…]")]
    pub option: Vec<String>,
    /// Figures to compare, by the names of columns of `sweep` [default: samples per second, step time, utilisation, stall, epoch time,
    /// costs]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Format of the table
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Draw throughput, step time, stalls and costs with their intervals, or the columns of `--columns`, and where the time goes
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub figure: Option<PathBuf>,
}
