//! `forebay completions`: prints a shell's script for completion with the Tab key.

use super::{Failure, output};
use crate::cli::{Cli, Completions};
use clap::CommandFactory;

pub(super) fn execute(completions: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "forebay", &mut script);
    output::stdout(&script)
}
