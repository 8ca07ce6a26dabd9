//! The command `doctor`.

use super::format::ReportFormat;
use clap::Args;

/// Say what this machine offers, and what is missing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay doctor
  forebay doctor --format json

CUDA's libraries are looked for in the folders of FOREBAY_CUDA_LIBS, in LD_LIBRARY_PATH, in the nvidia \
packages of a Python environment (VIRTUAL_ENV, CONDA_PREFIX, python3), in /usr/local/cuda/lib64, and by \
the system's loader. What is missing is no error: the probes that need it are named.")]
pub struct Doctor {
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}
