//! Short runs with a limit relaxed, compared with the run itself (the base run).

use crate::report::Outcome;
use crate::scenario::Scenario;
use rayon::prelude::*;
use std::sync::Arc;

use super::lever::Lever;
use super::reference::{Effect, Reference};
use super::relax;
use super::short_runs::ShortRuns;

/// Minimum budget of a verdict [events], even if the run itself took fewer events. It takes some hundredths of a second.
pub const LEAST_BUDGET: u64 = 60_000;
/// Minimum budget of all verdicts on a run together [events], for runs of which one replication takes fewer events. It takes some
/// hundredths of a second.
pub const LEAST_TOTAL: u64 = 350_000;
/// Minimum and maximum budget [events] for longer short runs, which are the last resort if no lever has helped so far. The minimum takes
/// some hundredths of a second, the maximum less than a second. If a lever has helped, but an untried one may save more, the budget is the
/// minimum.
const LEAST_LAST_BUDGET: u64 = 200_000;
const LAST_BUDGET: u64 = 1_000_000;
/// Budget of the last resort, as a share of the events of one replication; at least [`LEAST_LAST_BUDGET`] and at most
/// [`LAST_BUDGET`] events.
const LAST: f64 = 0.25;
/// Budget of a verdict until it is likely to have found the bottleneck, as a share of the run's own events.
const SEARCHING: f64 = 0.12;
/// Budget of the first short run, as a share of the run's own events, for when the short run's part of the search budget
/// ([`SEARCHING`]) is too small.
const FIRST: f64 = 0.2;
/// Budget of a verdict once it is likely to have found the bottleneck, as a share of the run's own events.
const FOUND: f64 = 0.08;
/// Budget for finding the next limit behind the first one, as a share of the run's own events.
const BEYOND: f64 = 0.1;
/// Budget for the verdicts on other jobs together, as a share of the events of one replication.
const OTHERS: f64 = 0.1;
/// Budget for runs of each job alone, all together, as a share of the events of one replication.
const ALONE: f64 = 0.08;
/// Minimum budget of the verdicts on other jobs, and of the runs of each job alone [events].
const LEAST_OTHERS: u64 = 100_000;
/// Maximum number of candidates among which the remaining budget is divided, so that the most promising ones get enough.
const SHARERS: usize = 3;

/// A planned short run.
pub(super) struct Plan {
    /// The relaxed limits.
    levers: Vec<Lever>,
    /// The scenario with the limits relaxed.
    pub(super) then: Arc<Scenario>,
    /// Number of the step up to which steps are compared.
    until: usize,
    /// Number of events that the base run takes until there.
    expected: u64,
    /// Maximum number of events after which the run ends.
    most_events: u64,
}

/// The base run, and the budget for the short runs that are compared with it.
pub(super) struct Trials<'a> {
    pub(super) reference: Reference<'a>,
    budget: Budget,
    spent: u64,
    phase: Phase,
    runs: ShortRuns<'a>,
}

/// Phase of the search for the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Searching,
    /// The bottleneck has probably been found.
    Found,
    /// The bottleneck is known, and the limit behind it is searched.
    Beyond,
    /// A lever has helped, and an untried one may save more.
    StillSearching,
    /// No lever has helped.
    LastResort,
    /// No short run so far was long enough to show an effect.
    NothingShown,
}

/// Returns the budgets [events] for verdicts on other jobs, and for runs of jobs alone, after the first verdict has taken `spent`:
/// all together they take at most as many events as one replication (`one`), or [`LEAST_TOTAL`] if that took fewer.
pub(super) fn further_budgets(one: u64, spent: u64) -> (u64, u64) {
    let left = one.max(LEAST_TOTAL).saturating_sub(spent) / 2;
    let share = |of: f64| ((one as f64 * of) as u64).max(LEAST_OTHERS).min(left);
    (share(OTHERS), share(ALONE))
}

