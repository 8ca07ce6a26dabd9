//! What `run`, `sweep` and `plot` share: opening a scenario, its points, the threads.

use super::memory::{self, Together};
use super::progress::tick;
use super::{Failure, input};
use crate::cli::ScenarioArgs;
use crate::probe::limits;
use crate::profile::Profile;
use crate::report::Unfinished;
use crate::scenario::{Override, Problems, Reading, Scenario, ScenarioFile, Value};
use crate::sweep::{Grid, MOST_POINTS};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::iter::Either;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most points that are checked before the first is run: some tenths of a second.
const CHECKED: usize = 2000;

/// Most invalid points that are described one by one.
const SHOWN: usize = 5;

/// A scenario file and the user's changes to it.
pub(super) struct Opened {
    file: ScenarioFile,
    overrides: Vec<Override>,
    /// Lists of values to sweep beside the file's.
    varied: Vec<Override>,
    /// How many runs there are at once.
    threads: usize,
}

impl Opened {
    /// Opens the scenario of a command line, to be changed by its options and by `more`
    /// (`key=value`).
    pub(super) fn of(arguments: &ScenarioArgs, more: Vec<String>) -> Result<Opened, Failure> {
        let overrides: Vec<String> = arguments.overrides.iter().cloned().chain(more).collect();
        let mut opened = Opened::open(&arguments.scenario, &overrides)?;
        opened.threads = arguments.threads.map_or(opened.threads, usize::from);
        if let Some(path) = &arguments.profile {
            // Options are relative to where we are, keys to where the scenario is.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let value = Value::from(path.to_string_lossy().as_ref());
            opened.overrides.push(Override::new("profile".to_owned(), value));
        }
        Ok(opened)
    }

    /// Opens `path` (`-`: standard input), to be changed by `overrides` (`key=value`).
    pub(super) fn open(path: &Path, overrides: &[String]) -> Result<Opened, Failure> {
        let file = if path == Path::new("-") {
            ScenarioFile::parse("standard input", input::standard_input()?)?
        } else {
            ScenarioFile::open(path)?
        };
        let overrides =
            overrides.iter().map(|text| text.parse()).collect::<Result<_, Problems>>()?;
        Ok(Opened { file, overrides, varied: Vec::new(), threads: limits::threads() })
    }

    /// The same, to sweep these lists of values (`key=[1, 2]`) too.
    pub(super) fn varying(self, lists: &[String]) -> Result<Opened, Failure> {
        let varied =
            lists.iter().map(|text| Override::varied(text)).collect::<Result<_, Problems>>()?;
        Ok(Opened { varied, ..self })
    }

    /// Name of the file, and what its relative names are relative to.
    pub(super) fn name(&self) -> &str {
        self.file.name()
    }

    /// Its text.
    pub(super) fn text(&self) -> &str {
        self.file.text()
    }

    /// The scenario with all changes.
    pub(super) fn resolve(&self) -> Result<Scenario, Problems> {
        self.file.resolve(&self.overrides)
    }

    /// The scenario with all changes. `runs` tells how many runs of it there will be; an error if they do not fit into memory.
    pub(super) fn resolve_to_run(
        &self,
        runs: impl FnOnce(&Scenario) -> usize,
    ) -> Result<Scenario, Failure> {
        let scenario = self.resolve()?;
        let kept = runs(&scenario);
        let together = Together { at_once: self.threads.min(kept), kept, threads: true };
        memory::check(&format!("`{}`", scenario.name), &scenario, together)?;
        Ok(scenario)
    }

    /// The same for the live world, which needs nothing that the machine has by itself.
    pub(super) fn resolve_live(&self) -> Result<Scenario, Problems> {
        self.file.resolve_as(&self.overrides, Reading { live: true, ..Reading::default() })
    }

    /// Path of the profile that the scenario names, if it names one.
    pub(super) fn profile_path(&self) -> Option<PathBuf> {
        self.file.profile_path(&self.overrides)
    }

    /// The profile that it names.
    pub(super) fn profile(&self) -> Result<Option<Arc<Profile>>, Problems> {
        self.file.profile(&self.overrides)
    }

