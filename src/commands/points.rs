//! Common parts of `run`, `sweep` and `plot`: opening a scenario, resolving its points, and the pool of threads.

use super::memory::{self, Together};
use super::paths::Paths;
use super::progress::tick;
use super::{Failure, input};
use crate::cli::{Changes, KeyChange, ScenarioOptions};
use crate::plan;
use crate::probe::limits;
use crate::profile::Profile;
use crate::ranges;
use crate::report::Unfinished;
use crate::scenario::{Override, OverrideText, Problems, Reading, Scenario, ScenarioFile, Value};
use crate::sweep::Grid;
use crate::uncertainty;
use crate::verdict;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::iter::Either;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of points that are checked before the first one is run; checking them takes some tenths of a second.
const CHECKED: usize = 2000;

/// Maximum number of invalid points that are described one by one.
const SHOWN: usize = 5;

/// A scenario file and the user's changes to it.
pub(super) struct Opened {
    /// Path of the file; `-` for standard input.
    path: PathBuf,
    file: ScenarioFile,
    overrides: Vec<Override>,
    /// Lists of values to sweep in addition to the file's `[sweep]` table.
    varied: Vec<Override>,
    /// Maximum number of runs at the same time, if the user sets it.
    threads: Option<u16>,
}

/// Returns the changes that options of the command line ask for, in their order.
pub(super) fn texts(changes: &Changes) -> Vec<OverrideText> {
    let text = |change: &KeyChange| match change.clone() {
        KeyChange::Set(text) => OverrideText::Set(text),
        KeyChange::Unset(key) => OverrideText::Unset(key),
    };
    changes.0.iter().map(text).collect()
}

impl Opened {
    /// Opens the scenario that the command line names. Its options and then `more` change keys.
    pub(super) fn from_arguments(
        scenario: &Path,
        arguments: &ScenarioOptions,
        more: Vec<Override>,
    ) -> Result<Opened, Failure> {
        let mut opened = Opened::open(scenario, &texts(&arguments.changes))?;
        opened.overrides.extend(more);
        opened.threads = arguments.threads;
        if let Some(path) = &arguments.profile {
            // Paths in options are relative to the working directory, paths in keys to the scenario's directory.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let value = Value::from(path.to_string_lossy().as_ref());
            opened.overrides.push(Override::new("profile".to_owned(), value));
        }
        Ok(opened)
    }

    /// Opens the scenario at `path` (`-`: standard input) with these changes to its keys, one after the other.
    pub(super) fn open(path: &Path, changes: &[OverrideText]) -> Result<Opened, Failure> {
        let file = if path == Path::new("-") {
            ScenarioFile::parse("standard input", input::standard_input()?)?
        } else {
            ScenarioFile::open(path)?
        };
        let overrides = changes.iter().map(OverrideText::parse).collect::<Result<_, Problems>>()?;
        let path = path.to_owned();
        Ok(Opened { path, file, overrides, varied: Vec::new(), threads: None })
    }

    /// Adds the scenario and the files that it names to the files that a command reads. The scenario must have been resolved.
    pub(super) fn read_by(&self, paths: Paths) -> Paths {
        let paths = paths.reads("the scenario", &self.path);
        paths.reads_all("the scenario's input", self.file.files_read())
    }

    /// Returns the paths of the files that the scenario names and that have been read so far.
    pub(super) fn files_read(&self) -> Vec<PathBuf> {
        self.file.files_read()
    }

    /// Returns the maximum number of simulations at the same time.
    fn threads(&self) -> usize {
        self.threads.map_or_else(limits::threads, usize::from)
    }

    /// Makes one more change, after those of the command line.
    pub(super) fn add(&mut self, change: Override) {
        self.overrides.push(change);
    }

    /// Returns the changes to keys, in their order.
    pub(super) fn overrides(&self) -> &[Override] {
        &self.overrides
    }

