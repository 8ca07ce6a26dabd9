//! Short runs with something lifted, and what they show beside the run itself.

use crate::report::Outcome;
use crate::scenario::{Scenario, Stop};
use crate::sim;
use crate::stats::{mean, t_interval};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::candidates::Subject;
use super::course::{Course, LongRate, ROUNDS};

/// Events that a verdict may take of a run that is shorter than that: some hundredths of a second.
pub const LEAST_BUDGET: u64 = 100_000;
/// Share of the run's own events that a verdict may take until it is likely to have found what binds.
const SEARCHING: f64 = 0.5;
/// The same from then on.
const FOUND: f64 = 0.2;
/// How many times as many events a second of a run takes with something lifted, at most and about.
const MORE_EVENTS: f64 = 1.4;
/// A short run ends when the base run had taken this many times as many steps as are compared.
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

/// A short run.
pub(super) struct Plan {
    /// The scenario with something lifted.
    pub(super) then: Scenario,
    /// Steps of the run itself in whose time it ends.
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

/// The run itself, and what is left for short ones beside it.
pub(super) struct Trials<'a> {
    subject: Subject<'a>,
    base: &'a Outcome,
    course: Course<'a>,
    budget: Budget,
    spent: u64,
    /// Whether what binds is likely to be found.
    found: bool,
    stop: Option<&'a AtomicBool>,
}

/// Events that the short runs of a verdict may take together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// What the first short run may take where its share of `searching` is too small for one.
    first: u64,
    /// What all may take until what binds is found.
    searching: u64,
    /// What all may take from then on.
    found: u64,
}

impl Budget {
    pub(super) fn of(outcomes: &[Outcome]) -> Budget {
        let one = outcomes.first().map_or(0, |outcome| outcome.events);
        let all: u64 = outcomes.iter().map(|outcome| outcome.events).sum();
        // One replication is enough to compare with.
        let share = |of: f64| ((all as f64 * of) as u64).min(one).max(LEAST_BUDGET);
        Budget { first: share(1.0), searching: share(SEARCHING), found: share(FOUND) }
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
        Trials { subject, base, course, budget, spent: 0, found: false, stop }
    }

    /// From now on short runs only look for what helps beside what was found to bind.
    pub(super) fn binding_found(&mut self) {
        self.found = true;
    }

    /// Events left for short runs. The first one may take as many as one replication, so that there is one at least.
    pub(super) fn left(&self) -> u64 {
        if self.spent == 0 { self.budget.first } else { self.share().saturating_sub(self.spent) }
    }

    /// Events that all short runs may take together.
    fn share(&self) -> u64 {
        if self.found { self.budget.found } else { self.budget.searching }
    }

    /// Events that short runs have taken.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// The long run as the run itself shows it.
    pub(super) fn long_rate(&self) -> Option<LongRate> {
        let stretch = self.first()..self.last();
        self.course.long_rate(self.input_from(), whole(stretch, self.course.cycle()))
    }

    /// The first step that counts: what is kept is there, and each worker has made an item.
    fn first(&self) -> usize {
        let last = self.last();
        if self.outlasts_first_epoch() {
            let samples = self.subject.scenario.samples_of_epoch(self.described());
            return self.course.first_epoch(samples);
        }
        let cycle = self.course.cycle();
        cycle.max((last / 10).min((4 * cycle).max(ENOUGH[1]))).max(1).min(last / 2)
    }

