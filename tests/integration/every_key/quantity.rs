//! The quantity of a row: a number in the outcome or report of a run.

use forebay::report::{JobOutcome, Outcome, summarise};
use forebay::scenario::Scenario;
use forebay::sim;
use serde_json::Value as Json;

/// A number in the outcome or report of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Quantity {
    /// `step`: mean time of a step, over the second half of all steps [s].
    Step,
    /// `time`: end of the last step of all jobs [s].
    Time,
    /// `steps`: number of steps of all jobs.
    Steps,
    /// `served NAME`: amount that resources of this name served; 0 if there is none.
    Served(String),
    /// `stall CAUSE`: share of the first job's time that its accelerators stalled for this cause; 0 if they
    /// never did.
    Stall(String),
    /// `remarks`: number of sentences on settings without effect or unknown quantities.
    Remarks,
    /// `/jobs/0/queue/capacity`: a number of the report, by JSON pointer.
    Report(String),
}

impl Quantity {
    /// Returns the quantity of this name, or `None` if there is none.
    pub(super) fn named(text: &str) -> Option<Quantity> {
        let words = text.split_once(' ');
        Some(match (text, words) {
            ("step", _) => Self::Step,
            ("time", _) => Self::Time,
            ("steps", _) => Self::Steps,
            ("remarks", _) => Self::Remarks,
            (_, Some(("served", name))) => Self::Served(name.to_owned()),
            (_, Some(("stall", cause))) => Self::Stall(cause.to_owned()),
            _ if text.starts_with('/') => Self::Report(text.to_owned()),
            _ => return None,
        })
    }

    /// Returns the quantity over the replications of a scenario.
    pub(super) fn of(&self, scenario: &Scenario) -> Result<f64, String> {
        let run = |replication| sim::run(scenario, replication, &sim::Options::default());
        let outcomes: Vec<Outcome> = (0..scenario.run.replications).map(run).collect();
        let first = &outcomes[0];
        if let Some(why) = &first.unfinished {
            return Err(format!("the run is not whole: {why:?}"));
        }
        let value = match self {
            Self::Step => step(first),
            Self::Time => first.makespan,
            Self::Steps => first.jobs.iter().map(|job| job.steps.len()).sum::<usize>() as f64,
            Self::Served(name) => served(first, name),
            Self::Remarks => scenario.remarks.len() as f64,
            Self::Stall(cause) => {
                let causes = &report_of(scenario, &outcomes)["jobs"][0]["stall"];
                causes[cause]["mean"].as_f64().unwrap_or(0.0)
            }
            Self::Report(pointer) => in_report(scenario, &outcomes, pointer)?,
        };
        if value.is_finite() { Ok(value) } else { Err(format!("{value} is no number")) }
    }
}

/// Returns the mean over job copies; NaN if one has too few steps.
fn step(outcome: &Outcome) -> f64 {
    let of = |job: &JobOutcome| {
        let half = &job.steps[job.steps.len() / 2..];
        match half {
            [first, .., last] => (last.end - first.end) / (half.len() - 1) as f64,
            _ => f64::NAN,
        }
    };
    outcome.jobs.iter().map(of).sum::<f64>() / outcome.jobs.len() as f64
}

fn served(outcome: &Outcome, name: &str) -> f64 {
    let named = outcome.resources.iter().filter(|resource| resource.name == name);
    named.map(|resource| resource.served).sum()
}

fn report_of(scenario: &Scenario, outcomes: &[Outcome]) -> Json {
    serde_json::to_value(summarise(scenario, outcomes, 0.0)).expect("JSON")
}

fn in_report(scenario: &Scenario, outcomes: &[Outcome], pointer: &str) -> Result<f64, String> {
    let report = report_of(scenario, outcomes);
    let found = report.pointer(pointer).and_then(Json::as_f64);
    found.ok_or_else(|| format!("the report has no number at {pointer}"))
}
