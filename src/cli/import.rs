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
    /// A workload of DLIO or MLPerf Storage: a scenario that asks the same of a storage
    #[command(after_help = "\
Examples:
  forebay import dlio unet3d_h100.yaml --accelerators 8 --bandwidth '20 GB/s' > unet3d.toml
  forebay import dlio unet3d_h100.yaml ++workload.reader.read_threads=8 > unet3d.toml
  forebay run unet3d.toml

The YAML says what each accelerator reads, not how many there are or what they read from: give
--accelerators, --hosts and --bandwidth, and write the rest of the storage into the scenario.")]
    Dlio(Dlio),
}

/// A workload of DLIO or MLPerf Storage.
#[derive(Debug, Args)]
pub struct Dlio {
    /// Workload files, the later ones over the earlier, and overrides as Hydra takes them
    #[arg(value_name = "FILE|OVERRIDE", required = true)]
    pub parts: Vec<String>,
    /// Accelerators in all
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub accelerators: u32,
    /// Client hosts that they are on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub hosts: u32,
    /// Bandwidth of the storage
    #[arg(long, value_name = "RATE", default_value = "10 GB/s")]
    pub bandwidth: String,
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
