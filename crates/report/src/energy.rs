//! What a run took out of the wall.

use super::figures::{EnergyReport, Figure};
use super::sample::over_replications;
use super::window::ratio;
use super::{EnergyOutcome, Outcome};

/// The energy of all nodes, by replication; `None` where not all that they draw is said.
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

/// Steps of all job copies.
fn steps(outcome: &Outcome) -> f64 {
    outcome.jobs.iter().map(|job| job.steps.len() as f64).sum()
}

/// Samples that they trained on.
fn samples(outcome: &Outcome) -> f64 {
    let of = outcome.jobs.iter().flat_map(|job| &job.steps);
    of.map(|step| step.samples as f64).sum()
}
