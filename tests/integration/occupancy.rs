//! GPU occupancy as a distribution that figures draw.

use super::runs::{near, repository, shipped, simulate, written};
use super::support::Place;
use forebay::plot::{Panel, Recipe, Table, build};
use forebay::report::{JobReport, summarise};
use forebay::scenario::Scenario;
use forebay::scenario::ScenarioFile;
use forebay::sweep::{Grid, occupancy_header, occupancy_rows};

const SCENARIO: &str = "gpu-occupancy";
const NUMBER: &str = "job.parallel.data.learners";

fn job(scenario: &Scenario) -> JobReport {
    summarise(scenario, &[simulate(scenario)], 0.0).jobs.remove(0)
}

/// Returns the lines of the shipped recipe: name, and points of GPU occupancy and cumulative share of time.
fn drawn() -> Vec<(String, Vec<(f64, f64)>)> {
    let file = ScenarioFile::open(&repository(&format!("scenarios/{SCENARIO}.toml")));
    let file = file.unwrap_or_else(|problems| panic!("{problems}"));
    let grid = Grid::new(file.axes().expect("a sweep")).expect("a grid");
    let mut rows = Vec::new();
    for index in 0..grid.len() {
        let set: Vec<_> = grid.overrides(index).into_iter().collect();
        let scenario = file.resolve(&set).unwrap_or_else(|problems| panic!("{problems}"));
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        rows.extend(occupancy_rows(&grid, index, &report));
    }
    let text = rows.iter().map(|row| row.iter().map(ToString::to_string).collect());
    let table = Table::new(occupancy_header(&grid), text).expect("a table");
    let path = repository(&format!("plots/{SCENARIO}.toml"));
    let recipe = std::fs::read_to_string(&path).expect("a recipe");
    let recipe = Recipe::parse("recipe", &recipe).unwrap_or_else(|error| panic!("{error}"));
    let figure = build(&recipe, &table).unwrap_or_else(|error| panic!("{error}"));
    let Some(Panel::Lines(lines)) = figure.panels.first() else { panic!("lines") };
    let point = |point: &forebay::plot::Point| (point.x, point.y.expect("a share"));
    let line = |of: &forebay::plot::Series| {
        (of.name.clone(), of.points.iter().map(point).collect::<Vec<_>>())
    };
    lines.series.iter().map(line).collect()
}

#[test]
fn the_mean_of_the_plotted_occupancy_distribution_equals_the_reported_mean() {
    // System: kernels that fill multiples of a twentieth of the GPU, for 1, 2 and 4 learners. Expectation: each
    // cumulative line reaches 1 at full occupancy, and its mean is that of the sweep's column; more learners
    // give a lower line, which means a higher occupancy.
    let lines = drawn();
    let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["1", "2", "4"]);
    for (name, points) in &lines {
        assert_eq!(points.len(), 21, "{name}");
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(points[20], (1.0, 1.0), "{name}");
        let mut before = 0.0;
        let mut mean = 0.0;
        for (part, share) in points {
            mean += part * (share - before);
            before = *share;
        }
        let found = job(&shipped(SCENARIO, &[(NUMBER, name)])).learners.expect("learners");
        assert!((mean - found.occupancy.mean.expect("a mean")).abs() < 1e-9, "{name}: {mean}");
    }
    for pair in lines.windows(2) {
        let lower = pair[0].1.iter().zip(&pair[1].1).all(|(few, many)| many.1 <= few.1 + 1e-3);
        assert!(lower, "{pair:?}");
    }
}

#[test]
fn one_learner_without_stalls_has_the_occupancy_distribution_of_its_kernels() {
    // System: the shipped kernels, models that are averaged in no time. Expectation: occupancy is 15 % for a
    // quarter of the time, 25 % for another quarter, 40 % for a fifth, and so on, as in the scenario; jitter
    // stretches all kernels of a step alike.
    let small = ("job.sync.model-averaging.parameters", "\"1 B\"");
    let found = job(&shipped(SCENARIO, &[small, (NUMBER, "1")])).learners.expect("learners");
    let at_most = &found.occupancy_cumulative;
    for (place, share) in
        [(2, 0.0), (3, 0.25), (5, 0.5), (8, 0.7), (10, 0.85), (14, 0.95), (19, 0.95), (20, 1.0)]
    {
        assert!((at_most[place] - share).abs() < 1e-6, "{place}: {}", at_most[place]);
    }
    near(found.occupancy.mean.expect("a mean"), 0.375, "mean");
}

#[test]
fn the_gpu_occupancy_scenario_gives_the_numbers_stated_in_its_header() {
    let of =
        |number: &str| job(&shipped(SCENARIO, &[(NUMBER, number)])).learners.expect("learners");
    for (number, mean, half) in [("1", 0.38, 0.85), ("2", 0.7, 0.36), ("4", 0.98, 0.0)] {
        let found = of(number);
        let part = found.occupancy.mean.expect("a mean");
        assert!((part - mean).abs() < 0.006, "{number}: {part}");
        let at_most_half = found.occupancy_cumulative[10];
        assert!((at_most_half - half).abs() < 0.006, "{number}: {at_most_half}");
    }
}

#[test]
fn an_occupancy_distribution_is_drawn_only_if_kernel_occupancy_is_known() {
    let place = Place::new();
    let text = super::base::base().replace("steps = 60", "steps = 5");
    let sweep = format!("{text}\n[sweep]\n\"job.batch\" = [8, 16]\n");
    let known = sweep.replace("step = \"1 ms\"", "step = \"1 ms\"\noccupancy = 0.4");
    written(&known.replace("[sweep]\n\"job.batch\" = [8, 16]\n", ""), &[]);
    place.write("s.toml", &sweep);
    place.write("k.toml", &known);
    let recipe = |scenario: &str, more: &str| {
        format!(
            "x = \"gpu_occupancy\"\ny = [\"share\"]\ngroup = \"job.batch\"\n[data]\n\
             scenario = \"{scenario}\"\ndistribution = \"gpu_occupancy\"\n{more}"
        )
    };
    place.write("known.toml", &recipe("k.toml", ""));
    place.forebay(&["plot", "known.toml"]).assert().success();
    assert!(place.path("known.svg").exists());
    for (text, words) in [
        (recipe("s.toml", ""), "write `model.occupancy`"),
        (
            recipe("k.toml", "").replace("group = \"job.batch\"\n", ""),
            "more than one distribution: they differ in `job.batch`; write that as `group`",
        ),
        (recipe("k.toml", "series = true\n"), "either `series`"),
        (recipe("k.toml", "points = 5\n"), "either `series`"),
        (recipe("k.toml", "").replace("\"gpu_occupancy\"\n", "\"queue\"\n"), "unknown word"),
    ] {
        place.write("r.toml", &text);
        let assert = place.forebay(&["plot", "r.toml"]).assert().code(2);
        let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(message.contains(words), "{words}: {message}");
    }
}
