//! Short runs with something lifted, and what they show beside the run itself.

use crate::report::{JobOutcome, Outcome};
use crate::scenario::{Scenario, Stop};
use crate::sim;
use crate::stats::{mean, mser5, t_interval};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::candidates::Subject;
use super::course::{Course, LongRate, ROUNDS};

/// Events that a verdict may take of a run that is shorter than that: some hundredths of a second.
pub const LEAST_BUDGET: u64 = 60_000;
/// Most events of all short runs where those of the least budget found nothing that helps. They take less than a second.
const LAST_BUDGET: u64 = 1_000_000;
/// Events that a verdict may take then, at least: some tenths of a second.
const LEAST_LAST_BUDGET: u64 = 400_000;
/// Events that a verdict may take then, between these two, as a share of the run's own events.
const LAST: f64 = 0.25;
/// Share of the run's own events that a verdict may take until it is likely to have found what binds.
const SEARCHING: f64 = 0.15;
/// The same for the first short run where what it would get of these is too little for one.
const FIRST: f64 = 0.22;
/// The same from then on.
const FOUND: f64 = 0.1;
/// How many times as many events a short run takes with something lifted, at most and about.
const MORE_EVENTS: f64 = 1.4;
/// Beside other jobs a short run lasts for the time of fewer steps of the base run than are compared, by this factor: what is
/// lifted makes it faster.
const FASTER: f64 = 1.2;
/// Candidates that share what is left of the budget at a time: the most promising first.
const SHARERS: usize = 3;
/// Fewest steps that are compared.
const FEWEST: usize = 3;
/// Cycles of workers that are compared, if the budget allows.
const CYCLES: usize = 12;
/// Steps that are compared at least, and at most, likewise: as many as tell a difference of [`TELL_APART`].
const ENOUGH: [usize; 2] = [30, 240];
/// Half-width of the interval of a step's time, relative to it, at which steps are enough.
const TELL_APART: f64 = 0.01;
/// Fewest batches for a paired interval.
const FEWEST_PAIRS: usize = 4;
/// Fewest batches that tell how much slower a short run is where the run itself is slower.
const FEWEST_FOR_SLOPE: usize = 6;
/// Half-widths of an interval that a mean may be off by chance.
const CHANCE: f64 = 2.0;
/// Cycles of workers at the start that never count: buffers fill, and workers are in lockstep.
const FILLING: usize = 2;

/// A short run.
pub(super) struct Plan {
    /// The scenario with something lifted.
    pub(super) then: Scenario,
    /// Steps that are to be compared.
    until: usize,
    /// Events after which it ends at the latest.
    most_events: u64,
}

/// What lifting something does to a job's steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effect {
    /// Time of a step then [s].
    pub(super) after: f64,
    pub(super) after_interval: [f64; 2],
    /// Share of a step's time that is saved.
    pub(super) gain: f64,
    pub(super) gain_interval: [f64; 2],
}

impl Effect {
    /// Whether steps take the very same times.
    pub(super) fn is_none(&self) -> bool {
        self.gain_interval.iter().all(|end| end.abs() < 1e-9)
    }
}

/// The run itself, and what is left for short ones beside it.
pub(super) struct Trials<'a> {
    subject: Subject<'a>,
    base: &'a Outcome,
    course: Course<'a>,
    /// The first step that counts.
    first: usize,
    budget: Budget,
    spent: u64,
    phase: Phase,
    stop: Option<&'a AtomicBool>,
}

/// How far the search for what binds is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Searching,
    /// What binds is likely to be found.
    Found,
    /// Nothing was found that helps.
    LastResort,
}

/// Events that the short runs of a verdict may take together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// What the first short run may take where its share of `searching` is too small for one.
    first: u64,
    /// Events of all short runs until one has shown what binds.
    searching: u64,
    /// The same from then on.
    found: u64,
    /// Events of all short runs where none of them has helped.
    last: u64,
    /// Events of all short runs where `searching` was too small for a single one: as many as the run itself took.
    whole: u64,
}

impl Budget {
    pub(super) fn from_outcomes(outcomes: &[Outcome]) -> Budget {
        let one = outcomes.first().map_or(0, |outcome| outcome.events);
        let all: u64 = outcomes.iter().map(|outcome| outcome.events).sum();
        // One replication is enough to compare with.
        let share = |of: f64| ((all as f64 * of) as u64).min(one).max(LEAST_BUDGET);
        let [first, searching, found] = [FIRST, SEARCHING, FOUND].map(share);
        let last = ((one as f64 * LAST) as u64).clamp(LEAST_LAST_BUDGET, LAST_BUDGET);
        Budget { first, searching, found, last, whole: one.max(LAST_BUDGET) }
    }
}

