//! The command `validate`.

use super::format::ReportFormat;
use clap::Args;
use std::path::PathBuf;

/// Compare predictions with live runs, or with runs that were made elsewhere.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay validate calibrate/plans/validate.toml --profile calibration/profile.toml
  forebay validate calibrate/plans/validate.toml --profile calibration/profile.toml --tolerance 0.05
  forebay validate --measured runs.csv --scenario mine.toml --profile calibration/profile.toml

A plan names configurations of a scenario. Each is run several times on this machine, interleaved \
with the others, and predicted from the profile; the table says how far apart the two are, beside the \
naive model min(fetch, prepare, compute). Runs are kept in DIR/runs.jsonl as they come: the same \
command goes on after an interruption. Rows of --measured have a column for each key of the scenario \
that differs, and samples_per_second or step_time. Those with `fit` in the column `use` are fitted on: \
they tell how long steps take and how long a loader's worker needs for a sample, as multiples of what \
scenario and profile say. The others (`check`) are predicted with that; each marked row costs 578 \
simulations.")]
pub struct Validate {
    /// Plan to run on this machine
    #[arg(value_name = "PLAN", conflicts_with = "measured")]
    pub plan: Option<PathBuf>,
    /// Runs that were made elsewhere; `-` reads standard input
    #[arg(long, value_name = "FILE.csv", requires = "scenario")]
    pub measured: Option<PathBuf>,
    /// Scenario that describes the runs of --measured
    #[arg(long, value_name = "SCENARIO", conflicts_with = "plan")]
    pub scenario: Option<PathBuf>,
    /// Profile of the machine
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<PathBuf>,
    /// Make working files here; the current directory if not given
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Directory for runs, table and parity plot
    #[arg(short, long, value_name = "DIR", default_value = "validation")]
    pub output: PathBuf,
    /// Predict the plan's points and run nothing
    #[arg(long, requires = "plan")]
    pub predict_only: bool,
    /// Fail if the mean relative error of samples per second exceeds this share
    #[arg(long, value_name = "SHARE")]
    pub tolerance: Option<f64>,
    /// Number of simulations for each row of --measured
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub predictions: u32,
    /// Format of the table
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}
