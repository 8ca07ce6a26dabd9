//! The command `sweep`.

use super::format::RowFormat;
use super::scenario::ScenarioArgs;
use clap::Args;
use std::path::PathBuf;

/// Simulate every point of the grid that the scenario's `[sweep]` table and `--vary` define.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay sweep scenarios/fletcher-lenet.toml > rows.csv
  forebay sweep scenarios/fletcher-lenet.toml --output rows.csv
  forebay sweep scenarios/fletcher-lenet.toml --output rows.csv --resume
  forebay sweep mine.toml --vary 'job.batch=[32, 64]' --vary 'cluster.nodes=[1, 2, 4]'
  forebay sweep mine.toml --vary 'storage.nfs.file-server.bandwidth=[\"1 GB/s\", \"2 GB/s\"]'
  forebay sweep scenarios/fletcher-lenet.toml --columns step_time,stalls

Rows come in the order of the grid, the last key of [sweep] fastest, and are the same whatever \
the number of threads. With --output, finished points are kept in FILE.partial until all are done; \
after an interruption, --resume computes only the others, and --force begins anew. Points are checked \
as they come, the first 2000 before anything runs; a grid has 100,000,000 points at most.")]
pub struct Sweep {
    /// Arguments that name the scenario and change it.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Key to sweep and its values, added to `[sweep]` or replacing the same key there: `job.batch=[32, 64]`, with units
    /// `cluster.network.nic=["10 Gbit/s", "25 Gbit/s"]`, or a range `job.batch={ from = 32, to = 512, steps = 5, scale = "log" }`
    #[arg(long, value_name = "KEY=[VALUES]")]
    pub vary: Vec<String>,
    /// Format of the rows
    #[arg(long, value_enum, default_value_t = RowFormat::Csv)]
    pub format: RowFormat,
    /// Figures to write, each with the ends of its 95 % interval; `all`, `default` and `stalls` name groups of figures
    /// [default: step time, samples per second, utilisation, stall and its largest cause, and why a run is too short]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Write the rows here instead of to standard output; existing rows are replaced when all points are done
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep the points that were finished by an interrupted sweep to the same FILE
    #[arg(long, requires = "output")]
    pub resume: bool,
    /// Begin anew, and discard the points that were finished by an interrupted sweep to the same FILE
    #[arg(long, requires = "output", conflicts_with = "resume")]
    pub force: bool,
}
