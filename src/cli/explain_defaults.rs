//! `forebay explain-defaults`.

use super::{ReportFormat, ScenarioArgs};
use clap::Args;
use std::path::PathBuf;

/// Show the value and source of each default that a run uses for keys not set in its scenario.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay explain-defaults scenarios/fletcher-lenet.toml
  forebay explain-defaults scenarios/gradients.toml --format json")]
pub struct ExplainDefaults {
    /// Arguments that name the scenario and change it
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Format of the table
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,
    /// Write the table to this file; standard output if not given
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
