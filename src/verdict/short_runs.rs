//! What all short runs of a verdict have in common.

use crate::report::{Outcome, summarise};
use crate::scenario::Scenario;
use crate::sim::{self, IdleCollectives};
use std::sync::atomic::{AtomicBool, Ordering};

use super::base_runs::BaseRun;
use super::trial::LEAST_BUDGET;

/// Simulates the short runs of a verdict.
#[derive(Clone, Copy)]
pub(super) struct ShortRuns<'a> {
    /// Flag that ends short runs early when it becomes true.
    pub(super) stop: Option<&'a AtomicBool>,
    /// Collectives that the run itself, or an earlier short run, has simulated on links that nothing else uses.
    pub(super) collectives: &'a IdleCollectives,
}

impl ShortRuns<'_> {
    /// Simulates a scenario as a run to compare with, for a share of the events of the run itself, at least [`LEAST_BUDGET`]. Its jobs
    /// have read `epochs_before` epochs before it begins.
    pub(super) fn base(
        &self,
        scenario: Scenario,
        run: &Outcome,
        share: f64,
        epochs_before: Vec<f64>,
    ) -> BaseRun {
        let outcome = self.simulate(&scenario, budget_of(run, share), &epochs_before);
        let report = summarise(&scenario, std::slice::from_ref(&outcome), 0.0);
        BaseRun { scenario, report, outcome, epochs_before }
    }

    /// Simulates a scenario for at most `most_events` events. Its jobs have read `epochs_before` epochs before it begins.
    pub(super) fn simulate(
        &self,
        scenario: &Scenario,
        most_events: u64,
        epochs_before: &[f64],
    ) -> Outcome {
        let options = sim::Options {
            stop: self.stop,
            most_events: Some(most_events),
            epochs_before,
            collectives: Some(self.collectives),
            ..sim::Options::default()
        };
        sim::run(scenario, 0, &options)
    }

    /// Returns whether the short runs have been told to end.
    pub(super) fn are_stopped(&self) -> bool {
        self.stop.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Returns the budget of a run to compare with: a share of the events of the run itself, at least [`LEAST_BUDGET`].
pub(super) fn budget_of(run: &Outcome, share: f64) -> u64 {
    ((run.events as f64 * share) as u64).max(LEAST_BUDGET)
}
