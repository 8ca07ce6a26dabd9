//! `forebay explain-defaults`.

use super::{ReportFormat, ScenarioArgs};
use clap::Args;
use std::path::PathBuf;

/// Show what an answer depends on: numbers from data sheets, ranked by what publications reached of
/// them, and the defaults of keys that the scenario does not set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay explain-defaults scenarios/gradients.toml
  forebay explain-defaults scenarios/fletcher-lenet.toml --all
  forebay explain-defaults scenarios/gradients.toml --format json")]
pub struct ExplainDefaults {
    /// Arguments that name the scenario and change it
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// List every default that the run uses, with its value and source, and simulate nothing
    #[arg(long)]
    pub all: bool,
    /// Format of the table
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,
    /// Write the table to this file; standard output if not given
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
