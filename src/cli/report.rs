//! The command `report`.

use clap::Args;
use std::path::PathBuf;

/// Write a page of results: one HTML file with figures, tables and everything that the results rest on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay run mine.toml --format json --output mine.json
  forebay report mine.json --scenario mine.toml --output mine.html
  forebay report rows.csv --output rows.html
  forebay report plan.json compare.json --output decision.html
  forebay report calibration/profile.toml --output machine.html

An input is what `run`, `plan`, `compare` or `validate` wrote with `--format json`, rows of `sweep` as CSV or JSON, or a profile. What it is \
follows from its content. Several inputs become sections of one page, in this order. The page loads nothing else: it can be sent by mail, \
opened from a file and printed, and says everything without scripts, which only sort its tables.")]
pub struct Report {
    /// Results: reports, plans, comparisons and validations in JSON, rows of sweeps in CSV or JSON, profiles
    #[arg(required = true, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// Scenario whose text the page shows beside the results of it; may be repeated
    #[arg(long, value_name = "SCENARIO")]
    pub scenario: Vec<PathBuf>,
    /// Title of the page [default: the names of the scenarios]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Write the page here instead of to standard output
    #[arg(short, long, value_name = "FILE.html")]
    pub output: Option<PathBuf>,
}
