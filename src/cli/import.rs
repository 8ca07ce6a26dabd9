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
    /// The program whose files are imported.
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
  forebay import kineto a.json.gz --batch 64 --format csv --set job.batch=64 > runs.csv
  forebay import kineto b.json.gz --batch 32 --format csv --set job.batch=32 | tail -n +2 >> runs.csv

`forebay validate --measured runs.csv` reads such rows; --set adds the scenario's keys to them.")]
    Kineto(Kineto),
    /// A workload of DLIO or MLPerf Storage: converted into a scenario with the same load on storage
    #[command(after_help = "\
Examples:
  forebay import dlio unet3d_h100.yaml --accelerators 8 --bandwidth '20 GB/s' > unet3d.toml
  forebay import dlio unet3d_h100.yaml ++workload.reader.read_threads=8 > unet3d.toml
  forebay run unet3d.toml

The YAML says what each accelerator reads, not how many there are or what they read from: give \
--accelerators, --hosts and --bandwidth, and write the rest of the storage into the scenario.")]
    Dlio(Dlio),
    /// A folder of results of MLPerf Storage: where its time went, as a scenario, and as a measured row
    #[command(after_help = "\
Examples:
  forebay import mlperf results/unet3d_h100/run-1
  forebay import mlperf results/unet3d_h100 --format scenario > unet3d.toml
  forebay import mlperf results/unet3d_h100 --system systems/mine.json --format scenario > unet3d.toml
  forebay import mlperf results/unet3d_h100 --format csv > runs.csv

A run's folder has summary.json and configs/config.yaml (or dlio_config/config.yaml). A folder of several runs of \
the same is one result. With per_epoch_stats.json it is known which rules the run followed, with N_output.json of \
each rank where its time went. `forebay validate --measured runs.csv --scenario unet3d.toml` compares the two.")]
    Mlperf(Mlperf),
    /// Times of collectives from NVIDIA's nccl-tests, text or JSON: converted into samples or a fitted profile
    #[command(after_help = "\
Examples:
  forebay import nccl-tests all_reduce.txt > samples.jsonl
  forebay import nccl-tests all_reduce.json --format profile > transport.toml

Both halves of each row count, out of place and in place. Text and JSON say which program ran on how many \
ranks; where a log lost it, give --collective and --ranks.")]
    NcclTests(Collectives),
    /// Latencies from the OSU micro-benchmarks, version 3 to 7: converted into samples or a fitted profile
    #[command(after_help = "\
Examples:
  forebay import osu osu_allreduce.txt --ranks 16 > samples.jsonl
  forebay import osu osu_allreduce.txt --ranks 16 --format profile > transport.toml

These tables do not say how many ranks there were: give --ranks. Where they have it (-f), the latency of the \
slowest rank counts, otherwise the mean. They end at 1 MiB unless told otherwise: gradients need -m 4:268435456.")]
    Osu(Collectives),
    /// Times from the Intel MPI Benchmarks, IMB-MPI1: converted into samples or a fitted profile
    #[command(after_help = "\
Examples:
  forebay import imb imb.txt > samples.jsonl
  forebay import imb imb.txt --name mpi-ib --format profile > transport.toml

The slowest rank counts. A file may have tables of several benchmarks and numbers of processes.")]
    Imb(Collectives),
    /// All-reduce times from Baidu's DeepBench, as printed or as CSV: converted into samples or a fitted profile
    #[command(after_help = "\
Examples:
  forebay import deepbench nccl.txt > samples.jsonl
  forebay import deepbench calibrate/published/deepbench-allreduce.csv --format profile > transport.toml

A CSV file has the columns ranks, floats or bytes, and milliseconds; algorithm, and machine, which becomes \
the transport's name, may be there.")]
    #[command(name = "deepbench")]
    DeepBench(Collectives),
}

/// Times of collectives, as a benchmark printed them.
#[derive(Debug, Args)]
pub struct Collectives {
    /// Files of the benchmark; `-` reads standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Name of the transport in the profile; the communication library's or benchmark's name if not given
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Number of ranks, where the files do not give it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub ranks: Option<u32>,
    /// Collective that was timed, where the files do not name it: allreduce, broadcast, ...
    #[arg(long, value_name = "COLLECTIVE")]
    pub collective: Option<String>,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = CollectiveFormat::Samples)]
    pub format: CollectiveFormat,
}

/// Output format of imported times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CollectiveFormat {
    /// Samples as JSON, one object per row, as input for `profile fit`
    Samples,
    /// A profile that is fitted to the samples
    Profile,
}

/// A workload of DLIO or MLPerf Storage.
#[derive(Debug, Args)]
pub struct Dlio {
    /// Workload files (`-` reads standard input), each of which overrides earlier ones, and overrides in Hydra's syntax
    #[arg(value_name = "FILE|OVERRIDE", required = true)]
    pub parts: Vec<String>,
    /// Total number of accelerators
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub accelerators: u32,
    /// Number of client hosts among which the accelerators are divided
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub hosts: u32,
    /// Cores of each host
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub cores: u32,
    /// Bandwidth of the storage
    #[arg(long, value_name = "RATE", default_value = "10 GB/s", allow_hyphen_values = true)]
    pub bandwidth: String,
}

/// A folder of results of MLPerf Storage.
#[derive(Debug, Args)]
pub struct Mlperf {
    /// Folder of a run, or of all runs of a result
    #[arg(value_name = "RESULT_DIR")]
    pub folder: PathBuf,
    /// Description of the system, as submissions have it in `systems`: cores and NICs of its client hosts
    #[arg(long, value_name = "FILE")]
    pub system: Option<PathBuf>,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = MlperfFormat::Text)]
    pub format: MlperfFormat,
}

/// Output format of a folder of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MlperfFormat {
    /// Text for people
    Text,
    /// A scenario
    Scenario,
    /// A CSV row with a header, for `validate --measured`
    Csv,
    /// JSON
    Json,
}

/// A trace of the PyTorch profiler.
#[derive(Debug, Args)]
pub struct Kineto {
    /// Trace file, as `export_chrome_trace` writes it; may be compressed with gzip; `-` reads standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Samples per step, from which samples per second are computed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Number of warm-up steps to leave out at the beginning
    #[arg(long, value_name = "STEPS", default_value_t = 1)]
    pub warm_up: usize,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = ImportFormat::Text)]
    pub format: ImportFormat,
    /// Scenario key that describes the run, to be added to the CSV row; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub keys: Vec<String>,
}

/// Output format of an imported trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImportFormat {
    /// Text for people
    Text,
    /// A CSV row with a header
    Csv,
    /// A JSON object
    Json,
}