/// Budgets of a verdict's short runs [events].
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// Number of events of one replication of the run that the verdict is on.
    pub(super) one: u64,
    /// Number of events that the verdict has taken before the first of these short runs.
    pub(super) before: u64,
    /// Budget of the first short run [events], for when the short run's part of `searching` is too small.
    first: u64,
    /// Budget of all short runs until one has shown the bottleneck [events].
    searching: u64,
    /// Budget of all short runs once the bottleneck has been shown [events].
    found: u64,
    /// Budget of the short runs that look for the limit behind the bottleneck [events].
    beyond: u64,
    /// Budget of all short runs while an untried lever may save more than those that have helped [events].
    still: u64,
    /// Budget of all short runs if none has helped [events].
    last: u64,
    /// Budget of the first short run of the last resort [events] if `searching` was too small for even one short run. All of them
    /// together get half of it.
    whole: u64,
    /// Budget of all short runs together if one of them has helped [events].
    most: u64,
}

impl Budget {
    /// Returns the budgets of a verdict on a run with the given replications, if the verdict has taken `before` events already.
    pub(super) fn new(replications: &[Outcome], before: u64) -> Budget {
        let whole_run = replications.first().map_or(0, |outcome| outcome.events);
        let one = whole_run.saturating_sub(before);
        let all: u64 = replications.iter().map(|outcome| outcome.events).sum();
        // More than one replication is never needed for the comparison.
        let room = whole_run.max(LEAST_TOTAL).saturating_sub(before);
        let share = |of: f64| ((all as f64 * of) as u64).min(one).max(LEAST_BUDGET).min(room);
        let [first, searching, found, beyond] = [FIRST, SEARCHING, FOUND, BEYOND].map(share);
        let last = ((one as f64 * LAST) as u64).clamp(LEAST_LAST_BUDGET, LAST_BUDGET).min(room);
        let still = searching.max(LEAST_LAST_BUDGET).min(room);
        let [whole, most] = [LEAST_LAST_BUDGET, LEAST_BUDGET].map(|least| one.max(least).min(room));
        let one = whole_run;
        Budget { one, before, first, searching, found, beyond, still, last, whole, most }
    }

    /// Returns a budget of `events` events, whatever is found.
    pub(super) fn fixed(events: u64) -> Budget {
        let [one, first, searching, found, still, last, whole, most] = [events; 8];
        Budget { one, before: 0, first, searching, found, beyond: 0, still, last, whole, most }
    }
}

