//! Searches for the bottleneck of a job: relaxes the candidates one after the other.

use crate::report::{Cause, Outcome, RecoveryOutcome, summarise};
use crate::scenario::Scenario;
use std::sync::Arc;

use super::candidates::{Candidate, FULL, NOTED, Subject};
use super::course::LongRate;
use super::failure_free::FEWEST_FAILURES;
use super::lever::{Kind, Lever};
use super::reference::{Effect, FEWEST_CHECKPOINTS, Reference, recovery_of};
use super::trial::{Plan, Trials};
use super::{AT_ONCE, PROMISING, SHORT_OF, TELLING, WAITING, WORTH};

/// Levers that one short run relaxes at the same time.
#[derive(Debug, Clone)]
struct Trial {
    levers: Vec<Lever>,
    /// Whether they take effect only at times, so that the short run should have full length.
    rare: bool,
    /// Whether the trial was made before and left the effect uncertain, so that it is made again, for as long as the budget allows.
    again: bool,
}

impl Trial {
    fn of(candidate: &Candidate) -> Trial {
        Trial { levers: vec![candidate.lever], rare: candidate.rare, again: false }
    }

    /// Returns the levers `first` together with a candidate.
    fn beyond(first: &[Lever], candidate: &Candidate) -> Trial {
        Trial { levers: [first, &[candidate.lever]].concat(), rare: candidate.rare, again: false }
    }

    /// Returns the minimum number of steps of a short run that shows the effect, if the short run should be as long as the budget
    /// allows.
    fn least_steps(&self, reference: &Reference) -> Option<usize> {
        let reference = reference.for_levers(&self.levers);
        let all = reference.recovery();
        if all.failures > 0 {
            return Some(reference.steps_with(self.failures(), all.failures));
        }
        let checkpoints = reference.subject.share(Cause::Checkpoint) >= NOTED;
        match (self.rare, checkpoints) {
            (true, _) if self.levers.iter().any(|of| of.is_rare(reference.subject.scenario)) => {
                Some(0)
            }
            (true, _) | (false, true) => {
                Some(reference.steps_with(FEWEST_CHECKPOINTS, all.checkpoints))
            }
            (false, false) => self.again.then_some(0),
        }
    }

    /// Returns the number of failures of the base run in the time that a short run needs for [`FEWEST_FAILURES`].
    fn failures(&self) -> u64 {
        let fewer = self.levers.iter().any(|lever| lever.kind == Kind::Failures);
        if fewer { 2 * FEWEST_FAILURES } else { FEWEST_FAILURES }
    }

    /// Returns whether a short run shows the effect of the levers: failures, or limits that take effect only at times, have occurred
    /// often enough in it. `fails`: whether the job fails in the base run, so that the short run must show failures too.
    fn is_shown(&self, effect: &Effect, fails: bool, of: &RecoveryOutcome) -> bool {
        let against = self.levers.iter().any(|lever| lever.is_of_failures());
        match (fails || against, self.rare) {
            (true, _) => of.failures >= FEWEST_FAILURES,
            (false, true) => of.checkpoints >= FEWEST_CHECKPOINTS || !effect.is_none(),
            (false, false) => true,
        }
    }
}

/// A trial of one or more levers, and its effect on a job.
#[derive(Clone)]
pub(super) struct Tried {
    pub(super) levers: Vec<Lever>,
    pub(super) effect: Effect,
    pub(super) then: Arc<Scenario>,
    pub(super) outcome: Arc<Outcome>,
}

impl Tried {
    /// Returns whether a single lever that removes faults was tried. What a fault costs is its own, however much a larger part
    /// would save, so it comes first.
    fn is_of_fault(&self) -> bool {
        matches!(self.levers[..], [Lever { kind: Kind::Faults, .. }])
    }

    /// Returns the key for sorting levers that help: the gain times the smallest weight of the trial's levers.
    fn rank(&self) -> f64 {
        let weight = self.levers.iter().map(|lever| lever.weight()).fold(1.0, f64::min);
        self.effect.gain * weight
    }

