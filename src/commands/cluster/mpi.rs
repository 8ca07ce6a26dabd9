//! Collectives by the cluster's own MPI: a small C program, compiled here, which each rank then runs as its child. A child that inherits the
//! environment of its rank is that rank of MPI.

use crate::cluster::crew::{Apart, Crew};
use crate::cluster::message::Task;
use crate::commands::Failure;
use crate::commands::calibrate_output::Output;
use crate::import::collective::{self, Benchmark, CollectiveDefaults};
use crate::input::shown;
use crate::measurement::Sample;
use crate::probe::ClusterSettings;
use crate::probe::wall_clock;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SOURCE: &str = include_str!("../../../calibrate/mpi/allreduce.c");
/// Name of the folder for source and program, below the output directory.
const FOLDER: &str = "mpi-probe";
/// Sizes [B], if the plan has none.
const SIZES: [u64; 3] = [64 << 10, 1 << 20, 16 << 20];

/// Folder of the program, which is removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Measures all-reduce by MPI; returns what to tell the user. Without a compiler, or if ranks were started by ssh and so are no ranks of
/// MPI, these are the commands that do it elsewhere.
pub(super) fn measure(
    crew: &mut Crew,
    settings: &ClusterSettings,
    out: &mut Output,
    output: &Path,
    by_ssh: bool,
) -> Result<Option<String>, Failure> {
    let sizes: Vec<u64> = match &settings.allreduce {
        Some(sizes) => sizes.iter().map(|size| size.0).collect(),
        None => SIZES.to_vec(),
    };
    let trials = settings.trials.map_or(3, |trials| trials.0);
    let ranks = crew.ranks();
    let by_hand = |why: &str| {
        let listed: Vec<String> = sizes.iter().map(u64::to_string).collect();
        let source = output.join("allreduce.c");
        fs::write(&source, SOURCE).map_err(|error| Failure::unwritable(&source, &error))?;
        let (source, count, listed) = (shown(&source), ranks.len(), listed.join(" "));
        Ok(Some(format!(
            "MPI was not measured: {why}. By hand:\n  mpicc -O2 -o allreduce {source}\n  mpirun -n {count} ./allreduce {trials} {listed} > mpi.txt\n  forebay import osu mpi.txt --ranks {count} --format profile > mpi.toml\n"
        )))
    };
    if by_ssh {
        return by_hand("ranks that ssh started are no ranks of MPI");
    }
    let folder = Folder(output.join(FOLDER));
    fs::remove_dir_all(&folder.0).ok();
    let made = DirBuilder::new().mode(0o700).create(&folder.0);
    made.map_err(|error| Failure::unwritable(&folder.0, &error))?;
    let program = match compile(&folder.0) {
        Ok(program) => program,
        Err(why) => return by_hand(&why),
    };
    let mut command = vec![program.to_string_lossy().into_owned(), trials.to_string()];
    command.extend(sizes.iter().map(u64::to_string));
    let patience = patience(&sizes, trials, out.journal.samples());
    let task = |rank: &u32| (*rank, Task::Run { command: command.clone(), patience });
    let tasks = ranks.iter().map(task).collect();
    let found = crew.work(tasks, patience, Apart::No, &mut |_| {});
    let found = match found {
        Ok(found) => found,
        Err(failed) => return by_hand(&format!("{}: {}", failed.node, failed.why)),
    };
    let text = found.first().map(|of| of.lines.join("\n")).unwrap_or_default();
    if !text.lines().any(|line| line == format!("# ranks {}", ranks.len())) {
        let why =
            "its ranks did not find each other: start them by mpirun, or by `srun --mpi=pmix`";
        return by_hand(why);
    }
    let wanted = CollectiveDefaults {
        transport: "mpi".to_owned(),
        collective: None,
        ranks: Some(ranks.len() as u32),
    };
    let imported = match collective::read(Benchmark::Osu, &text, &wanted) {
        Ok(imported) => imported,
        Err(error) => return by_hand(&error.to_string()),
    };
    let count = imported.samples.len();
    let is_known = |sample: &Sample| sample.label("transport") == "mpi";
    if !out.journal.samples().iter().any(is_known) {
        let at = wall_clock();
        for sample in imported.samples {
            out.journal.append(Sample { at, ..sample })?;
        }
    }
    Ok(Some(format!("MPI: {count} trials of all-reduce among {} ranks\n", ranks.len())))
}

/// Returns the longest time that the program may take [s]: each trial takes a second or one operation, and an operation at most five times
/// as long as over TCP.
fn patience(sizes: &[u64], trials: usize, samples: &[Sample]) -> f64 {
    let over_tcp = |size: u64| {
        let same = |sample: &&Sample| {
            sample.label("transport") == "tcp" && sample.setting("bytes") == size as f64
        };
        samples.iter().filter(same).map(Sample::seconds_each).fold(0.0, f64::max)
    };
    let of_size = |size: &u64| (trials + 1) as f64 * (5.0 * over_tcp(*size)).max(2.0);
    30.0 + sizes.iter().map(of_size).sum::<f64>()
}

/// Compiles the program, without a shell; returns its path, or why there is none.
fn compile(folder: &Path) -> Result<PathBuf, String> {
    let (source, program) = (folder.join("allreduce.c"), folder.join("allreduce"));
    fs::write(&source, SOURCE)
        .map_err(|error| format!("{} cannot be written: {error}", shown(&source)))?;
    let compiled = Command::new("mpicc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(&source)
        .stdin(Stdio::null())
        .output();
    match compiled {
        Ok(done) if done.status.success() => fs::canonicalize(&program)
            .map_err(|error| format!("{} cannot be found: {error}", shown(&program))),
        Ok(done) => {
            let text = String::from_utf8_lossy(&done.stderr);
            Err(format!("mpicc failed: {}", text.lines().next().unwrap_or_default()))
        }
        Err(_) => Err("there is no mpicc on this node".to_owned()),
    }
}