    /// Adds lists of values (`key=[1, 2]`) to sweep.
    pub(super) fn varying(self, lists: &[String]) -> Result<Opened, Failure> {
        let varied =
            lists.iter().map(|text| Override::varied(text)).collect::<Result<_, Problems>>()?;
        Ok(Opened { varied, ..self })
    }

    /// Returns the path of the scenario file. Paths in the scenario are relative to the directory of this file.
    pub(super) fn name(&self) -> &str {
        self.file.name()
    }

    /// Returns the text of the scenario file.
    pub(super) fn text(&self) -> &str {
        self.file.text()
    }

    /// Returns the scenario with all overrides.
    pub(super) fn resolve(&self) -> Result<Scenario, Problems> {
        let scenario = self.file.resolve(&self.overrides)?;
        plan::check(&self.file, &self.overrides, &scenario)?;
        Ok(scenario)
    }

    /// Returns what the scenario is resolved from, for a verdict, which changes keys.
    pub(super) fn source(&self) -> verdict::Source<'_> {
        verdict::Source {
            file: &self.file,
            overrides: &self.overrides,
            reading: Reading::default(),
        }
    }

    /// Returns the scenario with all overrides. `runs` returns the number of runs of this scenario; they must fit into memory,
    /// otherwise an error is returned.
    pub(super) fn resolve_to_run(
        &self,
        runs: impl FnOnce(&Scenario) -> usize,
    ) -> Result<Scenario, Failure> {
        let scenario = self.resolve()?;
        let kept = runs(&scenario);
        let together = Together { at_once: self.threads().min(kept), kept, threads: true };
        memory::check(&format!("`{}`", scenario.name), &scenario, together)?;
        Ok(scenario)
    }

    /// Returns the scenario with all overrides for a live run, which needs no values for what the machine itself provides.
    pub(super) fn resolve_live(&self) -> Result<Scenario, Problems> {
        self.file.resolve_as(&self.overrides, Reading { live: true, ..Reading::default() })
    }

    /// Returns the path of the profile that the scenario names; `None` if it names none.
    pub(super) fn profile_path(&self) -> Option<PathBuf> {
        self.file.profile_path(&self.overrides)
    }

    /// Returns the profile that the scenario names; `None` if it names none.
    pub(super) fn profile(&self) -> Result<Option<Arc<Profile>>, Problems> {
        self.file.profile(&self.overrides)
    }

    /// Returns the scenario with all overrides, with `profile` in place of the profile that it names.
    pub(super) fn resolve_on(&self, profile: &Profile) -> Result<Scenario, Problems> {
        let reading = Reading { profile: Some(profile), ..Reading::default() };
        self.file.resolve_as(&self.overrides, reading)
    }

    /// Returns the grid of points of the `[sweep]` table and of the lists to sweep in addition.
    pub(super) fn grid(&self) -> Result<Grid, Failure> {
        // Without the values of the axes the scenario may be refused; its points are then checked later.
        if let Ok(scenario) = self.file.resolve(&self.overrides) {
            plan::check(&self.file, &self.overrides, &scenario)?;
        }
        let axes = self.file.axes_with(&self.varied)?;
        if axes.is_empty() {
            let what = "cannot sweep: the scenario has no [sweep] table";
            let remedy = "write `--vary \"job.batch=[32, 64, 128]\"`, or add to the file\n\n  [sweep]\n  \"job.batch\" = [32, 64, 128]\n";
            return Err(Failure::Input(format!("{what}; {remedy}")));
        }
        match Grid::new(axes) {
            Ok(grid) if !grid.is_empty() => Ok(grid),
            Ok(_) => Err(Failure::Input("cannot sweep: a key of [sweep] has no values".into())),
            Err((points, most)) => {
                let what = format!("[sweep] has {points:e} points, and at most {most} can be run");
                let remedy = "give its keys fewer values, or sweep fewer keys at a time";
                Err(Failure::Input(format!("cannot sweep: {what}; {remedy}")))
            }
        }
    }

    /// Returns the scenario at the point `index` of the grid.
    pub(super) fn at(&self, grid: &Grid, index: usize) -> Result<Scenario, Problems> {
        let mut overrides = self.overrides.clone();
        overrides.extend(grid.overrides(index));
        self.file.resolve(&overrides)
    }

    /// Returns the profile that parameters are sampled from.
    pub(super) fn profile_to_sample(&self) -> Result<Arc<Profile>, Failure> {
        let missing = || {
            let what = "cannot sample parameters: the scenario names no profile, which would give their uncertainty";
            let remedy = "write `profile = \"machine.toml\"` in it, or give --profile FILE";
            Failure::Input(format!("{what}; {remedy}"))
        };
        self.profile()?.ok_or_else(missing)
    }

    /// Returns the scenario at the point `index` of the grid with parameters sampled for its run number `run`, and the profile that they
    /// are sampled from.
    pub(super) fn sampled_at(
        &self,
        grid: &Grid,
        index: usize,
        (seed, run): (u64, u32),
    ) -> Result<(Scenario, Arc<Profile>), Problems> {
        let mut overrides = self.overrides.clone();
        overrides.extend(grid.overrides(index));
        // A point without the profile has nothing to sample.
        let profile = self.file.profile(&overrides)?.unwrap_or_default();
        let drawn = uncertainty::drawn(&profile, seed, run);
        let reading = Reading { profile: Some(&drawn), ..Reading::default() };
        Ok((self.file.resolve_as(&overrides, reading)?, profile))
    }

    /// Returns the scenario at the point `index` of the grid with nominal numbers as draw number `run` has them, and a profile without noise.
    pub(super) fn over_ranges_at(
        &self,
        grid: &Grid,
        index: usize,
        run: u32,
    ) -> Result<(Scenario, Arc<Profile>), Problems> {
        let mut overrides = self.overrides.clone();
        overrides.extend(grid.overrides(index));
        let reading = Reading::default();
        let scenario = self.file.resolve_as(&overrides, reading)?;
        let source = verdict::Source { file: &self.file, overrides: &overrides, reading };
        let changes = ranges::changes_of_draw(source, &scenario, run as usize);
        let drawn = self.file.resolve_as(&[overrides.clone(), changes].concat(), reading)?;
        Ok((drawn, Arc::default()))
    }

    /// Reads the files that points of the grid name: those of the ends, and of each value that is or holds a text, as names of files
    /// do, of at most [`CHECKED`] values. What is wrong with them is left to the check.
    pub(super) fn read_files(&self, grid: &Grid) {
        let naming = grid
            .each_value()
            .filter(|(_, values)| values.iter().any(Value::holds_text))
            .take(CHECKED);
        let ends = [0, grid.len().saturating_sub(1)];
        let points: Vec<usize> = ends.into_iter().chain(naming.map(|(index, _)| index)).collect();
        points.par_iter().for_each(|index| drop(self.at(grid, *index)));
    }

    /// Returns how many replications and outcomes are in memory at the same time while a grid is run.
    fn together(&self, grid: &Grid, replications: u32) -> Together {
        let all = grid.len().saturating_mul(replications as usize);
        let at_once = self.threads().min(all);
        Together { at_once, kept: at_once.max(replications as usize), threads: true }
    }

    /// Checks points before anything runs: all points of a small grid; of a large one, a subset that contains every value of
    /// each key, because the first row must not take minutes. Each point has `runs`, or as many as its scenario's replications. Returns
    /// the number of runs of the first point.
    pub(super) fn check(&self, grid: &Grid, runs: Option<u32>) -> Result<u32, Failure> {
        let samples = grid.samples(CHECKED);
        let runs = |scenario: &Scenario| runs.unwrap_or(scenario.run.replications);
        let resolve = |index: &usize| match self.at(grid, *index) {
            Ok(scenario) => {
                let together = self.together(grid, runs(&scenario));
                Either::Left((*index, runs(&scenario), together.needs(&scenario)))
            }
            Err(problems) => Either::Right((*index, problems)),
        };
        let (valid, invalid): (Vec<_>, Vec<_>) = samples.par_iter().partition_map(resolve);
        let (Some((_, first, _)), true) = (valid.first(), invalid.is_empty()) else {
            return Err(refuse(grid, samples.len(), &invalid));
        };
        // Check the point that needs the most memory before any simulation allocates memory.
        if let Some((largest, ..)) = valid.iter().max_by(|a, b| a.2.total_cmp(&b.2)) {
            let scenario = self.at(grid, *largest)?;
            let name = format!("`{}` at {}", scenario.name, grid.describe(*largest));
            memory::check(&name, &scenario, self.together(grid, runs(&scenario)))?;
        }
        Ok(*first)
    }
}

