//! Hand-written scenarios for which the program once gave wrong results; the files are in `tests/data/cases`.

mod asynchronous;
mod checkpoints;
mod defaults;
mod faults;
mod faults_and_nodes;
mod large;
mod length;
mod loaders;
mod mechanisms;
mod pipelines;
mod read_back;
mod reads;
mod slow_gpus;
mod transfers;
mod verdicts;
mod words;

use forebay::report::{self, Outcome, Report};
use forebay::scenario::{Override, Scenario, ScenarioFile};
use forebay::sim;

use super::runs::repository;

/// Returns the scenario of a case with some keys changed, as by `--set`.
pub(super) fn case(name: &str, changes: &[(&str, &str)]) -> Scenario {
    resolved(name, changes).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns why a case is refused with these changes.
fn refusal(name: &str, changes: &[(&str, &str)]) -> String {
    resolved(name, changes).expect_err("a problem")
}

fn resolved(name: &str, changes: &[(&str, &str)]) -> Result<Scenario, String> {
    let file = ScenarioFile::open(&repository(&format!("tests/data/cases/{name}.toml")))
        .unwrap_or_else(|problems| panic!("{problems}"));
    let changes = changes.iter().map(|(key, value)| format!("{key}={value}").parse::<Override>());
    let changes: Vec<Override> = changes.map(|change| change.expect("an override")).collect();
    file.resolve(&changes).map_err(|problems| problems.to_string())
}

/// Returns the report over all replications of a scenario.
pub(super) fn report_of(scenario: &Scenario) -> Report {
    let options = sim::Options::default();
    let outcomes: Vec<Outcome> =
        (0..scenario.run.replications).map(|i| sim::run(scenario, i, &options)).collect();
    report::summarise(scenario, &outcomes, 0.0)
}
