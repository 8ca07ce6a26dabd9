//! Finds the bottleneck of a job by relaxing (lifting) one limit after the other.
//!
//! The causes of stalls say what an accelerator waited for last, which need not be the bottleneck. So each candidate limit is
//! relaxed by itself, to twice the amount or half the time, and the changed scenario is simulated in a short run with the same
//! random numbers. If steps become shorter, the limit is a bottleneck. Otherwise the verdict does not advise to relax the limit.
//!
//! - `candidates`: limits that may be the bottleneck, from the report; `lever`: limits that can be relaxed, in words; `amount`:
//!   their amounts; `relax`: the scenario with a limit relaxed,
//! - `course`: the long-run step time that a range of steps shows; `trial`: short runs within a budget of events,
//! - `need`: how much of each resource the job needs to never wait for input; `words`: the paragraph.

mod amount;
mod candidates;
mod course;
mod lever;
mod need;
mod relax;
#[cfg(test)]
mod tests;
mod trial;
mod words;

use crate::report::{Limit, LongRun, Outcome, Report, Verdict, World, summarise};
use crate::scenario::Scenario;
use std::sync::atomic::{AtomicBool, Ordering};

use candidates::{Candidate, FULL, Subject, USED};
use course::{Course, LongRate, ROUNDS};
use lever::{Kind, Lever};
use trial::{Budget, Effect, Plan, Trials};

pub use trial::LEAST_BUDGET;

/// Minimum share of the step time that a lever must save to be reported.
const WORTH: f64 = 0.01;
/// A lever is reported as without effect if the upper end of the interval of its saving is at most this share of the step time.
const TELLING: f64 = 0.05;
/// Minimum share of time spent waiting at which longer runs and pairs of levers are tried if no lever has helped.
const WAITING: f64 = 0.05;

/// Minimum estimated saving of an untried lever, as a share of the job's time, at which the verdict names the lever as not
/// tried.
const PROMISING: f64 = 0.1;
/// Maximum number of levers that the verdict names as not tried.
const MOST_NOT_TRIED: usize = 3;

/// Number of short runs that are simulated in parallel.
const AT_ONCE: usize = 2;

/// Maximum relative difference by which the run's own steps may be faster than steps in the long run.
const SHORT_OF: f64 = 0.05;

/// Options for finding the verdict.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Whether to relax no limit, and instead estimate the bottleneck from the causes of stalls.
    pub quick: bool,
    /// Ends the short runs early when it becomes true; the verdict then is an estimate.
    pub stop: Option<&'a AtomicBool>,
}

/// Returns the verdict on the job that loses most time, from the outcomes of a scenario and their report; `None` if no step was
/// completed.
#[must_use]
pub fn find(
    scenario: &Scenario,
    outcomes: &[Outcome],
    report: &Report,
    options: &Options,
) -> Option<Verdict> {
    let named = &report.bottleneck.as_ref()?.job;
    let job = scenario.jobs.iter().position(|job| job.name == *named)?;
    let subject = Subject { scenario, report, job };
    let base = outcomes.first()?;
    let stopped = || options.stop.is_some_and(|flag| flag.load(Ordering::Relaxed));
    if options.quick || base.world == World::Live {
        return Some(words::estimate(&subject, None));
    }
    let course = Course::new(&scenario.jobs[job], job, base)?;
    let why = format!(
        "the workers of `{named}` have not made {ROUNDS} items each, which is too short to lift anything"
    );
    let mut trials =
        Trials::new(subject, base, course, Budget::from_outcomes(outcomes), options.stop);
    match (Finder { subject, trials: &mut trials }).find() {
        Some(found) if !stopped() => Some(found),
        Some(_) => Some(words::estimate(&subject, Some("short runs were interrupted"))),
        None => Some(words::estimate(&subject, Some(&why))),
    }
}

/// A limit that can be relaxed, and the scenario in which it is relaxed.
#[derive(Debug, Clone)]
pub struct Lifted {
    /// Name of the lever, as in [`Limit::lever`].
    pub lever: &'static str,
    /// Name of the resource, as in [`Limit::resource`].
    pub resource: String,
    /// The scenario with the limit relaxed.
    pub scenario: Scenario,
}

/// Returns all limits whose relaxation changes the scenario.
#[must_use]
pub fn all_lifted(scenario: &Scenario) -> Vec<Lifted> {
    let owners = scenario.storage.len().max(scenario.jobs.len());
    let all = Kind::ALL.iter().flat_map(|&kind| (0..owners).map(move |at| Lever { kind, at }));
    let mut found: Vec<Lifted> = Vec::new();
    for lever in all {
        let (name, resource) = (lever.kind.row().name, lever.resource(scenario));
        // A lever of the whole machine occurs once for each storage or job: the first one is kept.
        let known = found.iter().any(|of| of.lever == name && of.resource == resource);
        if let (false, Some(scenario)) = (known, relax::relaxed(scenario, lever)) {
            found.push(Lifted { lever: name, resource, scenario });
        }
    }
    found
}

