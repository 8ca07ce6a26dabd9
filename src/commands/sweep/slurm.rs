//! `forebay sweep --slurm`: writes, and submits, an array job of Slurm whose tasks make the shards of a sweep.

use super::shard::{count_in, create};
use super::{sampled, settings};
use crate::cli::Sweep;
use crate::commands::interrupt;
use crate::commands::paths::Paths;
use crate::commands::points::Opened;
use crate::commands::{Failure, output};
use crate::input::{shell_word, shown};
use crate::sim;
use crate::sweep::{Grid, Sampled};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Largest number of tasks: sites allow arrays of a thousand tasks and more, and schedulers start some ten in a second.
const MOST_TASKS: usize = 100;
/// Time that a task should take [s]: long beside its start, short beside a queue's limit, and little is lost when it is run again.
const TASK: f64 = 300.0;

/// Returns the path of the script in a directory of shards.
pub(super) fn script_in(directory: &Path) -> PathBuf {
    directory.join("array.sh")
}

/// Returns whether `script` makes this number of shards of the sweep whose command has these `words`.
pub(super) fn makes(script: &Path, tasks: usize, words: &[String]) -> bool {
    let line = format!("#SBATCH --array=1-{tasks}");
    let text = fs::read_to_string(script).unwrap_or_default();
    text.lines().any(|of| of == line) && is_of(script, words)
}

/// Returns whether `script` is of the sweep whose command has these `words`.
fn is_of(script: &Path, words: &[String]) -> bool {
    let words = format!(" {} --shard ", joined(words));
    fs::read_to_string(script).is_ok_and(|text| text.contains(&words))
}

fn joined(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// Writes `array.sh` and, with `--submit`, submits it. `words` is the command that each task runs, without `--shard` and what follows.
pub(super) fn execute(
    sweep: &Sweep,
    directory: &Path,
    (opened, grid): (&Opened, &Grid),
    words: &[String],
    quiet: bool,
) -> Result<(), Failure> {
    let runs = opened.check(grid, sampled(sweep).map(Sampled::runs))?;
    let first = opened.at(grid, 0)?;
    let cores = sweep.options.threads.unwrap_or(1);
    create(directory)?;
    // An array that goes on with shards has as many tasks as there are shards.
    let begun = count_in(directory, &settings(opened, grid, &first, sampled(sweep)))?;
    let tasks = match (sweep.tasks.map(usize::from), begun) {
        (Some(tasks), Some(begun)) if tasks != begun => {
            let place = shown(directory);
            return Err(Failure::Input(format!(
                "cannot sweep: {place} has some of {begun} shards, so that the array needs {begun} tasks; leave out --tasks, or name another --output"
            )));
        }
        (_, Some(begun)) => begun,
        (Some(tasks), None) => tasks,
        (None, None) => tasks_for((opened, grid), runs, cores, quiet)?,
    };
    let tasks = begun.unwrap_or(tasks.clamp(1, MOST_TASKS.min(grid.len())));
    let directory =
        fs::canonicalize(directory).map_err(|error| Failure::unreadable(directory, &error))?;
    let script = script_in(&directory);
    let paths = Paths::default().writes("the script", Some(&script))?;
    opened.read_by(paths).check()?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::Machine(format!("cannot find this program: {error}")))?;
    let text = text(&first.name, (tasks, cores), (&program, words), &directory);
    if begun.is_none() && script.is_file() && !is_of(&script, words) {
        return Err(Failure::Input(format!(
            "cannot sweep: {} is of another sweep; name another --output, or remove it if its tasks have ended",
            shown(&script)
        )));
    }
    output::file(&script, |to| to.write_all(text.as_bytes()))?;
    let place = shown(&script);
    if sweep.submit {
        submit(&script, quiet)?;
    } else {
        output::warn(
            quiet,
            &format!(
                "wrote {place} ({tasks} {}); submit it with `sbatch {}`",
                if tasks == 1 { "task" } else { "tasks" },
                shell_word(&place)
            ),
        );
    }
    super::collect::advise(&directory, quiet);
    Ok(())
}

/// Returns the number of tasks of [`TASK`] each, from the time that the first and the last point take.
fn tasks_for(
    (opened, grid): (&Opened, &Grid),
    runs: u32,
    cores: u16,
    quiet: bool,
) -> Result<usize, Failure> {
    let options = sim::Options { stop: Some(interrupt::flag()), ..sim::Options::default() };
    let (mut time, mut points) = (0.0, 0);
    let mut ends = vec![0, grid.len() - 1];
    ends.dedup();
    for index in ends {
        let scenario = opened.at(grid, index)?;
        let begin = Instant::now();
        drop(sim::run(&scenario, 0, &options));
        time += begin.elapsed().as_secs_f64() * f64::from(runs);
        points += 1;
    }
    if interrupt::raised() {
        return Err(Failure::Interrupted(
            "no script was written; `--tasks 20` skips the timing of points".into(),
        ));
    }
    let all = time / f64::from(points) * grid.len() as f64;
    let minutes = all / 60.0;
    let took = if minutes < 1.0 { format!("{all:.1} s") } else { format!("{minutes:.0} min") };
    output::warn(
        quiet,
        &format!(
            "{} points take an estimated {took} of one core (the first and the last were timed)",
            grid.len()
        ),
    );
    Ok((all / f64::from(cores) / TASK).ceil() as usize)
}

/// Returns the script. A task that is requeued, or runs twice, goes on with finished points and loses none.
fn text(
    name: &str,
    (tasks, cores): (usize, u16),
    (program, words): (&Path, &[String]),
    directory: &Path,
) -> String {
    let word = |path: &Path| shell_word(&path.to_string_lossy());
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    // Slurm replaces `%` and a letter.
    let log = directory.join("slurm-").to_string_lossy().replace('%', "%%");
    format!(
        "#!/bin/bash
#SBATCH --job-name=forebay-{name}
#SBATCH --array=1-{tasks}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={cores}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=\"{log}%A_%a.log\"
# Add what your site asks for: --partition, --account, --time.
# A task that is run again goes on with the points that it had finished; one that runs twice does no harm.
exec {} {} --shard auto/{tasks} --threads {cores} --output {}
",
        word(program),
        joined(words),
        word(directory)
    )
}

fn submit(script: &Path, quiet: bool) -> Result<(), Failure> {
    let submitted = Command::new("sbatch").arg("--parsable").arg(script).output();
    let submitted = submitted.map_err(|error| {
        let place = shell_word(&shown(script));
        Failure::Machine(format!(
            "cannot start sbatch: {error}; the script is {place}, to be submitted where Slurm is"
        ))
    })?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !submitted.status.success() {
        return Err(Failure::Machine(format!(
            "sbatch refused {}: {}",
            shown(script),
            said(&submitted.stderr)
        )));
    }
    output::warn(quiet, &format!("submitted {} as job {}", shown(script), said(&submitted.stdout)));
    Ok(())
}
