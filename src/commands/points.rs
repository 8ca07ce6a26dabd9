//! What `run`, `sweep` and `plot` share: opening a scenario, its points, the threads.

use super::progress::tick;
use super::{Failure, input, memory};
use crate::cli::ScenarioArgs;
use crate::probe::limits;
use crate::profile::Profile;
use crate::report::Unfinished;
use crate::scenario::{Override, Problems, Reading, Scenario, ScenarioFile, Value};
use crate::sweep::{Grid, Row};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::iter::Either;
use rayon::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// Most invalid points that are described one by one.
const SHOWN: usize = 5;

/// A scenario file and the user's changes to it.
pub(super) struct Opened {
    file: ScenarioFile,
    overrides: Vec<Override>,
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
        Ok(Opened { file, overrides, threads: limits::threads() })
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

    /// The scenario with all changes, if its replications fit into memory.
    pub(super) fn resolve_to_run(&self) -> Result<Scenario, Failure> {
        let scenario = self.resolve()?;
        memory::check(&scenario, self.threads)?;
        Ok(scenario)
    }

    /// The same for the live world, which needs nothing that the machine has by itself.
    pub(super) fn resolve_live(&self) -> Result<Scenario, Problems> {
        self.file.resolve_as(&self.overrides, Reading { live: true, ..Reading::default() })
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
        let axes = self.file.axes()?;
        if axes.is_empty() {
            let what = "cannot sweep: the scenario has no [sweep] table";
            let remedy = "add one, such as\n\n  [sweep]\n  \"job.batch\" = [32, 64, 128]\n";
            return Err(Failure::Input(format!("{what}; {remedy}")));
        }
        match Grid::new(axes) {
            Some(grid) if !grid.is_empty() => Ok(grid),
            Some(_) => Err(Failure::Input("cannot sweep: a key of [sweep] has no values".into())),
            None => Err(Failure::Input("cannot sweep: too many points".into())),
        }
    }

    /// The scenario at a point.
    pub(super) fn at(&self, grid: &Grid, index: usize) -> Result<Scenario, Problems> {
        let mut overrides = self.overrides.clone();
        overrides.extend(grid.overrides(index));
        let scenario = self.file.resolve(&overrides)?;
        match memory::problem(self.name(), &scenario, self.threads) {
            Some(problem) => Err(problem.into()),
            None => Ok(scenario),
        }
    }

    /// Resolves every point, to refuse before anything runs; gives what `keep` makes of each.
    pub(super) fn check<T: Send>(
        &self,
        grid: &Grid,
        keep: impl Fn(usize, Scenario) -> T + Sync,
    ) -> Result<Vec<T>, Failure> {
        let resolve = |index: usize| match self.at(grid, index) {
            Ok(scenario) => Either::Left(keep(index, scenario)),
            Err(problems) => Either::Right((index, problems)),
        };
        let (kept, invalid): (Vec<T>, Vec<_>) =
            (0..grid.len()).into_par_iter().partition_map(resolve);
        if invalid.is_empty() { Ok(kept) } else { Err(refuse(grid, &invalid)) }
    }
}

/// Says which points are invalid, and why.
fn refuse(grid: &Grid, invalid: &[(usize, Problems)]) -> Failure {
    let describe = |(index, problems): &(usize, Problems)| {
        format!("at {}:\n{}", grid.describe(*index), problems.render(false).trim_end())
    };
    let shown = invalid.iter().take(SHOWN).map(describe).collect::<Vec<_>>().join("\n\n");
    let (count, all) = (invalid.len(), grid.len());
    let more =
        if count > SHOWN { format!("\n\n… and {} more", count - SHOWN) } else { String::new() };
    Failure::Input(format!("cannot sweep: {count} of {all} points are invalid\n{shown}{more}"))
}

/// The rows of a point, or why there are none.
pub(super) fn whole(
    grid: &Grid,
    index: usize,
    rows: Result<Vec<Row>, Unfinished>,
) -> Result<Vec<Row>, Failure> {
    let said = |why| Failure::Input(format!("cannot run {}: {why}", grid.describe(index)));
    rows.map_err(said)
}

/// Threads to work on: so many, or one for each core that we may use, or part of one.
pub(super) fn pool(threads: Option<u16>) -> Result<rayon::ThreadPool, Failure> {
    let builder = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.map_or_else(limits::threads, usize::from));
    builder.build().map_err(|error| Failure::Machine(format!("cannot start threads: {error}")))
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
