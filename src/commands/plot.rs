//! `forebay plot`: rows from a file, a sweep or a run; figures by recipe.

use super::points::{self, Opened};
use super::progress::Watch;
use super::run_figure::{self, Kind};
use super::{Failure, input, interrupt, output, over_time};
use crate::cli::{PictureFormat, Plot};
use crate::plot::{self, DataSource, Distribution, PlotError, Recipe, Rows, Table};
use crate::report::{self, Report};
use crate::sim;
use crate::sweep::{self, Cell, Grid, Plan, Row};
use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;

pub(super) fn execute(plot: &Plot, quiet: bool) -> Result<(), Failure> {
    // All recipes are read before anything runs.
    let recipes = plot.recipes.iter().map(|path| Ok((path, open(path)?)));
    let recipes = recipes.collect::<Result<Vec<_>, Failure>>()?;
    if let Some(directory) = &plot.output {
        fs::create_dir_all(directory).map_err(|error| Failure::unwritable(directory, &error))?;
    }
    for (path, recipe) in &recipes {
        let table = table(plot, path, recipe, quiet)?;
        let figure = plot::build(recipe, &table).map_err(fail)?;
        for (kind, extension) in kinds(plot.format) {
            let beside = path.with_extension(extension);
            let target = match (&plot.output, beside.file_name()) {
                (Some(directory), Some(name)) => directory.join(name),
                _ => beside,
            };
            run_figure::save(&target, *kind, &figure)?;
            output::warn(quiet, &format!("wrote {}", target.display()));
        }
    }
    Ok(())
}

/// A problem of a recipe or of its data.
fn fail(error: PlotError) -> Failure {
    Failure::Input(error.to_string())
}

/// Reads a recipe.
fn open(path: &Path) -> Result<Recipe, Failure> {
    let text = input::text(path)?;
    let recipe = Recipe::parse(&path.display().to_string(), &text).map_err(fail)?;
    recipe.data_source().map_err(fail)?;
    Ok(recipe)
}

/// The pictures to write, and their names' endings.
pub(super) fn kinds(format: PictureFormat) -> &'static [(Kind, &'static str)] {
    match format {
        PictureFormat::Svg => &[(Kind::Svg, "svg")],
        PictureFormat::Png => &[(Kind::Png, "png")],
        PictureFormat::Both => &[(Kind::Svg, "svg"), (Kind::Png, "png")],
    }
}

/// The rows that a recipe asks for, or the user has.
fn table(plot: &Plot, path: &Path, recipe: &Recipe, quiet: bool) -> Result<Table, Failure> {
    if let Some(csv) = &plot.data {
        return read(csv);
    }
    let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
    match recipe.data_source().map_err(fail)? {
        None => {
            let what = "names no [data]; give rows with --data FILE.csv";
            Err(Failure::Input(format!("cannot draw {}: it {what}", path.display())))
        }
        Some(DataSource::Csv(csv)) => read(&beside(csv)),
        Some(DataSource::Scenario { path, set, rows: Rows::Series(points) }) => {
            run_once(&beside(path), set, points)
        }
        Some(DataSource::Scenario { path, set, rows: Rows::Sweep }) => {
            swept(&beside(path), set, (sweep::header, sweep::rows), (plot.threads, quiet))
        }
        Some(DataSource::Scenario { path, set, rows: Rows::Distribution(of) }) => {
            let Distribution::GpuOccupancy = of;
            let columns: Columns = (sweep::occupancy_header, sweep::occupancy_rows);
            let table = swept(&beside(path), set, columns, (plot.threads, quiet))?;
            if table.is_empty() {
                let what = "says nothing of what kernels fill of a GPU: write `model.occupancy`";
                return Err(Failure::Input(format!("cannot draw {path}: it {what}")));
            }
            Ok(table)
        }
    }
}

/// Rows of a CSV file.
fn read(path: &Path) -> Result<Table, Failure> {
    let table = Table::read(BufReader::new(input::open(path)?));
    table.map_err(|error| Failure::Input(format!("cannot read {}: {error}", path.display())))
}

/// The header of a sweep, and the rows of its points.
type Columns = (fn(&Grid) -> Vec<String>, fn(&Grid, usize, &Report) -> Vec<Row>);

/// Rows of a sweep.
fn swept(
    path: &Path,
    set: &[String],
    (header, rows_of): Columns,
    (threads, quiet): (Option<u16>, bool),
) -> Result<Table, Failure> {
    let opened = Opened::open(path, set)?;
    let grid = opened.grid()?;
    let pool = points::pool(threads)?;
    let runs = pool.install(|| opened.check(&grid, |_, at| u64::from(at.run.replications)))?;
    let watch = Watch::new(runs.iter().sum(), pool.current_num_threads(), quiet);
    let todo: Vec<usize> = (0..grid.len()).collect();
    let resolve = |index| opened.at(&grid, index);
    let plan = Plan {
        grid: &grid,
        points: &todo,
        resolve: &resolve,
        rows: rows_of,
        stop: interrupt::flag(),
        progress: watch.slots(),
    };
    let (mut rows, mut failure) = (BTreeMap::new(), None);
    sweep::run(
        &plan,
        &pool,
        || watch.done(),
        |index, point| match points::whole(&grid, index, point) {
            Ok(point) => {
                rows.insert(index, point);
                ControlFlow::Continue(())
            }
            Err(error) => {
                interrupt::raise();
                failure = Some(error);
                ControlFlow::Break(())
            }
        },
    );
    watch.end();
    if let Some(failure) = failure {
        return Err(failure);
    }
    if interrupt::raised() {
        return Err(Failure::Interrupted("no figure was drawn of an unfinished sweep".into()));
    }
    let text = |row: Vec<Cell>| row.iter().map(ToString::to_string).collect();
    Ok(Table::new(header(&grid), rows.into_values().flatten().map(text).collect()))
}

/// Rows over time of one replication, one for each job and instant.
fn run_once(path: &Path, set: &[String], points: usize) -> Result<Table, Failure> {
    let scenario = Opened::open(path, set)?.resolve_to_run()?;
    let options = sim::Options { stop: Some(interrupt::flag()), ..sim::Options::default() };
    let outcome = sim::run(&scenario, 0, &options);
    if interrupt::raised() {
        return Err(Failure::Interrupted("no figure was drawn of an unfinished run".into()));
    }
    let report = report::summarise(&scenario, &[outcome.whole()?], 0.0);
    let columns = ["job", "time"].into_iter().chain(over_time::COLUMNS.map(|(name, _)| name));
    let mut rows = Vec::new();
    for job in &report.jobs {
        let (times, columns) = over_time::points(&job.series, points);
        for (at, time) in times.iter().enumerate() {
            let cells = columns.iter().map(|column| column.get(at).copied().flatten());
            let cells = cells.map(|value| Cell::number(value).to_string());
            rows.push([job.name.clone(), time.to_string()].into_iter().chain(cells).collect());
        }
    }
    Ok(Table::new(columns.map(str::to_owned).collect(), rows))
}
