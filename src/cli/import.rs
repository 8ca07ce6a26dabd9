//! The command `import`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Read what other programs measured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay import kineto trace.json
  forebay import kineto --help")]
pub struct Import {
    /// From which program.
    #[command(subcommand)]
    pub from: ImportFrom,
}

/// Programs whose files are read.
#[derive(Debug, Subcommand)]
pub enum ImportFrom {
    /// A trace of the PyTorch profiler: step times and the time spent waiting for the DataLoader
    #[command(after_help = "\
Examples:
  forebay import kineto trace.json
  forebay import kineto trace.json.gz --batch 64 --format csv --set job.batch=64 >> runs.csv

The CSV row is one that `forebay validate --measured` reads; --set adds the scenario's keys to it.")]
    Kineto(Kineto),
}

/// A trace of the PyTorch profiler.
#[derive(Debug, Args)]
pub struct Kineto {
    /// Trace file, as `export_chrome_trace` writes it; may be compressed with gzip
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Samples per step, for samples per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Steps to leave out at the beginning
    #[arg(long, value_name = "STEPS", default_value_t = 1)]
    pub warm_up: usize,
    /// Form of the result
    #[arg(long, value_enum, default_value_t = ImportFormat::Text)]
    pub format: ImportFormat,
    /// A key of the scenario that describes the run, for the CSV row; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub keys: Vec<String>,
}

/// Form of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// For people
    Text,
    /// A row with a header
    Csv,
    /// An object
    Json,
}
