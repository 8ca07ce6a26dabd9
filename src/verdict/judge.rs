//! Finds the verdict on a job, and short verdicts on other jobs that wait.

use crate::report::{Need, Outcome, Verdict};

use super::base_runs::{BaseRun, BaseRuns};
use super::candidates::Subject;
use super::demand::{self, Demands};
use super::finder::{Finder, Found, Tried};
use super::need::{first_epoch_needs, needs};
use super::reference::Reference;
use super::short_runs::ShortRuns;
use super::statement::Statement;
use super::trial::{Budget, LEAST_BUDGET, Trials, further_budgets};
use super::{WAITING, words};

/// Maximum number of other jobs that get a verdict.
const MOST_OTHERS: usize = 3;

/// A run whose jobs are judged.
pub(super) struct Judge<'a> {
    trials: Trials<'a>,
    /// Base runs of the other jobs, those that lose most time first.
    others: Vec<Reference<'a>>,
    /// Events of one replication.
    one: u64,
    /// Events that the verdict took before its short runs.
    before: u64,
    /// Whether the verdict is on the time after other jobs have ended.
    after_others: bool,
    runs: ShortRuns<'a>,
}

impl<'a> Judge<'a> {
    /// Returns the judge of a job whose short runs are compared with base runs; `None` if the job has completed no step in its own.
    pub(super) fn new(
        bases: &'a BaseRuns,
        (subject, base): (Subject<'a>, &'a Outcome),
        budget: Budget,
        runs: ShortRuns<'a>,
    ) -> Option<Judge<'a>> {
        let (own, own_base) = bases.own(subject, base);
        let reference = Reference::new(own, own_base)?
            .and_failure_free(bases.failure_free())
            .and_later_epochs(bases.later_epochs())?;
        let others = (0..subject.scenario.jobs.len()).filter(|job| *job != subject.job);
        let other = |job| {
            let (subject, base) = bases.other(Subject { job, ..subject }, base);
            let all_run = |_: &&BaseRun| !bases.is_after_others();
            Reference::new(subject, base)?
                .and_failure_free(bases.failure_free().filter(all_run))
                .and_later_epochs(bases.later_epochs().filter(all_run))
        };
        let mut others: Vec<Reference> = others.filter_map(other).collect();
        others.sort_by(|a, b| b.subject.lost().total_cmp(&a.subject.lost()));
        let trials = Trials::new(reference, budget, runs);
        let after_others = bases.is_after_others();
        Some(Judge { trials, others, one: budget.one, before: budget.before, after_others, runs })
    }

    /// Returns the verdict and, if `with_others`, short verdicts on other jobs that wait. `None` if the run is too short.
    pub(super) fn judge(mut self, with_others: bool) -> Option<Vec<Verdict>> {
        let mut finder = Finder { trials: &mut self.trials };
        let found = finder.search(Vec::new())?;
        let next = found.good().next().cloned().and_then(|first| finder.next(&first));
        let flatters = finder.flatters(&found.now);
        let (budget, alone) = further_budgets(self.one, self.before + self.trials.spent());
        let (demands, alone) = self.demands(alone);
        let reference = &self.trials.reference;
        let statement = Statement {
            subject: reference.subject,
            found: &found,
            flatters,
            next,
            needs: needs(&reference.subject, &demands.lasting, false),
            first_epoch_needs: first_epoch_needs(&reference.subject, &demands),
            // Trials without jobs that have ended say nothing of the others while those still run.
            others: if self.after_others { &[] } else { &self.others },
            events: self.before + self.trials.spent() + alone,
        };
        let mut verdict = statement.verdict();
        verdict.text = words::paragraph(&statement, &verdict);
        verdict.text = said_of(reference, self.after_others, &verdict);
        let mut all = vec![verdict];
        if with_others {
            all.extend(self.on_others(&found.tried, budget, &demands));
        }
        Some(all)
    }

    /// Returns short verdicts on other jobs that wait. The trials of the first verdict count for them too; further ones take at
    /// most `budget` events, all together.
    fn on_others(self, tried: &[Tried], budget: u64, demands: &Demands) -> Vec<Verdict> {
        let waits = |of: &Reference| of.subject.waiting() >= WAITING;
        let waiting: Vec<Reference> = self.others.into_iter().filter(waits).collect();
        let rest: Vec<String> =
            waiting.iter().skip(MOST_OTHERS).map(|of| of.subject.shown().name.clone()).collect();
        let each = budget / waiting.len().clamp(1, MOST_OTHERS) as u64;
        let mut all: Vec<Verdict> = Vec::new();
        for reference in waiting.into_iter().take(MOST_OTHERS) {
            let subject = reference.subject;
            let seen = tried.iter().filter(|_| !self.after_others);
            let known = seen.filter_map(|tried| tried.seen_from(&reference)).collect();
            let mut trials = Trials::new(reference, Budget::fixed(each), self.runs);
            let mut finder = Finder { trials: &mut trials };
            let Some(found) = finder.search(known) else { continue };
            let flatters = finder.flatters(&found.now);
            let needs =
                [needs(&subject, &demands.lasting, false), first_epoch_needs(&subject, demands)];
            let mut verdict = short(subject, (&found, flatters), needs, trials.spent());
            verdict.text = said_of(&trials.reference, false, &verdict);
            all.push(verdict);
        }
        if let Some(last) = all.last_mut().filter(|_| !rest.is_empty()) {
            last.text += &words::untold(&rest);
        }
        all
    }

    /// Returns how much of each resource each job would use if it never waited, and the events that it took to find out. If there
    /// are several jobs and one of them waits, or if caches make epochs differ, each job is simulated alone; all these runs take at
    /// most `budget` events.
    fn demands(&self, budget: u64) -> (Demands, u64) {
        let first = &self.trials.reference;
        match (self.others.is_empty(), first.outlasts_first_epoch()) {
            (true, false) => return (demand::of_only_job(&first.subject, first.base()), 0),
            (true, true) => {
                let left =
                    self.one.max(LEAST_BUDGET).saturating_sub(self.before + self.trials.spent());
                return demand::of_epochs(first, budget.min(left), self.runs);
            }
            (false, _) => {}
        }
        let all: Vec<&Reference> = std::iter::once(first).chain(&self.others).collect();
        if all.iter().all(|of| of.subject.waiting() < WAITING) {
            return (Demands::default(), 0);
        }
        demand::of_jobs(&all, budget, self.runs)
    }
}

/// Returns the text of a verdict with a word on the part of the run that it is about, if the run's own figures may include other
/// parts: short runs are compared after caches are warm, and while no other job has ended.
fn said_of(reference: &Reference, after_others: bool, verdict: &Verdict) -> String {
    let when = match (reference.outlasts_first_epoch(), reference.together().is_some()) {
        _ if verdict.limits.is_empty() => "",
        (true, _) => "Once the first epoch is over: ",
        _ if after_others => "Once other jobs have ended: ",
        (false, true) => "While all jobs run: ",
        (false, false) => "",
    };
    let first = reference.subject.first_epoch().filter(|_| reference.outlasts_first_epoch());
    let first = first.map_or(String::new(), |first| format!("\n{first}"));
    format!("{when}{}{first}", verdict.text)
}

/// Returns a verdict with a text of one line.
fn short(
    subject: Subject,
    (found, flatters): (&Found, bool),
    [needs, first_epoch_needs]: [Vec<Need>; 2],
    events: u64,
) -> Verdict {
    let (next, others) = (None, &[]);
    let statement =
        Statement { subject, found, flatters, next, needs, first_epoch_needs, others, events };
    let mut verdict = statement.verdict();
    verdict.text = words::line(&statement, &verdict);
    verdict
}
