//! The command `calibrate`.

use clap::Args;
use std::path::PathBuf;

/// Measure this machine, or a cluster.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay calibrate
  forebay calibrate --plan full --directory /scratch/me --output calibration
  forebay calibrate --plan full --data /datasets/images --only read,decode
  forebay calibrate --plan gpu --output calibration-gpu
  forebay calibrate --plan full --only step --device cuda:0
  srun -N 16 --ntasks-per-node=1 forebay calibrate --plan cluster --directory /lustre/me
  forebay calibrate --plan cluster --hosts hosts.txt --directory /nfs/me --output /nfs/me/calibration
  srun -N 16 --ntasks-per-node=1 forebay calibrate --check calibration/profile.toml --directory /lustre/me

A plan says what is measured; quick takes less than a minute, full less than fifteen, gpu about four \
on an NVIDIA GPU. Probes write \
into a directory of their own below --directory, and remove it. Samples are kept in --output as soon \
as they exist: the same command again measures only what is missing. cluster measures several nodes, \
two to five minutes: start the same command on each, or name them with --hosts.")]
pub struct Calibrate {
    /// What to measure: `quick`, `full`, `gpu`, `cluster`, or a plan file
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
    /// Measure this node and the hosts in this file, one per line; ssh starts a process on each host
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    pub hosts: Option<PathBuf>,
    /// Command that runs a program on a host; the host and the program are appended
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "ssh -o BatchMode=yes",
        help_heading = "Clusters"
    )]
    pub ssh: String,
    /// Network interface by which the nodes reach each other [default: the first one that is not the loopback]
    #[arg(long, value_name = "NAME", help_heading = "Clusters")]
    pub interface: Option<String>,
    /// Also measure all-reduce by MPI: compiles a small program with `mpicc`, and runs it on each rank
    #[arg(long, help_heading = "Clusters")]
    pub mpi_probe: bool,
    /// Measure for about a minute, and end with exit code 1 if a node or the shared storage is worse than in this profile of a cluster
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["plan", "output"], help_heading = "Clusters")]
    pub check: Option<PathBuf>,
    /// Simulate this scenario to say by how much nodes that fall behind slow its jobs
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    pub scenario: Option<PathBuf>,
    /// Remove working files of another calibration in --directory, which no longer runs
    #[arg(long, help_heading = "Clusters")]
    pub remove_leftovers: bool,
}
