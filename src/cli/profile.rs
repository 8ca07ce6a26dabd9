//! The command `profile`.

use super::format::{FigureTheme, PictureFormat, ReportFormat};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Show, compare, fit and draw the parameters of machines.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay profile show profile.toml
  forebay profile diff before.toml after.toml
  forebay profile fit samples.jsonl --output profile.toml
  forebay profile plot profile.toml --output figures

A profile is what `calibrate` found out about a machine: fitted parameters with 95 % intervals, and \
which of them the data cannot tell. It lies beside the raw samples that it was fitted to.")]
pub struct ProfileArgs {
    /// What to do with profiles.
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
    /// Say by how much nodes that differ from the others slow a job
    Nodes(ProfileNodes),
}

/// Print a profile.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay profile show profile.toml --format json")]
pub struct ProfileShow {
    /// File of the profile
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,
    /// Format of the output
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
    /// File of the first profile
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// File of the second profile
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

/// Fit a profile to raw samples.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay profile fit samples.jsonl --like profile.toml --output again.toml")]
pub struct ProfileFit {
    /// Raw samples, a JSON object per line, as `calibrate` and `import` write them
    #[arg(value_name = "SAMPLES")]
    pub samples: PathBuf,
    /// Profile from which to take the description of the machine
    #[arg(long, value_name = "FILE")]
    pub like: Option<PathBuf>,
    /// Write the profile here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Say by how much nodes that differ from the others slow a job.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay profile nodes calibration/profile.toml --scenario mine.toml

The scenario is simulated on nodes that are alike, and again with each of the others in place of one of them.")]
pub struct ProfileNodes {
    /// File of the profile
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,
    /// Scenario to simulate
    #[arg(long, value_name = "FILE")]
    pub scenario: PathBuf,
}

/// Draw every fit over its samples.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay profile plot profile.toml --output figures

Samples come from the file that the profile names; without it, only the fits are drawn.")]
pub struct ProfilePlot {
    /// File of the profile
    #[arg(value_name = "FILE")]
    pub profile: PathBuf,
    /// Directory for the figures; the profile's own directory if not given
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Kind of picture
    #[arg(long, value_enum, default_value_t = PictureFormat::Svg)]
    pub format: PictureFormat,
    /// Background colour of the figures
    #[arg(long, value_enum, default_value_t = FigureTheme::Light)]
    pub theme: FigureTheme,
}