impl<'a> Trials<'a> {
    pub(super) fn new(
        subject: Subject<'a>,
        base: &'a Outcome,
        course: Course<'a>,
        budget: Budget,
        stop: Option<&'a AtomicBool>,
    ) -> Trials<'a> {
        let phase = Phase::Searching;
        let trials = Trials { subject, base, course, first: 0, budget, spent: 0, phase, stop };
        Trials { first: trials.first_that_counts(), ..trials }
    }

    /// From now on short runs only look for what helps beside what was found to bind.
    pub(super) fn binding_found(&mut self) {
        self.phase = Phase::Found;
    }

    /// From now on short runs may take more events, as nothing was found that helps: as many as the run itself where none
    /// was affordable before.
    pub(super) fn spare_nothing(&mut self) {
        if self.spent == 0 {
            self.budget.last = self.budget.whole;
        }
        self.phase = Phase::LastResort;
    }

    /// Events left for short runs. The first one may take some more, so that there is one at least.
    pub(super) fn left(&self) -> u64 {
        match self.phase {
            Phase::Searching if self.spent == 0 => self.budget.first,
            Phase::Searching | Phase::Found | Phase::LastResort => {
                self.share().saturating_sub(self.spent)
            }
        }
    }

    /// Events that all short runs may take together.
    fn share(&self) -> u64 {
        match self.phase {
            Phase::Searching => self.budget.searching,
            Phase::Found => self.budget.found,
            Phase::LastResort => self.budget.last,
        }
    }

    /// Events that short runs have taken.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// The long run as the run itself shows it.
    pub(super) fn long_rate(&self) -> Option<LongRate> {
        let stretch = self.first..self.last();
        self.course.long_rate(self.input_from(), whole(stretch, self.course.cycle()))
    }

    /// The first step that counts: what is kept is there, buffers are filled, and step times are level.
    fn first_that_counts(&self) -> usize {
        let last = self.last();
        if self.outlasts_first_epoch() {
            let samples = self.subject.scenario.samples_of_epoch(self.described());
            return self.course.first_epoch(samples);
        }
        let cycle = self.course.cycle();
        let level = mser5(&self.course.step_times(0..last)).values;
        let most = (last / 10).min((4 * cycle).max(ENOUGH[1]));
        cycle.max(most.min((FILLING * cycle).max(level))).max(1).min(last / 2)
    }

    /// From where on what is put into buffers counts.
    fn input_from(&self) -> usize {
        if self.outlasts_first_epoch() { self.first } else { 0 }
    }

    /// Whether the run goes on behind an epoch that later ones differ from.
    pub(super) fn outlasts_first_epoch(&self) -> bool {
        let samples = self.subject.scenario.samples_of_epoch(self.described());
        self.keeps() && self.course.first_epoch(samples) + FEWEST <= self.last()
    }

    /// Behind the last step that counts.
    fn last(&self) -> usize {
        let (steps, input) = (self.course.steps(), self.course.end_of_input());
        match self.stop_of_job() {
            Stop::Epochs(_) if input * 2 >= steps => input,
            Stop::Duration(_) | Stop::Known { .. } | Stop::Steps(_) | Stop::Epochs(_) => steps,
        }
    }

    fn stop_of_job(&self) -> Stop {
        self.subject.scenario.stop_of(self.described())
    }

    fn described(&self) -> &'a crate::scenario::Job {
        &self.subject.scenario.jobs[self.subject.job]
    }

    /// Whether what was read once may be read faster.
    fn keeps(&self) -> bool {
        let storage = &self.subject.scenario.storage[self.described().reads_from()];
        let through = self.subject.scenario.cluster.node.page_cache.is_some();
        through && storage.passes_page_cache()
            || storage.cache.is_some()
            || self.described().decoded_cache.is_some()
    }

    /// A fair part of what is left for so many short runs [events].
    pub(super) fn fair(&self, runs: usize) -> u64 {
        self.share().saturating_sub(self.spent) / runs.clamp(1, SHARERS) as u64
    }

    /// The short run of a scenario that so many events allow; `None` where they are too few. `rare`: what is lifted is not
    /// there all the time.
    pub(super) fn plan(&self, then: Scenario, rare: bool, most_events: u64) -> Option<Plan> {
        let until = self.affordable(most_events, self.cycle_of(&then), rare)?;
        Some(Plan { then, until, most_events })
    }

    /// The shortest run of a scenario that can be compared; `None` where it would take more events than are left.
    pub(super) fn shortest_plan(&self, then: Scenario) -> Option<Plan> {
        let (least, most_events) = (self.fewest(self.cycle_of(&then)), self.left());
        let affordable = self.events(least) <= most_events as f64;
        affordable.then_some(Plan { then, until: least, most_events })
    }

    /// Steps from one item of a worker to its next, with the workers of this scenario.
    fn cycle_of(&self, then: &Scenario) -> usize {
        let job = self.subject.job;
        let workers = |scenario: &Scenario| {
            scenario.jobs[job].loader.stages.first().map_or(1, |stage| stage.workers)
        };
        let times = workers(then) / workers(self.subject.scenario).max(1);
        self.course.cycle() * times.max(1) as usize
    }

    /// Simulates the planned short runs in parallel and adds their events to those spent. `None` for a run that has too few
    /// steps to compare.
    pub(super) fn run(&mut self, plans: &[Option<Plan>]) -> Vec<Option<(Effect, Outcome)>> {
        let one = |plan: &Option<Plan>| plan.as_ref().map(|plan| self.simulate(plan));
        let outcomes: Vec<Option<Outcome>> = plans.par_iter().map(one).collect();
        self.spent += outcomes.iter().flatten().map(|outcome| outcome.events).sum::<u64>();
        if self.stop.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return plans.iter().map(|_| None).collect();
        }
        let job = self.subject.job;
        let shown = |(plan, outcome): (&Option<Plan>, Option<Outcome>)| {
            let (plan, outcome) = plan.as_ref().zip(outcome)?;
            let effect = self.effect(&Course::new(&plan.then.jobs[job], job, &outcome)?)?;
            Some((effect, outcome))
        };
        plans.iter().zip(outcomes).map(shown).collect()
    }

    fn simulate(&self, plan: &Plan) -> Outcome {
        let options = sim::Options {
            stop: self.stop,
            most_events: Some(plan.most_events),
            ..sim::Options::default()
        };
        sim::run(&self.shortened(&plan.then, plan.until), 0, &options)
    }

    /// Events of a short run in which so many steps are to be compared: those of the base run by then. They do not come evenly
    /// in time where caches or buffers fill, storage is slow for a while, or some jobs end before others.
    fn events(&self, steps: usize) -> f64 {
        let until = self.course.time_of(self.length(steps));
        let by_then = |copy: &JobOutcome| {
            let at = copy.steps.partition_point(|step| step.end < until);
            copy.steps.get(at).map(|step| step.events)
        };
        let jobs = &self.base.jobs;
        let all = jobs.iter().filter_map(|copy| copy.steps.last()).map(|step| step.events).max();
        match (jobs.iter().filter_map(by_then).min(), all) {
            (Some(soonest), Some(all)) if all > 0 => {
                soonest as f64 / all as f64 * self.base.events as f64
            }
            _ => self.base.events as f64,
        }
    }

    /// Steps of the base run in whose time a short run can be afforded whose workers make an item in so many.
    fn affordable(&self, most_events: u64, cycle: usize, rare: bool) -> Option<usize> {
        let (first, last) = (self.first, self.last());
        let enough = first + (CYCLES * cycle).max(self.telling());
        let wanted = if rare { last } else { last.min(enough) };
        let least = self.fewest(cycle);
        // Longer runs cost more.
        let within = |budget: f64| {
            let (mut low, mut high) = (least, wanted + 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.events(middle) <= budget { low = middle + 1 } else { high = middle }
            }
            (low > least).then(|| low - 1)
        };
        let budget = most_events as f64;
        within(budget / MORE_EVENTS).or_else(|| (self.events(least) <= budget).then_some(least))
    }

    /// The fewest steps that a short run needs where workers make an item in so many.
    fn fewest(&self, cycle: usize) -> usize {
        let rounds = self.input_from() + ROUNDS * cycle + 1;
        (self.first + cycle.max(FEWEST)).max(rounds).min(self.last())
    }

    /// Steps that tell a difference, from how much those of the run itself vary.
    fn telling(&self) -> usize {
        let stretch = self.first..self.last();
        let batches = self.course.batches(stretch.clone(), self.course.cycle());
        let wide =
            t_interval(&batches).zip(mean(&batches)).filter(|_| batches.len() >= FEWEST_PAIRS);
        let Some(([low, high], step)) = wide else { return ENOUGH[1] };
        // Half-widths fall with the root of the number of steps.
        let times = ((high - low) / 2.0 / step / TELL_APART).powi(2);
        ((stretch.len() as f64 * times) as usize).clamp(ENOUGH[0], ENOUGH[1])
    }

    /// Steps of the base run that a short run goes on for, if so many are to be compared.
    fn length(&self, steps: usize) -> usize {
        let steps = if self.is_alone() { steps } else { (steps as f64 / FASTER).ceil() as usize };
        steps.max(self.fewest(self.course.cycle())).max(1)
    }

    /// Whether there are no other jobs, which would have to go on until this one ends.
    fn is_alone(&self) -> bool {
        self.subject.scenario.jobs.len() == 1
    }

    /// The same scenario for so many steps; beside other jobs for the time that the base run took for them.
    fn shortened(&self, then: &Scenario, steps: usize) -> Scenario {
        let mut short = then.clone();
        // Where jobs begin when others have ended, all of them run as they are.
        if short.jobs.iter().all(|job| job.after.is_empty()) {
            let length = self.length(steps);
            let by_time = Stop::Duration(self.course.time_of(length));
            short.run.stop = if self.is_alone() { Stop::Steps(length as u64) } else { by_time };
            for (index, job) in short.jobs.iter_mut().enumerate() {
                // Others end when they do; the one that is looked at must not run out of input.
                job.stop = (index != self.subject.job).then(|| then.stop_of(job));
            }
        }
        short
    }

    /// The effect over the compared steps, carried over to the long run: those steps may be faster than the average, by
    /// chance or as while caches hold their samples.
    fn effect(&self, then: &Course) -> Option<Effect> {
        let (cycle, first) = (self.course.cycle(), self.first);
        let end = then.steps();
        if end < first + FEWEST.min(self.last() - first) {
            return None;
        }
        let after = then.long_rate(self.input_from(), whole(first..end, then.cycle()))?;
        let both = whole(first..end.min(self.last()), cycle);
        let now = self.course.long_rate(self.input_from(), both.clone())?;
        let long = self.long_rate().unwrap_or_else(|| now.clone());
        let pairs = if after.draining || now.draining {
            Vec::new()
        } else {
            let (now, after) =
                (self.course.batches(both.clone(), cycle), then.batches(both, cycle));
            now.into_iter().zip(after).collect()
        };
        // The run itself is a control variate (Law, *Simulation Modeling and Analysis*, section 11.4) where its own steps
        // differ from the average by chance. Where they differ by more, as before a fault or in a cold cache, the short run's
        // waits do so alike.
        let waits = |of: &LongRate| of.step * (1.0 - of.computing);
        let most = after.step / now.step;
        let alike = match waits(&now) {
            none if none <= 0.0 => 0.0,
            now => (waits(&after) / now).clamp(0.0, most),
        };
        let chance = (now.interval[1] - now.interval[0]) / 2.0 * CHANCE;
        let known = slope(&pairs).filter(|_| (long.step - now.step).abs() <= chance);
        let slope = known.map_or(alike, |slope| slope.clamp(0.0, most));
        // No step takes less than the accelerators compute.
        let compute = after.computing * after.step;
        let lasting =
            |short: f64, now: f64| (short + slope * (long.step - now)).max(short.min(compute));
        let step = lasting(after.step, now.step);
        let gain = |after: f64| 1.0 - after / long.step;
        let saved: Vec<f64> =
            pairs.iter().map(|(now, after)| gain(lasting(*after, *now))).collect();
        let apart =
            [1.0 - after.interval[1] / now.interval[0], 1.0 - after.interval[0] / now.interval[1]];
        // What varies in the run itself and not in the short one makes the gain uncertain too.
        let own = (step / long.step - slope).abs() * self.half_width() / long.step;
        let paired = t_interval(&saved).filter(|_| saved.len() >= FEWEST_PAIRS);
        let paired = paired.map(|[low, high]| {
            let half = ((high - low) / 2.0).hypot(own);
            [(low + high) / 2.0 - half, (low + high) / 2.0 + half]
        });
        Some(Effect {
            after: step,
            after_interval: after.interval.map(|end| end * step / after.step),
            gain: gain(step),
            gain_interval: paired.unwrap_or(apart),
        })
    }

    /// Half-width of the interval of a step's time in the run itself [s]; 0 where it is too short for one.
    fn half_width(&self) -> f64 {
        let batches = self.course.batches(self.first..self.last(), self.course.cycle());
        let interval = t_interval(&batches).filter(|_| batches.len() >= FEWEST_PAIRS);
        interval.map_or(0.0, |[low, high]| (high - low) / 2.0)
    }
}

/// By how much the second of each pair grows with the first: least squares; `None` where that cannot be told.
fn slope(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let (x, y) = (x / n, y / n);
    let (xx, xy) = pairs.iter().fold((0.0, 0.0), |(xx, xy), pair| {
        (xx + (pair.0 - x).powi(2), xy + (pair.0 - x) * (pair.1 - y))
    });
    // Below that it is rounding that varies.
    let varies = xx > n * (1e-9 * x).powi(2);
    (pairs.len() >= FEWEST_FOR_SLOPE && varies).then(|| xy / xx)
}

/// The part of a stretch that is whole cycles, up to its end; all of it where it is shorter than one.
fn whole(stretch: Range<usize>, cycle: usize) -> Range<usize> {
    let cycles = stretch.len() / cycle.max(1);
    if cycles == 0 { stretch } else { stretch.end - cycles * cycle..stretch.end }
}