/// Returns the failure that lists invalid points and what is wrong with each.
fn refuse(grid: &Grid, checked: usize, invalid: &[(usize, Problems)]) -> Failure {
    let describe = |(index, problems): &(usize, Problems)| at(grid, *index, problems);
    let shown = invalid.iter().take(SHOWN).map(describe).collect::<Vec<_>>().join("\n\n");
    let count = invalid.len();
    let all = match grid.len() == checked {
        true => format!("{checked} points"),
        false => format!("the {checked} points that were checked first"),
    };
    let more =
        if count > SHOWN { format!("\n\n… and {} more", count - SHOWN) } else { String::new() };
    Failure::Input(format!("cannot sweep: {count} of {all} are invalid\n{shown}{more}"))
}

/// Describes a point and its problems.
fn at(grid: &Grid, index: usize, problems: &Problems) -> String {
    format!("at {}:\n{}", grid.describe(index), problems.render(false).trim_end())
}

/// Returns the failure that the scenario at a point is invalid.
pub(super) fn invalid(grid: &Grid, index: usize, problems: &Problems) -> Failure {
    Failure::Input(format!("cannot run a point: {}\n", at(grid, index, problems)))
}

/// Returns the failure that the run of a point does not end.
pub(super) fn endless(grid: &Grid, index: usize, why: Unfinished) -> Failure {
    Failure::Input(format!("cannot run {}: {why}", grid.describe(index)))
}

