//! Base runs: the runs with which the short runs of a verdict are compared, if that is not the run itself.

use crate::report::{Outcome, Report};
use crate::scenario::Scenario;

use super::after_others::after_others;
use super::candidates::Subject;
use super::empty_queues::with_empty_queues;
use super::failure_free::without_failures;
use super::later_epochs::in_later_epochs;
use super::reference::Reference;
use super::short_runs::ShortRuns;

/// A run with which short runs are compared in place of the run that the verdict is on.
pub(super) struct BaseRun {
    pub(super) scenario: Scenario,
    pub(super) report: Report,
    pub(super) outcome: Outcome,
    /// Number of epochs that each job has read before this run begins; empty if none has.
    pub(super) epochs_before: Vec<f64>,
}

impl BaseRun {
    /// Returns the subject of a verdict, with this run in place of the one that it is on.
    pub(super) fn subject<'a>(&'a self, of: Subject<'a>) -> Subject<'a> {
        Subject { scenario: &self.scenario, report: &self.report, ..of }
    }

    /// Returns whether this run ends in the first epoch of the job, while the run of `subject` has later ones, which read from caches.
    pub(super) fn is_cold(&self, subject: &Subject) -> bool {
        let outlasts = |of: Reference| of.outlasts_first_epoch();
        let shown = Reference::new(self.subject(*subject), &self.outcome).is_some_and(outlasts);
        subject.keeps() && subject.shown().later_epochs.is_some() && !shown
    }
}

/// The base runs of a verdict.
#[derive(Default)]
pub(super) struct BaseRuns {
    /// The run with empty queues, if jobs live on prefilled ones.
    empty_queues: Option<BaseRun>,
    /// The run without jobs that end early.
    after_others: Option<BaseRun>,
    /// The run without failures, if a job fails.
    failure_free: Option<BaseRun>,
    /// The run in later epochs, if caches make the first epoch differ.
    later_epochs: Option<BaseRun>,
    /// Number of events of these runs.
    pub(super) events: u64,
}

impl BaseRuns {
    /// Simulates the base runs that the verdict on a job needs in place of the run itself.
    pub(super) fn simulate(subject: Subject, base: &Outcome, runs: ShortRuns) -> BaseRuns {
        let mut all = BaseRuns::default();
        (all.empty_queues, all.events) = with_empty_queues(&subject, base, runs);
        if all.empty_queues.is_none() {
            let (run, events) = after_others(&subject, base, runs);
            (all.after_others, all.events) = (run, all.events + events);
        }
        let (own, base) = all.own(subject, base);
        let (run, events) = without_failures(&own, base, runs);
        let (later, more) = in_later_epochs(&own, base, runs);
        (all.failure_free, all.later_epochs) = (run, later);
        all.events += events + more;
        all
    }

    /// Returns the job of the verdict in its base run; `base` is the run itself.
    pub(super) fn own<'a>(
        &'a self,
        subject: Subject<'a>,
        base: &'a Outcome,
    ) -> (Subject<'a>, &'a Outcome) {
        match self.empty_queues.as_ref().or(self.after_others.as_ref()) {
            Some(run) => (run.subject(subject), &run.outcome),
            None => (subject, base),
        }
    }

    /// Returns the same for another job.
    pub(super) fn other<'a>(
        &'a self,
        subject: Subject<'a>,
        base: &'a Outcome,
    ) -> (Subject<'a>, &'a Outcome) {
        match &self.empty_queues {
            Some(run) => (run.subject(subject), &run.outcome),
            None => (subject, base),
        }
    }

    /// Returns the run without failures, if a job fails. Jobs that end early make only one step in it.
    pub(super) fn failure_free(&self) -> Option<&BaseRun> {
        self.failure_free.as_ref()
    }

    /// Returns the run in later epochs, if caches make the first epoch differ.
    pub(super) fn later_epochs(&self) -> Option<&BaseRun> {
        self.later_epochs.as_ref()
    }

    /// Returns whether the verdict is on the time after other jobs have ended.
    pub(super) fn is_after_others(&self) -> bool {
        self.after_others.is_some()
    }
}
