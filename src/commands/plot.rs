//! `forebay plot`: draws figures by recipe from the rows of a file, a sweep or a run.

use super::paths::Paths;
use super::points::{self, Opened};
use super::progress::Watch;
use super::run_figure::{self, Kind};
use super::{Failure, input, interrupt, output, over_time};
use crate::cli::{FigureTheme, PictureFormat, Plot};
use crate::input::shown;
use crate::metric::OVER_TIME;
use crate::plot::{self, DataSource, Distribution, Figure, PlotError, Recipe, Rows, Table, Theme};
use crate::report::{self, Report};
use crate::scenario::{OverrideText, ScenarioFile};
use crate::sim;
use crate::sweep::{self, Cell, Finished, Grid, Plan, Row, Shard, Start};
use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Maximum number of points of a sweep that can be drawn, because the rows of all points are in memory.
const MOST_SWEPT: usize = 100_000;

pub(super) fn execute(plot: &Plot, quiet: bool) -> Result<(), Failure> {
    // All recipes are read before anything runs, and the errors of all of them are reported together.
    let recipes = plot.recipes.iter().map(|path| (path, open(path)));
    let recipes = every(recipes.map(|(path, recipe)| Ok((path, recipe?))))?;
    refuse_overwriting(plot, &recipes)?;
    if let Some(directory) = &plot.output {
        fs::create_dir_all(directory).map_err(|error| Failure::unwritable(directory, &error))?;
    }
    let mut wrong = Vec::new();
    for (path, recipe) in &recipes {
        match draw(plot, path, recipe, quiet) {
            Ok(()) => {}
            Err(ends @ (Failure::Interrupted(_) | Failure::ClosedPipe)) => return Err(ends),
            // The figures of the other recipes are still drawn, and their failures are reported, too.
            Err(failure) => wrong.push(failure),
        }
        interrupt::lower();
    }
    Failure::all(wrong)
}

/// Returns an error if a figure would overwrite the figure of another recipe, or a file that is read.
fn refuse_overwriting(plot: &Plot, recipes: &[(&PathBuf, Recipe)]) -> Result<(), Failure> {
    let mut paths = Paths::default();
    for (path, recipe) in recipes {
        paths = paths.reads("the recipe", *path);
        let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
        match recipe.data_source().map_err(fail)? {
            _ if plot.data.is_some() => {}
            Some(DataSource::Csv(csv)) => paths = paths.reads("the recipe's data", beside(csv)),
            Some(DataSource::Scenario { path, set, unset, vary, rows }) => {
                // Errors in the scenario are reported when its figure is drawn. A pipe can be read only once, so it is left for then.
                let (path, changes) = (beside(path), changes(set, unset));
                let once = input::is_read_once(&path);
                let open = || Opened::open(&path, &changes)?.varying(vary);
                let opened = (!once).then(|| open().ok()).flatten();
                if let Some(opened) = opened {
                    opened.resolve().ok();
                    if let (Rows::Sweep | Rows::Distribution(_), Ok(grid)) = (rows, opened.grid()) {
                        points::pool(plot.threads)?.install(|| opened.read_files(&grid));
                    }
                    paths = opened.read_by(paths);
                }
            }
            None => {}
        }
        for (_, target) in targets(plot, path) {
            paths = paths.writes_below("a figure", target);
        }
    }
    paths.reads_all("--data", plot.data.as_ref()).check()
}

/// Returns the figures of a recipe: in the directory that `--output` names; without it, beside the recipe.
fn targets(plot: &Plot, recipe: &Path) -> Vec<(Kind, PathBuf)> {
    let target = |(kind, extension): &(Kind, &str)| {
        let beside = recipe.with_extension(extension);
        let target = match (&plot.output, beside.file_name()) {
            (Some(directory), Some(name)) => directory.join(name),
            _ => beside,
        };
        (*kind, target)
    };
    kinds(plot.format).iter().map(target).collect()
}

/// Returns the theme that the command line asks for.
pub(super) fn theme(asked: FigureTheme) -> Theme {
    match asked {
        FigureTheme::Light => Theme::Light,
        FigureTheme::Dark => Theme::Dark,
        FigureTheme::Auto => Theme::Auto,
    }
}

