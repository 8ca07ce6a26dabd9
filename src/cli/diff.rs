//! `forebay diff`.

use super::ReportFormat;
use clap::Args;
use std::path::PathBuf;

/// Compare two reports: what changed, by how much, and whether it is more than chance.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay run mine.toml --format json --output before.json
  forebay run mine.toml --set job.loader.pytorch.workers=16 --format json --output after.json
  forebay diff before.json after.json

Jobs are compared by name. The first line says which report is faster. A difference is beyond chance where the 95 % intervals of \
both figures do not overlap. Figures are left out if they differ by less than 0.1 %, if each lies in the other's 95 % interval, or if \
they repeat a figure above.")]
pub struct Diff {
    /// First report, in JSON
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Second report, in JSON
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// List all figures, those too that hardly differ
    #[arg(long)]
    pub all: bool,
    /// Format of the table
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}
