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
    /// Compare predictions with live runs, or with runs that were made elsewhere
    Validate(Validate),
    /// Read what other programs measured
    Import(Import),
    /// Show, compare, fit and draw the parameters of machines
    Profile(ProfileArgs),
    /// Measure this machine
    Calibrate(Calibrate),
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

/// Compare predictions with live runs, or with runs that were made elsewhere.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay validate calibrate/plans/validate.toml --profile calibration/profile.toml
  forebay validate calibrate/plans/validate.toml --profile calibration/profile.toml --tolerance 0.05
  forebay validate --measured runs.csv --scenario mine.toml --profile calibration/profile.toml

A plan names configurations of a scenario. Each is run several times on this machine, interleaved
with the others, and predicted from the profile; the table says how far apart the two are, beside the
naive model min(fetch, prepare, compute). Runs are kept in DIR/runs.jsonl as they come: the same
command goes on after an interruption. Rows of --measured have a column for each key of the scenario
that differs, and samples_per_second or step_time. Those with `fit` in the column `use` are fitted on:
they tell how long steps take and how long a loader's worker needs for a sample, as multiples of what
scenario and profile say. The others (`check`) are predicted with that; each marked row costs 578
simulations.")]
pub struct Validate {
    /// Plan to run on this machine
    #[arg(value_name = "PLAN", conflicts_with = "measured")]
    pub plan: Option<PathBuf>,
    /// Runs that were made elsewhere
    #[arg(long, value_name = "FILE.csv", requires = "scenario")]
    pub measured: Option<PathBuf>,
    /// Scenario that describes those runs
    #[arg(long, value_name = "SCENARIO", conflicts_with = "plan")]
    pub scenario: Option<PathBuf>,
    /// What is known of the machine
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<PathBuf>,
    /// Make working files here; the current directory if not given
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Keep runs, table and parity plot here
    #[arg(short, long, value_name = "DIR", default_value = "validation")]
    pub output: PathBuf,
    /// Fail if the mean error of samples per second is larger, as a share
    #[arg(long, value_name = "SHARE")]
    pub tolerance: Option<f64>,
    /// Simulations of each row of --measured
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub predictions: u32,
    /// Form of the table
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

/// Read what other programs measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay import kineto trace.json
  forebay import kineto --help")]
pub struct Import {
    /// From which program.
    #[command(subcommand)]
    pub from: ImportFrom,
}

/// Programs whose files are read.
#[derive(Debug, Subcommand)]
pub enum ImportFrom {
    /// A trace of the PyTorch profiler: step times and the time spent waiting for the DataLoader
    #[command(after_help = "\
Examples:
  forebay import kineto trace.json
  forebay import kineto trace.json.gz --batch 64 --format csv --set job.batch=64 >> runs.csv

The CSV row is one that `forebay validate --measured` reads; --set adds the scenario's keys to it.")]
    Kineto(Kineto),
}

/// A trace of the PyTorch profiler.
#[derive(Debug, Args)]
pub struct Kineto {
    /// Trace file, as `export_chrome_trace` writes it; may be compressed with gzip
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Samples per step, for samples per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Steps to leave out at the beginning
    #[arg(long, value_name = "STEPS", default_value_t = 1)]
    pub warm_up: usize,
    /// Form of the result
    #[arg(long, value_enum, default_value_t = ImportFormat::Text)]
    pub format: ImportFormat,
    /// A key of the scenario that describes the run, for the CSV row; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub keys: Vec<String>,
}

/// Form of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// For people
    Text,
    /// A row with a header
    Csv,
    /// An object
    Json,
}

/// Show, compare, fit and draw the parameters of machines.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay profile show profile.toml
  forebay profile diff before.toml after.toml
  forebay profile fit samples.jsonl --output profile.toml
  forebay profile plot profile.toml --output figures

A profile is what `calibrate` found out about a machine: fitted parameters with 95 % intervals, and
which of them the data cannot tell. It lies beside the raw samples that it was fitted to.")]
pub struct ProfileArgs {
    /// What to do with them.
    #[command(subcommand)]
    pub command: ProfileCommand,
}

/// What to do with profiles.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Print a profile
    Show(ProfileShow),
    /// Compare two profiles
    Diff(ProfileDiff),
    /// Fit a profile to raw samples
    Fit(ProfileFit),
    /// Draw every fit over its samples
    Plot(ProfilePlot),
}

/// Print a profile.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay profile show profile.toml --format json")]
pub struct ProfileShow {
    /// Profile
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

/// Compare two profiles.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay profile diff before.toml after.toml

A difference is real where each value lies outside of the other's 95 % interval.")]
pub struct ProfileDiff {
    /// Profile
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Another one
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

/// Fit a profile to raw samples.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay profile fit samples.jsonl --like profile.toml --output again.toml")]
pub struct ProfileFit {
    /// Raw samples, a JSON object per line, as `calibrate` writes them
    #[arg(value_name = "SAMPLES")]
    pub samples: PathBuf,
    /// Profile to take the description of the machine from
    #[arg(long, value_name = "FILE")]
    pub like: Option<PathBuf>,
    /// Write the profile here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Draw every fit over its samples.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay profile plot profile.toml --output figures

Samples come from the file that the profile names; without it, only the fits are drawn.")]
pub struct ProfilePlot {
    /// Profile
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,
    /// Directory for the figures; the profile's if not given
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Kind of picture
    #[arg(long, value_enum, default_value_t = PictureFormat::Svg)]
    pub format: PictureFormat,
}

/// Measure this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay calibrate
  forebay calibrate --plan full --directory /scratch/me --output calibration
  forebay calibrate --plan full --data /datasets/images --only read,decode

A plan says what is measured; quick takes less than a minute, full less than fifteen. Probes write
into a directory of their own below --directory, and remove it. Samples are kept in --output as soon
as they exist: the same command again measures only what is missing.")]
pub struct Calibrate {
    /// What to measure: `quick`, `full`, or a plan file
    #[arg(long, value_name = "PLAN", default_value = "quick")]
    pub plan: PathBuf,
    /// Where to write the files that are read; $SLURM_TMPDIR, $TMPDIR or here if not given
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Your own data set, to be read instead of generated files; nothing is written there
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Directory for samples and profile
    #[arg(short, long, value_name = "DIR", default_value = "calibration")]
    pub output: PathBuf,
    /// Probes to run; all of the plan if not given
    #[arg(long, value_name = "PROBE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Time for all probes, instead of the plan's: `90 s`
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
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
    /// Profiles of machines
    Profile,
}