    /// Returns whether the trial helps: its gain and the whole interval of it are above the reporting threshold.
    pub(super) fn helps(&self) -> bool {
        self.effect.gain.min(self.effect.gain_interval[0]) > WORTH
    }

    /// Returns whether the trial may help, but the interval of its gain is too wide to decide.
    pub(super) fn is_uncertain(&self) -> bool {
        !self.helps() && self.effect.gain_interval[1] > TELLING
    }

    /// Returns whether the interval of this trial's gain is narrower than that of `other`.
    fn is_clearer(&self, other: &Tried) -> bool {
        let width = |of: &Tried| of.effect.gain_interval[1] - of.effect.gain_interval[0];
        width(self) < width(other)
    }

    /// Returns the same trial with its effect on the job of another base run; `None` if the short run has too few steps of it.
    pub(super) fn seen_from(&self, reference: &Reference) -> Option<Tried> {
        let effect = reference.effect_of(&self.levers, &self.then, &self.outcome)?;
        Some(Tried { effect, ..self.clone() })
    }
}

/// Result of a search.
pub(super) struct Found {
    pub(super) now: LongRate,
    /// The trials, the most helpful first.
    pub(super) tried: Vec<Tried>,
    /// Candidates about which the short runs say nothing.
    pub(super) skipped: Vec<Candidate>,
    /// Whether step times of the run vary too much for long trials to show anything.
    pub(super) too_variable: bool,
}

impl Found {
    /// Returns the trials that help, the most helpful first.
    pub(super) fn good(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| tried.helps())
    }
}

pub(super) struct Finder<'t, 'a> {
    pub(super) trials: &'t mut Trials<'a>,
}

