//! The command `calibrate`.

use clap::Args;
use std::path::PathBuf;

/// Measure this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay calibrate
  forebay calibrate --plan full --directory /scratch/me --output calibration
  forebay calibrate --plan full --data /datasets/images --only read,decode
  forebay calibrate --plan gpu --output calibration-gpu
  forebay calibrate --plan full --only step --device cuda:0

A plan says what is measured; quick takes less than a minute, full less than fifteen, gpu about four \
on an NVIDIA GPU. Probes write \
into a directory of their own below --directory, and remove it. Samples are kept in --output as soon \
as they exist: the same command again measures only what is missing.")]
pub struct Calibrate {
    /// What to measure: `quick`, `full`, `gpu`, or a plan file
    #[arg(long, value_name = "PLAN", default_value = "quick")]
    pub plan: PathBuf,
    /// Directory for the generated files that probes read; $SLURM_TMPDIR, $TMPDIR or the current directory if not given
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Your own data set, to be read instead of generated files; nothing is written there
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Directory for samples and profile
    #[arg(short, long, value_name = "DIR", default_value = "calibration")]
    pub output: PathBuf,
    /// Probes to run; all of the plan if not given
    #[arg(long, value_name = "PROBE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Devices on which to time training steps, instead of the plan's devices: `cpu`, `cuda:0`
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub device: Vec<String>,
    /// Time limit for all probes together, instead of the plan's limit: `90 s`
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
}