/// Draws the figure of one recipe.
fn draw(plot: &Plot, path: &Path, recipe: &Recipe, quiet: bool) -> Result<(), Failure> {
    let table = table(plot, path, recipe, quiet)?;
    let theme = theme(plot.theme);
    let figure = Figure { theme, ..plot::build(recipe, &table).map_err(fail)? };
    write(plot, path, &figure, quiet)
}

/// Writes the figure of the recipe at `path`.
fn write(plot: &Plot, path: &Path, figure: &Figure, quiet: bool) -> Result<(), Failure> {
    for (kind, target) in targets(plot, path) {
        run_figure::save(&target, kind, figure)?;
        output::warn(quiet, &format!("wrote {}", shown(&target)));
    }
    Ok(())
}

/// Returns all results if there is no failure. Otherwise joins the messages of all input failures into one, after the problems
/// of files that are not TOML; returns a failure of another kind at once.
fn every<T>(results: impl Iterator<Item = Result<T, Failure>>) -> Result<Vec<T>, Failure> {
    let (mut found, mut wrong, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(one) => found.push(one),
            Err(Failure::Input(what)) => wrong.push(what),
            Err(Failure::Problems(problems)) => failures.push(Failure::Problems(problems)),
            Err(other) => return Err(other),
        }
    }
    if !wrong.is_empty() {
        failures.push(Failure::Input(wrong.join("\n")));
    }
    Failure::all(failures).map(|()| found)
}

/// Converts an error of a recipe or its data into a failure.
fn fail(error: PlotError) -> Failure {
    Failure::Input(error.to_string())
}

/// Reads a recipe.
fn open(path: &Path) -> Result<Recipe, Failure> {
    let text = input::toml(path)?;
    // Text that is not TOML is reported as it is for scenarios: with the line, and with help.
    ScenarioFile::parse_as("a recipe", &shown(path), text.clone())?;
    let recipe = Recipe::parse(&shown(path), &text).map_err(fail)?;
    recipe.data_source().map_err(fail)?;
    Ok(recipe)
}

/// Returns the kinds of pictures to write, each with its file extension.
pub(super) fn kinds(format: PictureFormat) -> &'static [(Kind, &'static str)] {
    match format {
        PictureFormat::Svg => &[(Kind::Svg, "svg")],
        PictureFormat::Png => &[(Kind::Png, "png")],
        PictureFormat::Both => &[(Kind::Svg, "svg"), (Kind::Png, "png")],
    }
}

/// Returns the rows to draw: from the file of `--data` if given, otherwise from the recipe's `[data]`.
fn table(plot: &Plot, path: &Path, recipe: &Recipe, quiet: bool) -> Result<Table, Failure> {
    if let Some(csv) = &plot.data {
        return read(csv);
    }
    let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
    match recipe.data_source().map_err(fail)? {
        None => {
            let what = "names no [data]; give rows with --data FILE.csv";
            Err(Failure::Input(format!("cannot draw {}: the recipe {what}", shown(path))))
        }
        Some(DataSource::Csv(csv)) => read(&beside(csv)),
        Some(DataSource::Scenario { path, set, unset, vary, rows }) => {
            let changes = (&changes(set, unset)[..], vary);
            of_scenario((plot, quiet), (path, &beside(path)), changes, rows)
        }
    }
}

/// Returns the changes that a recipe makes to its scenario.
fn changes(set: &[String], unset: &[String]) -> Vec<OverrideText> {
    let unset = unset.iter().cloned().map(OverrideText::Unset);
    unset.chain(set.iter().cloned().map(OverrideText::Set)).collect()
}

/// Returns the rows of a scenario with these changes; `name` is the scenario as the recipe names it.
fn of_scenario(
    (plot, quiet): (&Plot, bool),
    (name, path): (&str, &Path),
    changes: (&[OverrideText], &[String]),
    rows: Rows,
) -> Result<Table, Failure> {
    match rows {
        Rows::Series(points) => run_once(path, changes.0, points),
        Rows::Sweep => swept(path, changes, (sweep::header, sweep::rows), (plot.threads, quiet)),
        Rows::Distribution(Distribution::GpuOccupancy) => {
            let columns: Columns = (sweep::occupancy_header, sweep::occupancy_rows);
            let table = swept(path, changes, columns, (plot.threads, quiet))?;
            if table.is_empty() {
                let what =
                    "does not say how much of a GPU its kernels occupy: write `model.occupancy`";
                let name = shown(Path::new(name));
                return Err(Failure::Input(format!("cannot draw {name}: the scenario {what}")));
            }
            Ok(table)
        }
    }
}