impl<'a> Finder<'_, 'a> {
    fn subject(&self) -> Subject<'a> {
        self.trials.reference.subject
    }

    /// Searches for the bottleneck; `known` are the effects of earlier trials on this job, which count
    /// if their levers are candidates. `None` if the run is too short.
    pub(super) fn search(&mut self, known: Vec<Tried>) -> Option<Found> {
        let now = self.trials.reference.long_rate()?;
        let hidden = now.draining || self.flatters(&now);
        let candidates = self.subject().candidates(hidden, self.trials.reference.in_later_epochs());
        let is_candidate = |tried: &Tried| candidates.iter().any(|of| tried.levers == [of.lever]);
        let mut tried: Vec<Tried> = known.into_iter().filter(is_candidate).collect();
        let is_known =
            |candidate: &&Candidate| tried.iter().any(|of| of.levers == [candidate.lever]);
        let rest: Vec<Candidate> =
            candidates.iter().filter(|candidate| !is_known(candidate)).copied().collect();
        let mut skipped: Vec<Candidate> = Vec::new();
        let mut rest = &rest[..];
        if saves_more(&tried, rest) {
            self.trials.binding_found();
        }
        while !rest.is_empty() {
            let fair = self.trials.fair(rest.len());
            let (some, others) = rest.split_at(rest.len().min(AT_ONCE));
            let alone: Vec<Trial> = some.iter().map(Trial::of).collect();
            for (candidate, found) in some.iter().zip(self.lift(&alone, fair)) {
                match found {
                    Some(found) => tried.push(found),
                    None => skipped.push(*candidate),
                }
            }
            if saves_more(&tried, others) {
                self.trials.binding_found();
            }
            rest = others;
        }
        let waits = 1.0 - now.computing >= WAITING;
        let too_variable = waits && now.hides_all_waits();
        let unclear = tried.is_empty() || tried.iter().any(Tried::is_uncertain);
        let helped = tried.iter().any(Tried::helps);
        let may_be_better = helped && waits && !saves_more(&tried, &candidates);
        if (!helped && (waits || unclear) || may_be_better) && !too_variable {
            skipped = self.last_resort(&candidates, &mut tried);
        }
        if !tried.iter().any(Tried::helps) && waits && candidates.len() > 1 {
            let pair = Trial::beyond(&[candidates[0].lever], &candidates[1]);
            tried.extend(self.lift(&[pair], self.trials.left()).into_iter().flatten());
        }
        let fault_helps = |of: &Tried| of.is_of_fault() && of.helps();
        tried.sort_by(|a, b| {
            let first = fault_helps(b).cmp(&fault_helps(a));
            first.then(b.rank().total_cmp(&a.rank()))
        });
        let skipped = unsettled(&candidates, &tried, skipped);
        Some(Found { now, tried, skipped, too_variable })
    }

    /// Relaxes the candidates that were not `tried`, or whose effect is uncertain, one after the other, until one saves more than the
    /// rest promises. If none has helped, such a run may take nearly as long as the run itself, because caches must be warm or steps
    /// are few. Returns the candidates that could not be relaxed.
    fn last_resort(&mut self, candidates: &[Candidate], tried: &mut Vec<Tried>) -> Vec<Candidate> {
        self.trials.search_on(tried.iter().any(Tried::helps), tried.is_empty());
        let is_clear = |of: &&Candidate| {
            let known = tried.iter().find(|tried| tried.levers == [of.lever]);
            known.is_some_and(|known| !known.is_uncertain())
        };
        let open: Vec<Candidate> = candidates.iter().filter(|of| !is_clear(of)).copied().collect();
        let mut skipped = Vec::new();
        for (at, candidate) in open.iter().enumerate() {
            let earlier = tried.iter().position(|tried| tried.levers == [candidate.lever]);
            let alone = [Trial { again: earlier.is_some(), ..Trial::of(candidate) }];
            // A trial that left its effect uncertain must be longer than it was.
            let most_events = match earlier {
                Some(_) => self.trials.left(),
                None => self.trials.fair(open.len() - at),
            };
            let found = match saves_more(tried, &open[at..]) {
                true => None,
                false => self.lift(&alone, most_events).pop().flatten(),
            };
            match (found, earlier) {
                (Some(found), Some(at)) if found.is_clearer(&tried[at]) => tried[at] = found,
                (Some(_), Some(_)) => {}
                (Some(found), None) => tried.push(found),
                (None, Some(_)) => {}
                (None, None) => skipped.push(*candidate),
            }
        }
        skipped
    }

    /// Makes each trial in a short run of at most `most_events` events. A trial that needs more events gets as many as the
    /// shortest run needs, if the budget has them.
    fn lift(&mut self, each: &[Trial], most_events: u64) -> Vec<Option<Tried>> {
        let reference = &self.trials.reference;
        let asked: Vec<_> =
            each.iter().map(|of| (&of.levers[..], of.least_steps(reference))).collect();
        let plans = self.trials.plans(&asked, most_events);
        let found = self.trials.run(&plans);
        let job = self.subject().job;
        let tried = |((trial, plan), found): ((&Trial, Option<Plan>), _)| {
            let (plan, (effect, outcome)): (Plan, (Effect, Outcome)) = plan.zip(found)?;
            let fails = self.trials.reference.for_levers(&trial.levers).recovery().failures > 0;
            let absent = !trial.is_shown(&effect, fails, &recovery_of(&outcome, job));
            let levers = trial.levers.clone();
            (!absent).then(|| Tried { levers, effect, then: plan.then, outcome: Arc::new(outcome) })
        };
        each.iter().zip(plans).zip(found).map(tried).collect()
    }

    /// Returns the limit behind a trial that helps, in words: what helps most once its levers are relaxed, found by short runs
    /// of that scenario. If these are too expensive, or none of them helps, returns the most promising candidate that was not
    /// tried and whose resource, if it has one, is used.
    pub(super) fn next(&mut self, first: &Tried) -> Option<String> {
        let outcomes = std::slice::from_ref(&*first.outcome);
        let report = summarise(&first.then, outcomes, 0.0);
        let job = self.subject().job;
        let relieved = Subject { scenario: &first.then, report: &report, job, run: &report };
        // What was doubled may still be the limit.
        let later = self.trials.reference.in_later_epochs().is_some();
        let likely = relieved.candidates(false, later.then_some(&report));
        self.trials.look_beyond();
        let mut found: Vec<(Candidate, Tried)> = Vec::new();
        let mut untried = Vec::new();
        let gained = |tried: &Tried| (first.effect.after - tried.effect.after) / first.effect.after;
        // Weights are squared to prefer resources to work: halving the work saves at least as much as doubling the resource that
        // does the work, so the work is named only if it saves much more.
        let rank = |(of, tried): &(Candidate, Tried)| gained(tried) * of.lever.weight().powi(2);
        for some in likely.chunks(AT_ONCE) {
            let most = found.iter().map(rank).fold(WORTH, f64::max);
            if some.iter().all(|of| of.promise < most) {
                break;
            }
            let both: Vec<Trial> = some.iter().map(|of| Trial::beyond(&first.levers, of)).collect();
            let fair = self.trials.fair(likely.len());
            for (of, tried) in some.iter().zip(self.lift(&both, fair)) {
                match tried {
                    Some(tried) => found.push((*of, tried)),
                    None => untried.push(*of),
                }
            }
        }
        let doubled = |of: &&Candidate| first.levers.contains(&of.lever) && of.used < FULL;
        let likely = |of: &&Candidate| of.promise >= PROMISING && !doubled(of);
        let untried = untried.iter().find(|of| likely(of) && !relieved.is_idle(of.lever));
        // What a full resource that was not tried saves may be more than a little.
        let full = untried.is_some_and(|of| of.used >= FULL);
        let least = if full { TELLING } else { WORTH };
        let worth = found.iter().filter(|(_, tried)| gained(tried) > least);
        let best = worth.max_by(|a, b| rank(a).total_cmp(&rank(b))).map(|(of, _)| of);
        let next = best.or(untried)?;
        let still = if first.levers.contains(&next.lever) { "still " } else { "" };
        Some(format!("{still}{}", next.lever.words(&first.then)))
    }

    /// Returns whether the steps in the run's own figures are faster than steps can be in the long run.
    pub(super) fn flatters(&self, now: &LongRate) -> bool {
        let subject = self.subject();
        let shown = subject.run.jobs[subject.job].figures.step_time.mean;
        shown.is_some_and(|shown| shown < (1.0 - SHORT_OF) * now.step)
    }
}

