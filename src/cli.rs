//! The command line: what may be typed, and the help for it.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Will the accelerators starve, on what, and what should be changed or bought?
///
/// forebay simulates deep-learning training on a shared cluster: storage, network, loaders, queues
/// and accelerators, as a scenario file describes them.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Show no progress and no warnings.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// Shown under `forebay --help`.
const EXIT_CODES: &str = "\
Examples:
  forebay run scenarios/fletcher-lenet.toml
  forebay sweep scenarios/fletcher-lenet.toml --output rows.csv
  forebay plot plots/*.toml --output figures

Exit codes: 0 done; 1 a check failed; 2 the input is at fault; 3 the machine lacks something;
4 interrupted, with what was finished kept.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate a scenario and report what happened
    Run(Run),
    /// Run a scenario on this machine and report what happened
    Live(Live),
    /// One job copy of a live run
    #[command(hide = true)]
    LivePart,
    /// Simulate every point of a scenario's `[sweep]` table
    Sweep(Sweep),
    /// Draw figures by recipe
    Plot(Plot),
    /// Print the JSON Schema of a file format
    Schema(Schema),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual page, or write one page per command into a directory
    Man(Man),
}

/// Which scenario, and what to change in it.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// Scenario file; `-` reads standard input
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Override a key of the scenario; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// What was measured of a machine, instead of the profile that the scenario names
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Threads to use; all cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
}

/// Simulate a scenario and report what happened.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay run scenarios/fletcher-lenet.toml
  forebay run scenarios/fletcher-lenet.toml --set job.batch_interval=4 --figure run.svg
  forebay run scenarios/fletcher-lenet.toml --format json --output report.json
  forebay run scenarios/calibrated-loader.toml --uncertainty 100
  generate-scenario | forebay run -")]
pub struct Run {
    /// Which scenario.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the report here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a timeline of the first replication, to be opened in Perfetto
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Draw the run over time
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub figure: Option<PathBuf>,
    /// Independent repetitions, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub replications: Option<u32>,
    /// Runs whose parameters are drawn from what the profile's measurements allow, so that the
    /// report says where 90 % of single runs lie; they take the place of replications
    #[arg(long, value_name = "N", conflicts_with = "replications",
          value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub uncertainty: Option<u32>,
    /// Seed of all randomness, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Run a scenario on this machine and report what happened.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay live scenario.toml
  forebay live scenario.toml --directory /scratch/me --set job.batch_interval=4
  forebay live scenario.toml --data /data/images --format json --output report.json

Data sets are generated in a directory of its own below --directory, which vanishes afterwards.
Each job copy is a process. Nodes are this machine: several job copies need
`cluster.share_nodes = true`.")]
pub struct Live {
    /// Scenario file; `-` reads standard input
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Override a key of the scenario; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// Make working files here; the current directory if not given
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Read the files of this directory, instead of generated ones
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the report here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a timeline of the first replication, to be opened in Perfetto
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Repetitions, one after the other, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub replications: Option<u32>,
}

/// Simulate every point of a scenario's `[sweep]` table.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay sweep scenarios/fletcher-lenet.toml > rows.csv
  forebay sweep scenarios/fletcher-lenet.toml --output rows.csv
  forebay sweep scenarios/fletcher-lenet.toml --output rows.csv --resume

Rows come in the order of the grid, the last key of [sweep] fastest, and are the same whatever
the number of threads. With --output, finished points are kept in FILE.partial until all are done;
after an interruption, --resume computes only the others.")]
pub struct Sweep {
    /// Which scenario.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Form of the rows
    #[arg(long, value_enum, default_value_t = RowFormat::Csv)]
    pub format: RowFormat,
    /// Write the rows here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep the points that an interrupted sweep to the same FILE finished
    #[arg(long, requires = "output")]
    pub resume: bool,
}

/// Draw figures by recipe.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay plot plots/batch-interval.toml
  forebay plot plots/*.toml --output figures --format both
  forebay plot recipe.toml --data rows.csv

A recipe says which columns of which rows to draw. Rows come from the CSV file or the scenario that
its [data] table names (a scenario is swept, or run once for a series over time), or from --data.
Each figure is named after its recipe and lies beside it unless --output is given.")]
pub struct Plot {
    /// Recipe files
    #[arg(required = true, value_name = "RECIPE")]
    pub recipes: Vec<PathBuf>,
    /// Rows to draw, instead of those that the recipe names
    #[arg(long, value_name = "FILE.csv")]
    pub data: Option<PathBuf>,
    /// Directory for the figures
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Kind of picture
    #[arg(long, value_enum, default_value_t = PictureFormat::Svg)]
    pub format: PictureFormat,
    /// Threads to simulate with; all cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
}

/// Print the JSON Schema of a file format.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay schema scenario > scenario.schema.json")]
pub struct Schema {
    /// Which file format
    #[arg(value_enum)]
    pub of: SchemaOf,
}

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay completions bash > ~/.local/share/bash-completion/completions/forebay")]
pub struct Completions {
    /// Which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Print the manual page, or write one page per command into a directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay man | man -l -
  forebay man ~/.local/share/man/man1")]
pub struct Man {
    /// Directory for one page per command
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Form of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// Comma-separated values with a header
    Csv,
    /// An array of objects
    Json,
}

/// Kind of picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PictureFormat {
    /// Vector graphics
    Svg,
    /// Pixels
    Png,
    /// One of each
    Both,
}

/// File formats that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// Scenario files
    Scenario,
}