/// Returns the scenario with `limit` relaxed, a limit that the verdict names; `None` if the scenario has no such limit.
#[must_use]
pub fn lifted(scenario: &Scenario, limit: &Limit) -> Option<Scenario> {
    let mut then = scenario.clone();
    for (name, resource) in limit.lever.split('+').zip(limit.resource.split('+')) {
        let mut all = all_lifted(&then).into_iter();
        then = all.find(|of| of.lever == name && of.resource == resource)?.scenario;
    }
    Some(then)
}

/// Stores the verdict in the report, and makes the report's `bottleneck` agree with it.
pub fn put(report: &mut Report, verdict: Verdict) {
    if let Some(bottleneck) = &mut report.bottleneck {
        bottleneck.text.clone_from(&verdict.text);
        if let Some(first) = verdict.limits.first() {
            bottleneck.resource.clone_from(&first.resource);
            if first.lever == Kind::Step.row().name {
                "compute".clone_into(&mut bottleneck.cause);
            }
        }
    }
    correct_length(report, &verdict);
    report.verdict = Some(verdict);
}

/// Corrects the report's statements on the length of the run and the long-run rate. The rate in the verdict is more reliable,
/// because it is taken over whole cycles of workers.
fn correct_length(report: &mut Report, verdict: &Verdict) {
    let Some(long) = verdict.long_run else { return };
    let Some(job) = report.jobs.iter_mut().find(|job| job.name == verdict.job) else { return };
    let figures = (job.figures.samples_per_second.mean, job.figures.step_time.mean);
    let (Some(rate), Some(step)) = figures else { return };
    let length = &mut job.length;
    let lasting = rate * step / long.step_time;
    let drains = length.drained;
    if drains && (lasting / rate - 1.0).abs() < WORTH {
        // The buffers only seemed to drain: workers that make whole batches fill and drain them in cycles.
        (length.enough, length.why, length.drained) = (true, None, false);
        length.long_run_samples_per_second = None;
        return;
    }
    if long.reached && !drains {
        return;
    }
    length.enough = false;
    length.long_run_samples_per_second = Some(lasting);
    length.why.get_or_insert_with(|| "steps used up what its buffers held".to_owned());
}

/// A trial of one or two levers, and its effect.
struct Tried {
    levers: Vec<Lever>,
    effect: Effect,
    then: Scenario,
    outcome: Outcome,
}

impl Tried {
    /// Returns the key for sorting levers that help: the gain times the smallest weight of the trial's levers.
    fn rank(&self) -> f64 {
        let weight = self.levers.iter().map(|lever| lever.weight()).fold(1.0, f64::min);
        self.effect.gain * weight
    }
}

struct Finder<'t, 'a> {
    subject: Subject<'a>,
    trials: &'t mut Trials<'a>,
}