/// Returns whether the best trial so far saves more than each of the candidates is likely to: its estimated saving (promise) or, if a
/// trial has left its effect uncertain, what that trial saved.
fn saves_more(tried: &[Tried], candidates: &[Candidate]) -> bool {
    let most = tried.iter().filter(|tried| tried.helps()).map(Tried::rank).fold(0.0, f64::max);
    let likely = |of: &Candidate| match tried.iter().find(|tried| tried.levers == [of.lever]) {
        Some(known) if known.is_uncertain() => known.rank(),
        Some(_) => 0.0,
        None => of.promise,
    };
    most > candidates.iter().map(likely).fold(0.0, f64::max)
}

/// Returns the candidates about which the short runs say nothing: the skipped ones and, if nothing helps, full resources whose
/// effect is uncertain.
fn unsettled(
    candidates: &[Candidate],
    tried: &[Tried],
    mut skipped: Vec<Candidate>,
) -> Vec<Candidate> {
    if !tried.iter().any(Tried::helps) {
        let uncertain = |of: &&Candidate| {
            let lifted = |tried: &&Tried| tried.levers == [of.lever];
            of.used >= FULL && tried.iter().find(lifted).is_some_and(Tried::is_uncertain)
        };
        skipped.extend(candidates.iter().filter(uncertain));
    }
    skipped
}
