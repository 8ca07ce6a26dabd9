//! The command `new`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Write a first scenario, recipe of a figure, or plan of calibration.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  forebay new
  forebay new --loader pytorch --storage nfs --gpus 8 --nodes 4 --model resnet50 --dataset imagenet -o mine.toml
  forebay run mine.toml
  forebay new plot --scenario mine.toml -o figure.toml
  forebay new plan --gpus 1 -o plan.toml

On a terminal, what the options do not say is asked for, one question at a time; elsewhere, and with --yes, \
defaults are taken. The file runs as it is: replace its numbers by yours."
)]
pub struct New {
    /// What to write; a scenario if not given.
    #[command(subcommand)]
    pub kind: Option<NewKind>,
    /// Answers for a scenario.
    #[command(flatten)]
    pub scenario: NewScenario,
}

/// What to write.
#[derive(Debug, Subcommand)]
pub enum NewKind {
    /// A scenario, for `run`, `sweep` and `live`
    Scenario(NewScenario),
    /// A recipe of a figure, for `plot`
    Plot(NewPlot),
    /// A plan of calibration, for `calibrate`
    Plan(NewPlan),
}

/// Answers for a scenario.
#[derive(Debug, Clone, Args)]
pub struct NewScenario {
    /// Input pipeline: pytorch, tf-data, dali, keras, tf-queue, in-memory [default: pytorch]
    #[arg(long, value_name = "NAME")]
    pub loader: Option<String>,
    /// Where the data is: nfs, nvme, hdd, lustre, nvme-of, s3, memory, measured [default: nfs]
    #[arg(long, value_name = "NAME")]
    pub storage: Option<String>,
    /// GPUs of each node [default: 8]
    #[arg(long, value_name = "N")]
    pub gpus: Option<u64>,
    /// Nodes [default: 1]
    #[arg(long, value_name = "N")]
    pub nodes: Option<u64>,
    /// Which GPU of the catalogue [default: a100-sxm4-80gb]
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Which model of the catalogue [default: resnet50]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Data set: imagenet, imagenet-records, coco, cifar10, mnist, kits19, cosmoflow, tokens [default: imagenet; tokens for
    /// language models]
    #[arg(long, value_name = "NAME")]
    pub dataset: Option<String>,
    /// Samples for each copy of the model and step [default: what fits, up to 64, or 8 sequences]
    #[arg(long, value_name = "N")]
    pub batch: Option<u64>,
    /// Workers of the loader on each node [default: 8 for each GPU]
    #[arg(long, value_name = "N")]
    pub workers: Option<u64>,
    /// Name of the scenario [default: MODEL-STORAGE]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Where to write it.
    #[command(flatten)]
    pub target: NewTarget,
}

/// Answers for a recipe.
#[derive(Debug, Clone, Args)]
pub struct NewPlot {
    /// Scenario whose sweep is drawn, or its run over time if it has no `[sweep]`
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Columns to draw, each in a panel [default: samples_per_second,stall]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Swept key of the axis below [default: the last of `[sweep]`]
    #[arg(long, value_name = "KEY")]
    pub x: Option<String>,
    /// Swept key whose values get a line each [default: another one of `[sweep]`]
    #[arg(long, value_name = "KEY")]
    pub group: Option<String>,
    /// What the figure shows [default: its columns and key]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where to write it.
    #[command(flatten)]
    pub target: NewTarget,
}

/// Answers for a plan.
#[derive(Debug, Clone, Args)]
pub struct NewPlan {
    /// Probes: clock, host, queue, read, decode, step, cache, and with a GPU copy, collective [default: all of them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub probes: Vec<String>,
    /// GPUs to measure [default: 0]
    #[arg(long, value_name = "N")]
    pub gpus: Option<u64>,
    /// Time for all probes [default: 5 min]
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Where to write it.
    #[command(flatten)]
    pub target: NewTarget,
}

/// Where to write a new file.
#[derive(Debug, Clone, Args)]
pub struct NewTarget {
    /// File to write; standard output if not given, on a terminal asked for
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long)]
    pub force: bool,
    /// Ask nothing: take defaults
    #[arg(short, long)]
    pub yes: bool,
}