impl<'a> Trials<'a> {
    pub(super) fn new(reference: Reference<'a>, budget: Budget, runs: ShortRuns<'a>) -> Trials<'a> {
        Trials { reference, budget, spent: 0, phase: Phase::Searching, runs }
    }

    /// Reduces the budget, because the bottleneck has probably been found: from now on, short runs only look for further levers
    /// that help.
    pub(super) fn binding_found(&mut self) {
        self.phase = Phase::Found;
    }

    /// Raises the budget for the search for the limit behind the bottleneck.
    pub(super) fn look_beyond(&mut self) {
        self.budget.beyond = (self.spent + self.budget.beyond).min(self.budget.most);
        self.phase = Phase::Beyond;
    }

    /// Raises the budget: a little if levers have `helped`, because an untried one may save more, and much if none has. If no short run
    /// was long enough to show an effect (`nothing_shown`), the next one may take as many events as the run itself.
    pub(super) fn search_on(&mut self, helped: bool, nothing_shown: bool) {
        self.phase = match (helped, nothing_shown) {
            (true, _) => Phase::StillSearching,
            (false, true) => Phase::NothingShown,
            (false, false) => Phase::LastResort,
        };
    }

    /// Returns the number of events that are left for short runs. The first short run may exceed the budget, so that there is at
    /// least one.
    pub(super) fn left(&self) -> u64 {
        self.left_after(0)
    }

    /// Returns the number of events that are left for short runs after planned ones that take `planned` events.
    fn left_after(&self, planned: u64) -> u64 {
        let taken = self.spent + planned;
        match self.phase {
            Phase::Searching if taken == 0 => self.budget.first,
            Phase::NothingShown if taken == 0 => self.budget.whole,
            Phase::Searching
            | Phase::Found
            | Phase::Beyond
            | Phase::StillSearching
            | Phase::LastResort
            | Phase::NothingShown => self.share().saturating_sub(taken),
        }
    }

    /// Returns the budget of all short runs together in this phase [events].
    fn share(&self) -> u64 {
        match self.phase {
            Phase::Searching => self.budget.searching,
            Phase::Found => self.budget.found,
            Phase::Beyond => self.budget.beyond,
            Phase::StillSearching => self.budget.still,
            Phase::LastResort => self.budget.last,
            Phase::NothingShown => self.budget.last.max(self.budget.whole / 2),
        }
    }

    /// Returns the number of events that short runs have taken.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Returns the number of events that each of `runs` short runs may take, out of the events that are left.
    pub(super) fn fair(&self, runs: usize) -> u64 {
        self.share().saturating_sub(self.spent) / runs.clamp(1, SHARERS) as u64
    }

    /// Returns the scenario with all of these levers relaxed; `None` if one of them makes no difference.
    fn lifted(&self, levers: &[Lever]) -> Option<Arc<Scenario>> {
        let mut then = self.reference.for_levers(levers).subject.scenario.clone();
        for lever in levers {
            then = relax::relaxed(&then, *lever)?;
        }
        Some(Arc::new(then))
    }

    /// Plans a short run with levers relaxed and at most `most_events` events; `None` if these are too few. `rare`: the relaxed
    /// limit takes effect only at times, so the run should have full length, and at least this number of steps.
    fn plan(&self, levers: &[Lever], rare: Option<usize>, most_events: u64) -> Option<Plan> {
        let (reference, then) = (self.reference.for_levers(levers), self.lifted(levers)?);
        let until = reference.affordable(most_events, reference.cycle_of(&then), rare)?;
        let expected = reference.events(until) as u64;
        Some(Plan { levers: levers.to_vec(), then, until, expected, most_events })
    }

    /// Plans the shortest run with levers relaxed that can be compared; `None` if it would take more events than are left after
    /// planned runs that take `planned` events.
    fn shortest_plan(&self, levers: &[Lever], rare: Option<usize>, planned: u64) -> Option<Plan> {
        let (reference, then) = (self.reference.for_levers(levers), self.lifted(levers)?);
        let until = reference.fewest(reference.cycle_of(&then)).max(rare.unwrap_or(0));
        let (expected, most_events) = (reference.events(until) as u64, self.left_after(planned));
        let affordable = expected <= most_events;
        affordable.then_some(Plan { levers: levers.to_vec(), then, until, expected, most_events })
    }

    /// Plans a short run for each of `trials`. A trial is the levers to relax and, as in [`Trials::plan`], `rare`. Each short run may take
    /// `most_events` events. If it needs more, it gets as many as the shortest run needs, unless the budget has too few of them after those
    /// that the other short runs are expected to take.
    pub(super) fn plans(
        &self,
        trials: &[(&[Lever], Option<usize>)],
        most_events: u64,
    ) -> Vec<Option<Plan>> {
        let fair = trials.iter().map(|(levers, rare)| self.plan(levers, *rare, most_events));
        let mut plans: Vec<Option<Plan>> = fair.collect();
        for (at, (levers, rare)) in trials.iter().enumerate() {
            if plans[at].is_none() {
                let planned = plans.iter().flatten().map(|plan| plan.expected).sum();
                plans[at] = self.shortest_plan(levers, *rare, planned);
            }
        }
        plans
    }

    /// Simulates the planned short runs in parallel and adds their events to those spent. `None` for a run that has too few
    /// steps to compare.
    pub(super) fn run(&mut self, plans: &[Option<Plan>]) -> Vec<Option<(Effect, Outcome)>> {
        let one = |plan: &Option<Plan>| plan.as_ref().map(|plan| self.simulate(plan));
        let outcomes: Vec<Option<Outcome>> = plans.par_iter().map(one).collect();
        self.spent += outcomes.iter().flatten().map(|outcome| outcome.events).sum::<u64>();
        if self.runs.are_stopped() {
            return plans.iter().map(|_| None).collect();
        }
        let shown = |(plan, outcome): (&Option<Plan>, Option<Outcome>)| {
            let (plan, outcome) = plan.as_ref().zip(outcome)?;
            Some((self.reference.effect_of(&plan.levers, &plan.then, &outcome)?, outcome))
        };
        plans.iter().zip(outcomes).map(shown).collect()
    }

    fn simulate(&self, plan: &Plan) -> Outcome {
        let reference = self.reference.for_levers(&plan.levers);
        let scenario = reference.shortened(&plan.then, plan.until);
        self.runs.simulate(&scenario, plan.most_events, reference.epochs_before())
    }
}
