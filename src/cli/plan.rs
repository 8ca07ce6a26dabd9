//! The command `plan`.

use super::format::ReportFormat;
use super::scenario::ScenarioArgs;
use crate::units::share;
use clap::Args;
use std::path::PathBuf;

/// Find the smallest or largest value of a key that meets goals, or the best of several options.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay plan mine.toml --goal 'stall < 2 %' --min job.loader.pytorch.workers
  forebay plan mine.toml --goal 'AU > 95 %' --max 'job.copies=1..64'
  forebay plan scenarios/fewest-workers.toml --for 'job.batch=[64, 128]'
  forebay plan mine.toml --goal 'AU > 90 %' --min 'storage.nfs.file-server.bandwidth=1 GB/s..20 GB/s'
  forebay plan scenarios/buy-storage.toml --emit choice.toml --figure front.svg
  forebay plan mine.toml --best goodput --among 'job.checkpoint.interval=5 min..8 h'
  forebay plan mine.toml --goal 'epoch time < 1 h' --option as-is --option 'nic=cluster.network.nic=100 Gbit/s' --best 'cost per epoch'

A goal is a figure, a comparison and a value: any column of `sweep`, or a usual name, such as `AU`, `throughput`, `p99 step time`, `goodput`, \
`checkpoint share`, `time to accuracy`, `cost per epoch`; with `of JOB` for one job, otherwise all jobs must meet it. What the command line \
does not give comes from the scenario's `[plan]`. If no value or option meets the goals, the exit code is 1.")]
pub struct Plan {
    /// Arguments that name the scenario and change it.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// A goal, such as `stall < 2 %`; may be repeated
    #[arg(long, value_name = "GOAL")]
    pub goal: Vec<String>,
    /// Key whose smallest value is searched: `KEY`, `KEY=1..64`, `KEY=1 GB/s..20 GB/s` or `KEY=[1, 2, 4]`; repeated for the smallest
    /// combinations of several keys; `KEY, KEY=1..64` for keys that change together
    #[arg(long, value_name = "KEY[=RANGE]")]
    pub min: Vec<String>,
    /// Key whose largest value is searched
    #[arg(long, value_name = "KEY[=RANGE]")]
    pub max: Vec<String>,
    /// Key and a list of values, with a separate answer for each value: `job.batch=[32, 64]`; may be repeated
    #[arg(long = "for", value_name = "KEY=[VALUES]")]
    pub rows: Vec<String>,
    /// An option by name, with the keys that it changes; without any, the scenario as it is
    #[arg(long, value_name = "NAME[=KEY=VALUE,…]")]
    pub option: Vec<String>,
    /// Key of which each value is an option, such as `job.checkpoint.interval=5 min..8 h`
    #[arg(long, value_name = "KEY[=RANGE]")]
    pub among: Vec<String>,
    /// Figure by which options that meet the goals are chosen [default: cost per month, or throughput without prices]
    #[arg(long, value_name = "FIGURE")]
    pub best: Option<String>,
    /// Probability that the answer is right, as far as the simulation goes
    #[arg(long, value_name = "SHARE", default_value = "95 %", value_parser = certainty)]
    pub certainty: f64,
    /// Difference that does not matter: a part of the value; for shares, points of all time
    #[arg(long, value_name = "SHARE", default_value = "0.5 %", value_parser = within)]
    pub within: f64,
    /// Maximum number of replications of each setting
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(5..=100_000))]
    pub most: u32,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the answer here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw the goal's figure over the values tried, the smallest pairs, or options by cost and speed
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub figure: Option<PathBuf>,
    /// Write the scenario of the answer; beside the scenario if that names files
    #[arg(long, value_name = "FILE")]
    pub emit: Option<PathBuf>,
}

fn certainty(text: &str) -> Result<f64, String> {
    share(text).filter(|share| (0.5..=0.9999).contains(share)).ok_or_else(|| {
        "write a probability from 50 % to 99.99 %, such as `95 %` or `0.95`".to_owned()
    })
}

fn within(text: &str) -> Result<f64, String> {
    share(text)
        .filter(|share| (1e-5..=0.5).contains(share))
        .ok_or_else(|| "write a share from 0.001 % to 50 %, such as `1 %` or `0.01`".to_owned())
}
