//! The command `reference`.

use clap::Args;
use std::path::PathBuf;

/// Print every key, column, cause of stalls and exit code, as Markdown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay reference | less
  forebay reference --output docs/src/reference.md

Keys are those of scenario files, recipes of figures, and plans of calibration and validation.")]
pub struct Reference {
    /// Write the reference to this file; standard output if not given
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
