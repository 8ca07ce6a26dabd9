//! The command `run`.

use super::format::ReportFormat;
use super::scenario::ScenarioArgs;
use crate::units::{Quantity, Time, UnitError};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Simulate a scenario and report what happened.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay run scenarios/fletcher-lenet.toml
  forebay run scenarios/fletcher-lenet.toml --set job.batch_interval=4 --figure run.svg
  forebay run scenarios/checkpoints.toml --unset job.failures
  forebay run scenarios/gradients.toml --assume nominal
  forebay run scenarios/fletcher-lenet.toml --format json --output report.json
  forebay run scenarios/calibrated-loader.toml --uncertainty 100
  generate-scenario | forebay run -")]
pub struct Run {
    /// Arguments that name the scenario and change it.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the report here instead of to standard output; an existing file is replaced
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a timeline of the first replication, to be opened in Perfetto
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Draw the run over time
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub figure: Option<PathBuf>,
    /// Number of independent replications, instead of the scenario's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub replications: Option<u32>,
    /// Number of runs in place of replications, each with parameters sampled from the uncertainty
    /// of the profile's measurements; the report then says where 90 % of single runs lie
    #[arg(long, value_name = "N", conflicts_with = "replications",
          value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub uncertainty: Option<u32>,
    /// Seed of all random numbers, instead of the scenario's seed
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Job that the first sentence and the verdict are about, instead of the job that loses most
    #[arg(long, value_name = "NAME", conflicts_with = "uncertainty")]
    pub job: Option<String>,
    /// How to find the bottleneck; always `quick` with --uncertainty
    #[arg(long, value_enum, default_value_t = VerdictKind::Full)]
    pub verdict: VerdictKind,
    /// What to say of numbers that nobody measured, such as nominal rates of NICs; `nominal` with
    /// --verdict quick unless `ranges` is asked for
    #[arg(long, value_enum, conflicts_with = "uncertainty")]
    pub assume: Option<Assume>,
    /// Begin no further trial of the verdict after this time, such as "30 s"; the report says so if
    /// that leaves something out, since another run may then say something else
    #[arg(long, value_name = "TIME", conflicts_with = "uncertainty", value_parser = verdict_time)]
    pub verdict_time: Option<Duration>,
}

/// Reads the time that a verdict may take.
fn verdict_time(text: &str) -> Result<Duration, String> {
    let time: Quantity<Time> = text.parse().map_err(|error: UnitError| error.to_string())?;
    Duration::try_from_secs_f64(time.si())
        .map_err(|_| "a verdict needs a time from 0 s on".to_owned())
}

/// What is said of numbers that nobody measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Assume {
    /// Simulate them over what publications reached; `run` says so if that changes the answer
    Ranges,
    /// Nothing: they are reached
    Nominal,
}

/// How the bottleneck is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerdictKind {
    /// Change the keys that may be the bottleneck, simulate again and compare, until the answer is
    /// certain or 15 million events are spent, or ten times those of the run if that is more
    Full,
    /// Estimate the bottleneck from the causes of stalls
    Quick,
}
