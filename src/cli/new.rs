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
  forebay new --model unet3d --gpu h100-sxm5 --storage lustre -o unet3d.toml
  forebay new plot --scenario mine.toml -o figure.toml
  forebay new plan --gpus 1 -o plan.toml

On a terminal, what the options do not say is asked for, one question at a time; elsewhere, and with --yes, \
defaults are taken. The file runs as it is: replace its numbers by yours."
)]
pub struct New {
    /// What to write; a scenario if not given.
    #[command(subcommand)]
    pub kind: Option<NewKind>,
    /// Options that answer the questions for a scenario.
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

/// Options that answer the questions for a scenario.
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
    /// Name of the GPU type in the catalogue [default: a100-sxm4-80gb]
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Name of a model in the catalogue, or a workload of MLPerf Storage: unet3d, cosmoflow [default: resnet50]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Data set: imagenet, imagenet-records, coco, cifar10, mnist, kits19, cosmoflow, tokens [default: imagenet; tokens for
    /// language models; kits19 for unet3d; cosmoflow for cosmoflow]
    #[arg(long, value_name = "NAME")]
    pub dataset: Option<String>,
    /// Batch size of each model replica, in samples [default: the largest that fits, up to 64 images or 8 sequences, or 8
    /// sequences for each stage of a pipeline; 7 for unet3d, 1 for cosmoflow]
    #[arg(long, value_name = "N")]
    pub batch: Option<u64>,
    /// Loader workers on each node; pytorch and dali divide them among the loaders of the node's GPUs [default: 8 for each
    /// model replica, 4 for unet3d and cosmoflow]
    #[arg(long, value_name = "N")]
    pub workers: Option<u64>,
    /// Name of the scenario [default: MODEL-STORAGE]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Where to write the scenario.
    #[command(flatten)]
    pub target: NewTarget,
}

/// Options that answer the questions for a recipe.
#[derive(Debug, Clone, Args)]
pub struct NewPlot {
    /// Scenario whose sweep is drawn, or its run over time if it has no `[sweep]`
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Columns to draw, each in a panel [default: samples_per_second,stall]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Swept key on the x axis [default: the last key of `[sweep]`]
    #[arg(long, value_name = "KEY")]
    pub x: Option<String>,
    /// Swept key with one line in the figure for each value [default: another key of `[sweep]`]
    #[arg(long, value_name = "KEY")]
    pub group: Option<String>,
    /// Title of the figure [default: the first column and the x axis]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where to write the recipe.
    #[command(flatten)]
    pub target: NewTarget,
}

/// Options that answer the questions for a plan.
#[derive(Debug, Clone, Args)]
pub struct NewPlan {
    /// Probes: clock, host, queue, read, decode, step, cache, and with a GPU copy, collective [default: all of them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub probes: Vec<String>,
    /// GPUs to measure [default: 0]
    #[arg(long, value_name = "N")]
    pub gpus: Option<u64>,
    /// Time limit for all probes together [default: 5 min]
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Where to write the plan.
    #[command(flatten)]
    pub target: NewTarget,
}

/// Where to write a new file.
#[derive(Debug, Clone, Args)]
pub struct NewTarget {
    /// File to write; if not given, forebay asks for it on a terminal, and otherwise writes to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// Ask no questions and take the defaults
    #[arg(short, long)]
    pub yes: bool,
}
