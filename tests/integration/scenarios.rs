//! Shipped scenarios and recipes.

use super::runs::repository;
use forebay::plot::{DataSource, Recipe, Rows, Table, build};
use forebay::scenario::{Override, Scenario, ScenarioFile};
use forebay::sweep::{Grid, header, occupancy_header};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the TOML files of a directory of the repository, in order.
fn files(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository(directory)).expect("a shipped directory");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(!files.is_empty(), "{directory} is empty");
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a scenario and the points of its sweep; one point if it has none.
fn open(path: &Path) -> (ScenarioFile, Grid) {
    open_varied(path, &[])
}

/// As `open`, with these lists swept, too.
fn open_varied(path: &Path, vary: &[String]) -> (ScenarioFile, Grid) {
    let varied: Result<Vec<Override>, _> = vary.iter().map(|text| Override::varied(text)).collect();
    let varied = varied.unwrap_or_else(|problems| panic!("{problems}"));
    let file = ScenarioFile::open(path).unwrap_or_else(|problems| panic!("{problems}"));
    let axes = file.axes_with(&varied).unwrap_or_else(|problems| panic!("{problems}"));
    let grid = Grid::new(axes).expect("a grid of sensible size");
    (file, grid)
}

#[test]
fn every_shipped_scenario_and_plot_recipe_begins_with_a_question() {
    for path in files("scenarios").iter().chain(&files("plots")) {
        let text = read(path);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("# ") && first.contains('?'), "{}: {first}", path.display());
    }
}

#[test]
fn every_shipped_scenario_is_valid_at_every_point_of_its_sweep() {
    for path in files("scenarios") {
        let (file, grid) = open(&path);
        file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
        for index in 0..grid.len() {
            let overrides: Vec<_> = grid.overrides(index).into_iter().collect();
            let point = file.resolve(&overrides);
            point.unwrap_or_else(|problems| panic!("{}: {problems}", grid.describe(index)));
        }
    }
}

#[test]
fn every_shipped_plot_recipe_draws_only_columns_of_its_scenario() {
    for path in files("plots") {
        let recipe = Recipe::parse(&path.display().to_string(), &read(&path));
        let recipe = recipe.unwrap_or_else(|error| panic!("{error}"));
        let source = recipe.data_source().unwrap_or_else(|error| panic!("{error}"));
        let Some(DataSource::Scenario { path: scenario, set, vary, rows, .. }) = source else {
            panic!("{}: no scenario", path.display());
        };
        let scenario = path.parent().expect("a directory").join(scenario);
        let (file, grid) = open_varied(&scenario, vary);
        let set: Vec<_> = set.iter().map(|text| text.parse().expect("an override")).collect();
        let scenario = file.resolve(&set).unwrap_or_else(|problems| panic!("{problems}"));
        let table = match rows {
            Rows::Series(_) => over_time(),
            Rows::Sweep => stand_in(&grid, header(&grid), &scenario),
            Rows::Distribution(_) => stand_in(&grid, occupancy_header(&grid), &scenario),
        };
        build(&recipe, &table).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Returns stand-in rows over time, without a run.
fn over_time() -> Table {
    let columns = ["job", "time", "step_time", "queue_occupancy", "enqueue_rate", "dequeue_rate"];
    let columns = columns.into_iter().chain(["net_enqueue_rate"]);
    let columns: Vec<String> = columns.map(str::to_owned).collect();
    let row = |value: &str| columns.iter().map(|_| value.to_owned()).collect();
    Table::new(columns.clone(), vec![row("1"), row("2")]).expect("a table")
}

/// Returns stand-in rows of a sweep, without a run: the grid's values, the scenario's jobs, and 1 in every
/// other column.
fn stand_in(grid: &Grid, header: Vec<String>, scenario: &Scenario) -> Table {
    let row = |index: usize, job: &str| -> Vec<String> {
        let values = grid.values(index);
        let text = |value: &forebay::scenario::Value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        };
        let mut row: Vec<String> =
            values.into_iter().map(|value| value.map_or_else(String::new, text)).collect();
        row.push(job.to_owned());
        row.resize(header.len(), "1".to_owned());
        row
    };
    let jobs = |index: usize| scenario.jobs.iter().map(move |job| row(index, &job.name));
    let rows = (0..grid.len()).flat_map(jobs);
    let rows: Vec<Vec<String>> = rows.collect();
    Table::new(header, rows).expect("a table")
}
