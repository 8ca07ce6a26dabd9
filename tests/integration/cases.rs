//! Hand-written scenarios for which the program once gave wrong results; the files are in `tests/data/cases`.

mod advice;
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

use forebay::report::{self, Outcome, Report, Verdict};
use forebay::scenario::Scenario;
use forebay::sim;

use super::runs::{Case, opened, overrides};

/// Returns the scenario of a case with some keys changed, as by `--set`.
pub(super) fn case(name: &str, changes: &[(&str, &str)]) -> Scenario {
    kept(name, changes).scenario
}

/// Returns a case with some keys changed, as by `--set`.
pub(super) fn kept(name: &str, changes: &[(&str, &str)]) -> Case {
    Case::new(opened(&path(name)), changes)
}

/// Returns the report and the verdict of a case with some keys changed.
fn judged(name: &str, changes: &[(&str, &str)]) -> (Report, Verdict) {
    crate::verdicts::judged(&kept(name, changes))
}

/// Returns why a case is refused with these changes.
fn refusal(name: &str, changes: &[(&str, &str)]) -> String {
    resolved(name, changes).expect_err("a problem")
}

fn resolved(name: &str, changes: &[(&str, &str)]) -> Result<Scenario, String> {
    opened(&path(name)).resolve(&overrides(changes)).map_err(|problems| problems.to_string())
}

fn path(name: &str) -> String {
    format!("tests/data/cases/{name}.toml")
}

/// Returns the report over all replications of a scenario.
pub(super) fn report_of(scenario: &Scenario) -> Report {
    let options = sim::Options::default();
    let outcomes: Vec<Outcome> =
        (0..scenario.run.replications).map(|i| sim::run(scenario, i, &options)).collect();
    report::summarise(scenario, &outcomes, 0.0)
}
