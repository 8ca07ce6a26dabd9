//! The commands `schema`, `completions` and `man`, which describe the program itself.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

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

/// File formats that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// Scenario files
    Scenario,
    /// Profiles of machines
    Profile,
    /// Reports as JSON
    Report,
    /// Recipes of figures
    Recipe,
    /// Plans of `calibrate`
    Plan,
    /// Plans of `validate`
    Validation,
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
