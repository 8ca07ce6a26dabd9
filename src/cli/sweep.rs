//! The command `sweep`.

use super::format::RowFormat;
use super::run::Assume;
use super::scenario::ScenarioOptions;
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
  forebay sweep mine.toml --slurm --submit --output shards
  forebay sweep --collect shards --output rows.parquet --format parquet

Rows come in the order of the grid, the last key of [sweep] fastest, and are the same whatever \
the number of threads. With --output, finished points are kept in FILE.partial until all are done; \
after an interruption, --resume computes only the others, and --force begins anew. Points are checked \
as they come, the first 2000 before anything runs; a grid has 100,000,000 points at most.")]
pub struct Sweep {
    /// Scenario file; `-` reads standard input
    #[arg(value_name = "SCENARIO", required_unless_present = "collect")]
    pub scenario: Option<PathBuf>,
    /// Changes to the scenario.
    #[command(flatten)]
    pub options: ScenarioOptions,
    /// Key to sweep and its values, added to `[sweep]` or replacing the same key there: `job.batch=[32, 64]`, with units
    /// `cluster.network.nic=["10 Gbit/s", "25 Gbit/s"]`, or a range `job.batch={ from = 32, to = 512, steps = 5, scale = "log" }`
    #[arg(long, value_name = "KEY=[VALUES]")]
    pub vary: Vec<String>,
    /// Number of runs of each point in place of replications, each with parameters sampled from the uncertainty of the profile; the
    /// intervals of step time, rates and stall then hold 90 % of single runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub uncertainty: Option<u32>,
    /// What to take for numbers that nobody measured, such as nominal rates of NICs: with `ranges`, each point runs nineteen times, each
    /// time with what publications reached; figures are means over these runs, and the intervals of step time, rates and stall hold 90 %
    /// of published results
    #[arg(long, value_enum, default_value_t = Assume::Nominal, conflicts_with = "uncertainty")]
    pub assume: Assume,
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
    /// Run part I of N and write it to the directory --output, which all tasks share. `auto`: number and count from Slurm or LSF;
    /// `auto/16`: number from Slurm, LSF, PBS or Kubernetes
    #[arg(long, value_name = "I/N", requires = "output", conflicts_with_all = ["resume", "force", "format", "columns"])]
    pub shard: Option<String>,
    /// Join the shards in DIR, and name those that are missing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["scenario", "set", "unset", "profile", "threads", "vary", "uncertainty", "assume", "resume", "force", "shard", "slurm"])]
    pub collect: Option<PathBuf>,
    /// Write a script with an array job for Slurm into the directory --output, whose tasks make the shards there; --threads says how
    /// many cores a task gets (1 if not given)
    #[arg(long, requires = "output", conflicts_with_all = ["shard", "resume", "force", "format", "columns"])]
    pub slurm: bool,
    /// Submit the script
    #[arg(long, requires = "slurm")]
    pub submit: bool,
    /// Number of tasks of the array; if not given, the first and the last point are timed, and a task gets some 5 minutes of work
    #[arg(long, value_name = "N", requires = "slurm", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub tasks: Option<u16>,
}