/// Reads the rows of a CSV file.
fn read(path: &Path) -> Result<Table, Failure> {
    let table = Table::read(BufReader::new(input::rows(path)?));
    table.map_err(|error| Failure::Input(format!("cannot read {}: {error}", input::name(path))))
}

/// Functions that return the header of a sweep's table and the rows of one of its points.
type Columns = (fn(&Grid) -> Vec<String>, fn(&Grid, usize, &Report) -> Vec<Row>);

/// Simulates the sweep of a scenario and returns its rows.
fn swept(
    path: &Path,
    (changes, vary): (&[OverrideText], &[String]),
    (header, rows_of): Columns,
    (threads, quiet): (Option<u16>, bool),
) -> Result<Table, Failure> {
    let opened = Opened::open(path, changes)?.varying(vary)?;
    let grid = opened.grid()?;
    if grid.len() > MOST_SWEPT {
        let what =
            format!("its sweep has {} points, and at most {MOST_SWEPT} are drawn", grid.len());
        let remedy = "give its keys fewer values in `set`";
        return Err(Failure::Input(format!("cannot draw {}: {what}; {remedy}", shown(path))));
    }
    let pool = points::pool(threads)?;
    let replications = pool.install(|| opened.check(&grid, None))?;
    let runs = replications as usize * grid.len();
    let watch = Watch::new(runs as u64, pool.current_num_threads(), quiet);
    let start = |index| match opened.at(&grid, index) {
        Ok(scenario) => {
            watch.expect(replications, scenario.run.replications);
            Start::Run { scenario: Box::new(scenario), key: String::new() }
        }
        Err(problems) => Start::Invalid(problems),
    };
    let (stop, progress) = (interrupt::flag(), watch.slots());
    let plan = Plan {
        grid: &grid,
        shard: Shard::WHOLE,
        start: &start,
        draws: None,
        rows: rows_of,
        stop,
        progress,
    };
    let (mut rows, mut failure) = (BTreeMap::new(), None);
    let deliver = |index, finished| {
        let error = match finished {
            Finished::Rows { rows: point, .. } | Finished::Kept { rows: point, .. } => {
                rows.insert(index, point);
                return ControlFlow::Continue(());
            }
            // `start` above never says so: every point of a figure is run.
            Finished::Same { .. } => return ControlFlow::Continue(()),
            Finished::Unfinished(why) => points::endless(&grid, index, why),
            Finished::Invalid(problems) => points::invalid(&grid, index, &problems),
        };
        interrupt::raise();
        failure = Some(error);
        ControlFlow::Break(())
    };
    sweep::run(&plan, &pool, || watch.done(), deliver);
    watch.end();
    if let Some(failure) = failure {
        return Err(failure);
    }
    if interrupt::raised() {
        return Err(Failure::Interrupted(
            "no figure was drawn, because the sweep did not finish".into(),
        ));
    }
    let text = |row: Vec<Cell>| row.iter().map(ToString::to_string).collect();
    Table::new(header(&grid), rows.into_values().flatten().map(text)).map_err(fail)
}

/// Simulates one replication and returns its series over time, a row for each job and instant.
fn run_once(path: &Path, changes: &[OverrideText], points: usize) -> Result<Table, Failure> {
    let scenario = Opened::open(path, changes)?.resolve_to_run(|_| 1)?;
    let options = sim::Options { stop: Some(interrupt::flag()), ..sim::Options::default() };
    let outcome = sim::run(&scenario, 0, &options);
    if interrupt::raised() {
        return Err(Failure::Interrupted(
            "no figure was drawn, because the run did not finish".into(),
        ));
    }
    let report = report::summarise(&scenario, &[outcome.whole()?], 0.0);
    let columns = ["job", "time"].into_iter().chain(OVER_TIME.map(|(name, _)| name));
    let mut rows = Vec::new();
    for job in &report.jobs {
        let (times, columns) = over_time::points(&job.series, points);
        for (at, time) in times.iter().enumerate() {
            let cells = columns.iter().map(|column| column.get(at).copied().flatten());
            let cells = cells.map(|value| Cell::number(value).to_string());
            rows.push([job.name.clone(), time.to_string()].into_iter().chain(cells).collect());
        }
    }
    Table::new(columns.map(str::to_owned).collect(), rows).map_err(fail)
}
