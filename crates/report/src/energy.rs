//! Electrical energy of a run.

use super::figures::{EnergyReport, Figure};
use super::sample::over_replications;
use super::window::ratio;
use super::{EnergyOutcome, Outcome};

/// Returns the energy of all nodes, over replications; `None` if the power of some node is not given.
pub(super) fn energy(outcomes: &[Outcome]) -> Option<EnergyReport> {
    let all: Vec<(&Outcome, EnergyOutcome)> =
        outcomes.iter().filter_map(|outcome| Some((outcome, outcome.energy?))).collect();
    let figure = |of: fn(&Outcome, EnergyOutcome) -> Option<f64>| {
        let values = all.iter().filter_map(|(outcome, energy)| of(outcome, *energy));
        over_replications(&values.collect::<Vec<_>>())
    };
    let total: Figure = figure(|_, energy| Some(energy.total()));
    total.mean?;
    Some(EnergyReport {
        total,
        idle: figure(|_, energy| Some(energy.idle)),
        gpus: figure(|_, energy| Some(energy.gpus)),
        cores: figure(|_, energy| Some(energy.cores)),
        power: figure(|_, energy| ratio(energy.total(), energy.seconds)),
        per_step: figure(|outcome, energy| ratio(energy.total(), steps(outcome))),
        per_sample: figure(|outcome, energy| ratio(energy.total(), samples(outcome))),
    })
}

/// Returns the number of steps of all job copies.
fn steps(outcome: &Outcome) -> f64 {
    outcome.jobs.iter().map(|job| job.steps.len() as f64).sum()
}

/// Returns the number of samples that all job copies trained on.
fn samples(outcome: &Outcome) -> f64 {
    let of = outcome.jobs.iter().flat_map(|job| &job.steps);
    of.map(|step| step.samples as f64).sum()
}