/// Returns a pool of `threads` threads; without a number, one thread for each core (or part of a core) that this process may
/// use.
pub(super) fn pool(threads: Option<u16>) -> Result<rayon::ThreadPool, Failure> {
    let builder = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.map_or_else(limits::threads, usize::from));
    builder.build().map_err(|error| {
        let why = error.to_string();
        let why = why.split(" (os error").next().unwrap_or(&why);
        Failure::Machine(format!(
            "cannot start threads: {why}; raise `ulimit -u`, or write `--threads 1`"
        ))
    })
}

/// Returns a progress bar that is drawn only on a terminal, and not if `quiet`.
pub(super) fn progress(tasks: u64, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(tasks), target);
    let style = "{bar:40} {pos} of {len} runs, {elapsed} elapsed, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    tick(&bar);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::SCENARIO;
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::fs;

    #[test]
    fn files_that_only_middle_points_of_a_sweep_name_are_read_before_it_starts() {
        let place = tempfile::tempdir().expect("a directory");
        let values = ["z1.csv", "z2.csv", "z3.csv"].map(|name| {
            fs::write(place.path().join(name), "1000\n").expect("a file");
            format!("{{ empirical = {{ file = \"{name}\" }} }}")
        });
        let path = place.path().join("s.toml");
        fs::write(&path, SCENARIO).expect("a file");
        let vary = format!("dataset.digits.sample_size=[{}]", values.join(", "));
        let opened = Opened::open(&path, &[]).and_then(|opened| opened.varying(&[vary]));
        let opened = opened.unwrap_or_else(|failure| panic!("{}", failure.message(false)));
        let grid = opened.grid().expect("three points");
        opened.read_files(&grid);
        let read: BTreeSet<_> = opened
            .files_read()
            .iter()
            .filter_map(|path| path.file_name())
            .map(OsString::from)
            .collect();
        assert_eq!(read, ["z1.csv", "z2.csv", "z3.csv"].map(OsString::from).into());
    }
}