impl Finder<'_, '_> {
    fn find(&mut self) -> Option<Verdict> {
        let now = self.trials.long_rate()?;
        let candidates = self.subject.candidates(now.draining || self.flatters(&now));
        let mut tried = Vec::new();
        let mut skipped: Vec<Candidate> = Vec::new();
        let mut rest = &candidates[..];
        while !rest.is_empty() {
            let fair = self.trials.fair(rest.len());
            let (some, others) = rest.split_at(rest.len().min(AT_ONCE));
            let alone: Vec<Vec<Lever>> = some.iter().map(|of| vec![of.lever]).collect();
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
        if !tried.iter().any(helps) && (waits || tried.is_empty()) {
            skipped = self.last_resort(&candidates, &mut tried);
        }
        if !tried.iter().any(helps) && waits && candidates.len() > 1 {
            let pair = [candidates[0].lever, candidates[1].lever];
            tried.extend(self.lift(&[pair.to_vec()], self.trials.left()).into_iter().flatten());
        }
        tried.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
        Some(self.verdict(&now, &tried, &unsettled(&candidates, &tried, skipped)))
    }

    /// Relaxes the candidates that were not `tried`, or whose effect is uncertain, one after the other until one helps. Such a
    /// run takes nearly as long as the run itself, because caches must be warm or steps are few. Returns the candidates that
    /// could not be relaxed.
    fn last_resort(&mut self, candidates: &[Candidate], tried: &mut Vec<Tried>) -> Vec<Candidate> {
        self.trials.spare_nothing();
        let mut skipped = Vec::new();
        for candidate in candidates {
            let alone = [vec![candidate.lever]];
            let earlier = tried.iter().position(|tried| tried.levers == alone[0]);
            if earlier.is_some_and(|at| !is_uncertain(&tried[at])) {
                continue;
            }
            let found = if tried.iter().any(helps) {
                None
            } else {
                self.lift(&alone, self.trials.left()).pop().flatten()
            };
            match (found, earlier) {
                (Some(found), Some(at)) => tried[at] = found,
                (Some(found), None) => tried.push(found),
                (None, Some(_)) => {}
                (None, None) => skipped.push(*candidate),
            }
        }
        skipped
    }

    /// Relaxes each set of levers by itself in a short run of at most `most_events` events. A set that needs more events gets as
    /// many as the shortest run needs, if the budget has them.
    fn lift(&mut self, each: &[Vec<Lever>], most_events: u64) -> Vec<Option<Tried>> {
        let fair_plan = |levers: &Vec<Lever>| {
            let rare = levers.iter().any(|lever| lever.is_rare());
            self.trials.plan(self.lifted(levers)?, rare, most_events)
        };
        let fair: Vec<_> = each.iter().map(fair_plan).collect();
        let too_long: Vec<bool> = fair.iter().map(Option::is_none).collect();
        let mut found = self.run(each, fair);
        for (at, levers) in each.iter().enumerate().filter(|(at, _)| too_long[*at]) {
            let shortest = self.lifted(levers).and_then(|then| self.trials.shortest_plan(then));
            found[at] = self.run(std::slice::from_ref(levers), vec![shortest]).pop().flatten();
        }
        found
    }

    /// Returns the scenario with all of these levers relaxed; `None` if one of them makes no difference.
    fn lifted(&self, levers: &[Lever]) -> Option<Scenario> {
        let mut then = self.subject.scenario.clone();
        for lever in levers {
            then = relax::relaxed(&then, *lever)?;
        }
        Some(then)
    }

    fn run(&mut self, each: &[Vec<Lever>], plans: Vec<Option<Plan>>) -> Vec<Option<Tried>> {
        let found = self.trials.run(&plans);
        let tried = |((levers, plan), found): ((&Vec<Lever>, Option<Plan>), _)| {
            let (plan, (effect, outcome)): (Plan, (Effect, Outcome)) = plan.zip(found)?;
            // A rare limit without any effect did not occur in the short run, so the run says nothing about it.
            let absent = levers.iter().any(|lever| lever.is_rare()) && effect.is_none();
            (!absent).then_some(Tried { levers: levers.clone(), effect, then: plan.then, outcome })
        };
        each.iter().zip(plans).zip(found).map(tried).collect()
    }

    fn verdict(&self, now: &LongRate, tried: &[Tried], skipped: &[Candidate]) -> Verdict {
        let scenario = self.subject.scenario;
        let (good, rest): (Vec<&Tried>, Vec<&Tried>) = tried.iter().partition(|tried| helps(tried));
        let (maybe, bad): (Vec<&Tried>, Vec<&Tried>) =
            rest.iter().partition(|tried| is_uncertain(tried));
        let names_of = |all: &[&Tried]| all.iter().map(|of| names(scenario, &of.levers)).collect();
        let limits: Vec<Limit> =
            good.iter().enumerate().map(|(place, of)| self.limit(now, of, place == 0)).collect();
        // A resource that fills buffers was idle while they were full. If buffers may have hidden the bottleneck in this way,
        // the most used resource counts as full, although it was not used all the time.
        let hidden = now.draining || self.flatters(now);
        let most = skipped.iter().map(|candidate| candidate.used).fold(USED, f64::max);
        let enough = if hidden { most } else { FULL };
        let (full, others): (Vec<&Candidate>, Vec<&Candidate>) =
            skipped.iter().partition(|candidate| candidate.used >= enough);
        let others = others.iter().filter(|candidate| candidate.promise >= PROMISING);
        let mut verdict = Verdict {
            job: scenario.jobs[self.subject.job].name.clone(),
            quick: false,
            long_run: Some(LongRun {
                step_time: now.step,
                accelerator_utilisation: now.computing,
                reached: !now.draining && !self.flatters(now),
            }),
            limits,
            saturated: full.iter().map(|candidate| candidate.lever.resource(scenario)).collect(),
            without_effect: names_of(&bad),
            uncertain: names_of(&maybe),
            not_tried: others
                .map(|candidate| candidate.lever.words(scenario))
                .take(MOST_NOT_TRIED)
                .collect(),
            needs: need::needs(&self.subject),
            events: self.trials.spent(),
            text: String::new(),
        };
        let advice: Vec<String> = good.iter().map(|of| advice(scenario, of)).collect();
        let full: Vec<String> =
            full.iter().map(|candidate| candidate.lever.words(scenario)).collect();
        verdict.text = words::paragraph(&self.subject, &verdict, &advice, &full);
        // Short runs are compared after caches are warm, but the run's own figures may include the first epoch.
        if !verdict.limits.is_empty() && self.trials.outlasts_first_epoch() {
            verdict.text = format!("Once the first epoch is over: {}", verdict.text);
        }
        verdict
    }

    /// Returns whether the steps in the run's own figures are faster than steps can be in the long run.
    fn flatters(&self, now: &LongRate) -> bool {
        let shown = self.subject.shown().figures.step_time.mean;
        shown.is_some_and(|shown| shown < (1.0 - SHORT_OF) * now.step)
    }

    fn limit(&self, now: &LongRate, tried: &Tried, first: bool) -> Limit {
        let scenario = self.subject.scenario;
        let each = |of: &dyn Fn(&Lever) -> String| tried.levers.iter().map(of).collect::<Vec<_>>();
        let Effect { after, after_interval, gain, gain_interval } = tried.effect;
        let instead = tried.levers.iter().any(|lever| lever.kind.row().instead.is_some());
        Limit {
            name: names(scenario, &tried.levers),
            lever: each(&|lever| lever.kind.row().name.to_owned()).join("+"),
            resource: each(&|lever| lever.resource(scenario)).join("+"),
            key: each(&|lever| lever.key(scenario)).join("+"),
            factor: (!instead).then_some(relax::FACTOR),
            before: now.step,
            after,
            after_interval,
            gain,
            gain_interval,
            next: first.then(|| self.next(tried)).flatten(),
        }
    }

    /// Returns the likely bottleneck once the levers of a trial are relaxed, in words.
    fn next(&self, tried: &Tried) -> Option<String> {
        let outcomes = std::slice::from_ref(&tried.outcome);
        let report = summarise(&tried.then, outcomes, 0.0);
        let subject = Subject { scenario: &tried.then, report: &report, job: self.subject.job };
        let all = subject.candidates(false);
        // A resource that is full although it was doubled is still the limit.
        let next = all
            .iter()
            .find(|candidate| candidate.used >= FULL || !tried.levers.contains(&candidate.lever))?;
        let still = if tried.levers.contains(&next.lever) { "still " } else { "" };
        Some(format!("{still}{}", next.lever.words(&tried.then)))
    }
}

/// Returns whether the best trial so far saves more than the largest estimated saving (promise) of the remaining candidates.
fn saves_more(tried: &[Tried], others: &[Candidate]) -> bool {
    let most = tried.iter().filter(|tried| helps(tried)).map(|tried| tried.effect.gain);
    let promised = others.iter().map(|candidate| candidate.promise).fold(0.0, f64::max);
    most.fold(0.0, f64::max) > promised
}

/// Returns whether a trial helps: the whole interval of its gain is above the reporting threshold.
fn helps(tried: &Tried) -> bool {
    tried.effect.gain_interval[0] > WORTH
}

/// Returns whether a trial may help, but the interval of its gain is too wide to decide.
fn is_uncertain(tried: &Tried) -> bool {
    !helps(tried) && tried.effect.gain_interval[1] > TELLING
}

/// Returns the candidates about which the short runs say nothing: the skipped ones and, if nothing helps, full resources whose
/// effect is uncertain.
fn unsettled(
    candidates: &[Candidate],
    tried: &[Tried],
    mut skipped: Vec<Candidate>,
) -> Vec<Candidate> {
    if !tried.iter().any(helps) {
        let uncertain = |of: &&Candidate| {
            let lifted = |tried: &&Tried| tried.levers == [of.lever];
            of.used >= FULL && tried.iter().find(lifted).is_some_and(is_uncertain)
        };
        skipped.extend(candidates.iter().filter(uncertain));
    }
    skipped
}

/// Returns the advice for a trial: for each lever, what to change, and the key of the scenario that sets it.
fn advice(scenario: &Scenario, tried: &Tried) -> String {
    let each = tried
        .levers
        .iter()
        .map(|lever| format!("{} ({})", lever.advice(scenario, &tried.then), lever.key(scenario)));
    each.collect::<Vec<_>>().join(" and ")
}

fn names(scenario: &Scenario, levers: &[Lever]) -> String {
    levers.iter().map(|lever| lever.words(scenario)).collect::<Vec<_>>().join(" and ")
}
