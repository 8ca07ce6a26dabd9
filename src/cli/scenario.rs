//! Arguments that name a scenario and change it.

use super::changes::Changes;
use clap::Args;
use std::path::PathBuf;

/// Arguments that name a scenario and change it.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// Scenario file; `-` reads standard input
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Changes to the scenario.
    #[command(flatten)]
    pub options: ScenarioOptions,
}

/// Options that change a scenario.
#[derive(Debug, Args)]
pub struct ScenarioOptions {
    /// Changes to keys of the scenario.
    #[command(flatten)]
    pub changes: Changes,
    /// Profile of a machine, instead of the profile that the scenario names; may be a pipe
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Threads to use; all cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
}