    /// The scenario with all changes, on a machine of which this is known.
    pub(super) fn resolve_on(&self, profile: &Profile) -> Result<Scenario, Problems> {
        let reading = Reading { profile: Some(profile), ..Reading::default() };
        self.file.resolve_as(&self.overrides, reading)
    }

    /// The points of its `[sweep]` table.
    pub(super) fn grid(&self) -> Result<Grid, Failure> {
        let axes = self.file.axes_with(&self.varied)?;
        if axes.is_empty() {
            let what = "cannot sweep: the scenario has no [sweep] table";
            let remedy = "write `--vary \"job.batch=[32, 64, 128]\"`, or add to the file\n\n  [sweep]\n  \"job.batch\" = [32, 64, 128]\n";
            return Err(Failure::Input(format!("{what}; {remedy}")));
        }
        match Grid::new(axes) {
            Ok(grid) if !grid.is_empty() => Ok(grid),
            Ok(_) => Err(Failure::Input("cannot sweep: a key of [sweep] has no values".into())),
            Err(points) => {
                let what =
                    format!("[sweep] has {points:e} points, and at most {MOST_POINTS} can be run");
                let remedy = "give its keys fewer values, or sweep fewer keys at a time";
                Err(Failure::Input(format!("cannot sweep: {what}; {remedy}")))
            }
        }
    }

    /// The scenario at a point.
    pub(super) fn at(&self, grid: &Grid, index: usize) -> Result<Scenario, Problems> {
        let mut overrides = self.overrides.clone();
        overrides.extend(grid.overrides(index));
        self.file.resolve(&overrides)
    }

    /// What is in memory together while a grid is run: replications of several points, and their outcomes.
    fn together(&self, grid: &Grid, replications: u32) -> Together {
        let all = grid.len().saturating_mul(replications as usize);
        let at_once = self.threads.min(all);
        Together { at_once, kept: at_once.max(replications as usize), threads: true }
    }

    /// Resolves points to refuse before anything runs: all points of a grid of a usual size, and of a larger one those
    /// that show every value, for the first row is not to wait for minutes. Gives the replications of the first.
    pub(super) fn check(&self, grid: &Grid) -> Result<u32, Failure> {
        let samples = grid.samples(CHECKED);
        let resolve = |index: &usize| match self.at(grid, *index) {
            Ok(scenario) => {
                let together = self.together(grid, scenario.run.replications);
                Either::Left((*index, scenario.run.replications, together.needs(&scenario)))
            }
            Err(problems) => Either::Right((*index, problems)),
        };
        let (valid, invalid): (Vec<_>, Vec<_>) = samples.par_iter().partition_map(resolve);
        let (Some((_, first, _)), true) = (valid.first(), invalid.is_empty()) else {
            return Err(refuse(grid, samples.len(), &invalid));
        };
        // Memory is looked at before anything takes some.
        if let Some((largest, ..)) = valid.iter().max_by(|a, b| a.2.total_cmp(&b.2)) {
            let scenario = self.at(grid, *largest)?;
            let name = format!("`{}` at {}", scenario.name, grid.describe(*largest));
            memory::check(&name, &scenario, self.together(grid, scenario.run.replications))?;
        }
        Ok(*first)
    }
}

/// Says which points are invalid, and why.
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

/// What is wrong at a point.
fn at(grid: &Grid, index: usize, problems: &Problems) -> String {
    format!("at {}:\n{}", grid.describe(index), problems.render(false).trim_end())
}

/// A point cannot be run as it is written.
pub(super) fn invalid(grid: &Grid, index: usize, problems: &Problems) -> Failure {
    Failure::Input(format!("cannot run a point: {}\n", at(grid, index, problems)))
}

/// A point's run does not end.
pub(super) fn endless(grid: &Grid, index: usize, why: Unfinished) -> Failure {
    Failure::Input(format!("cannot run {}: {why}", grid.describe(index)))
}

/// Threads to work on: so many, or one for each core that we may use, or part of one.
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

/// A bar on a terminal; nothing elsewhere.
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