    /// From where on what is put into buffers counts.
    fn input_from(&self) -> usize {
        if self.outlasts_first_epoch() { self.first() } else { 0 }
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

    /// Events of a short run in the time of so many steps of the base run.
    fn events(&self, steps: usize) -> f64 {
        let rate = self.base.events as f64 / self.base.makespan.max(f64::MIN_POSITIVE);
        self.seconds(steps) * rate
    }

    /// Steps of the base run in whose time a short run can be afforded whose workers make an item in so many.
    fn affordable(&self, most_events: u64, cycle: usize, rare: bool) -> Option<usize> {
        let (first, last) = (self.first(), self.last());
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
        let rounds = ((ROUNDS * cycle) as f64 * FASTER).ceil() as usize + 1;
        (self.first() + cycle.max(FEWEST)).max(self.input_from() + rounds).min(self.last())
    }

    /// Steps that tell a difference, from how much those of the run itself vary.
    fn telling(&self) -> usize {
        let stretch = self.first()..self.last();
        let batches = self.course.batches(stretch.clone(), self.course.cycle());
        let wide =
            t_interval(&batches).zip(mean(&batches)).filter(|_| batches.len() >= FEWEST_PAIRS);
        let Some(([low, high], step)) = wide else { return ENOUGH[1] };
        // Half-widths fall with the root of the number of steps.
        let times = ((high - low) / 2.0 / step / TELL_APART).powi(2);
        ((stretch.len() as f64 * times) as usize).clamp(ENOUGH[0], ENOUGH[1])
    }

    /// How long a short run is in which so many steps are to be compared [s]: what is lifted makes it faster, but the
    /// fewest steps that can be compared are taken even if it does not.
    fn seconds(&self, steps: usize) -> f64 {
        let fewest = self.fewest(self.course.cycle());
        self.course.time_of(((steps as f64 / FASTER).ceil() as usize).max(fewest).max(1))
    }

    /// The same scenario for the time that the base run took for so many steps.
    fn shortened(&self, then: &Scenario, steps: usize) -> Scenario {
        let mut short = then.clone();
        // Where jobs begin when others have ended, all of them run as they are.
        if short.jobs.iter().all(|job| job.after.is_empty()) {
            let enough = self.seconds(steps);
            short.run.stop = Stop::Duration(enough);
            for (index, job) in short.jobs.iter_mut().enumerate() {
                // Others end when they do; the one that is looked at must not run out of input.
                job.stop = (index != self.subject.job).then(|| then.stop_of(job));
            }
        }
        short
    }

    /// The effect over the compared steps, scaled to the long run: those steps may be faster than the average, as while
    /// caches hold their samples.
    fn effect(&self, then: &Course) -> Option<Effect> {
        let (cycle, first) = (self.course.cycle(), self.first());
        let end = then.steps();
        if end < first + FEWEST.min(self.last() - first) {
            return None;
        }
        let after = then.long_rate(self.input_from(), whole(first..end, then.cycle()))?;
        let both = whole(first..end.min(self.last()), cycle);
        let now = self.course.long_rate(self.input_from(), both.clone())?;
        let gain = 1.0 - after.step / now.step;
        let apart =
            [1.0 - after.interval[1] / now.interval[0], 1.0 - after.interval[0] / now.interval[1]];
        let pairs = (!after.draining && !now.draining).then(|| self.paired(then, both, now.step));
        let lasting = self.long_rate().map_or(1.0, |long| long.step / now.step);
        Some(Effect {
            after: after.step * lasting,
            after_interval: after.interval.map(|end| end * lasting),
            gain,
            gain_interval: pairs.flatten().unwrap_or(apart),
        })
    }

    /// Interval of the share that is saved, batch of steps by batch.
    fn paired(&self, then: &Course, stretch: Range<usize>, step: f64) -> Option<[f64; 2]> {
        let cycle = self.course.cycle();
        let (now, after) =
            (self.course.batches(stretch.clone(), cycle), then.batches(stretch, cycle));
        let saved: Vec<f64> =
            now.iter().zip(&after).map(|(now, after)| (now - after) / step).collect();
        t_interval(&saved).filter(|_| saved.len() >= FEWEST_PAIRS)
    }
}

/// The part of a stretch that is whole cycles, up to its end; all of it where it is shorter than one.
fn whole(stretch: Range<usize>, cycle: usize) -> Range<usize> {
    let cycles = stretch.len() / cycle.max(1);
    if cycles == 0 { stretch } else { stretch.end - cycles * cycle..stretch.end }
}
