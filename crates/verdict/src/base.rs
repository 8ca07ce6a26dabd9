//! The base run: what a job does in the long run, and how far other runs go that are compared with it.

use forebay_report::{
    Cause, Figure, JobOutcome, JobReport, Outcome, Owner, Report, ResourceOutcome, summarise,
};
use forebay_scenario::profile::Profile;
use forebay_scenario::{Distribution, Job, Operation, Override, Run, Scenario, Stop, WarmUp};
use forebay_sim::{self as sim, IdleCollectives};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lever::Source;
use super::numbers::{
    ALIKE, CV, EPOCHS_BEFORE, FEWEST, FEWEST_EVENTS, FINE, LEAST_EVENTS, MOST_TIMES, OFTEN,
    PRECISE, RUNS, TRIALS, TURNS, WORTH,
};

/// Receives how far a verdict is: the name of the job, and the part of its events that are spent.
pub type Told<'a> = &'a (dyn Fn(&str, f64) + Sync);

/// Machines that the measurements of a profile allow, and how much runs on one of them differ.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machines<'a> {
    /// Profiles with parameters drawn from their uncertainty; empty if the scenario has no profile.
    pub drawn: &'a [Profile],
    /// Relative standard deviation of the step time between repeated runs on one machine.
    pub spread: f64,
}

/// Options for finding the verdict.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Whether to try nothing, and to estimate the bottleneck from the causes of stalls instead.
    pub quick: bool,
    /// Whether to find a verdict on other jobs that wait, too.
    pub others: bool,
    /// Ends the trials early when it becomes true; the verdict then is an estimate.
    pub stop: Option<&'a AtomicBool>,
    /// Collectives that runs have simulated on links that nothing else uses, if they are known. They only save time.
    pub collectives: Option<&'a IdleCollectives>,
    /// Machines that the measurements of the scenario's profile allow; promises are as uncertain as these machines differ.
    pub machines: Machines<'a>,
    /// Reports of the scenario over what numbers that nobody measured may be; limits that rank higher in them are marked.
    pub draws: &'a [Report],
    /// Events that a verdict on a job may always take, in place of [`LEAST_EVENTS`].
    pub least_events: Option<u64>,
    /// Lets no further trial begin once it is true, although events are left. The verdict then depends on the speed of the machine,
    /// and says so.
    pub late: Option<&'a AtomicBool>,
    /// Receives the progress, after each group of trials.
    pub told: Option<Told<'a>>,
}

impl Options<'_> {
    /// Returns the events that a verdict on a job may always take.
    pub(crate) fn least_events(&self) -> u64 {
        self.least_events.unwrap_or(LEAST_EVENTS)
    }

    /// Returns whether the time limit has come.
    pub(crate) fn is_late(&self) -> bool {
        is_raised(self.late)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        is_raised(self.stop)
    }
}

fn is_raised(flag: Option<&AtomicBool>) -> bool {
    flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Causes of stalls that come only at times.
pub(crate) const RARE: [Cause; 3] = [Cause::Restart, Cause::Checkpoint, Cause::Fault];

/// Events that simulations may take, and have taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget<'a> {
    /// Events that the whole verdict may take.
    pub(crate) all: u64,
    /// Events until which its present part must end.
    pub(crate) most: u64,
    pub(crate) spent: u64,
    /// Ends it, although events are left, once it is true.
    pub(crate) late: Option<&'a AtomicBool>,
}

impl Budget<'_> {
    /// Returns the events that are left; none after the time limit.
    pub(crate) fn left(&self) -> u64 {
        if is_raised(self.late) { 0 } else { self.most.saturating_sub(self.spent) }
    }

    /// Returns at how many events each replication is cut of `trials` trials that run at the same time. They share the events that are
    /// left, but each may take as many as the base run took.
    pub(crate) fn each_of(&self, trials: usize, base: &Base) -> u64 {
        (self.left() / trials as u64).max(base.events()) / base.outcomes.len() as u64
    }

    /// Returns the part of the events that are spent.
    pub(crate) fn share(&self) -> f64 {
        (self.spent as f64 / self.all as f64).min(1.0)
    }
}

/// How far runs go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Number of steps of the job.
    pub(crate) steps: usize,
    /// Number of replications.
    pub(crate) replications: usize,
    /// Number of events at which each replication is cut.
    pub(crate) most_events: u64,
}

/// The run of a job that others are compared with.
pub(crate) struct Base<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) options: &'a Options<'a>,
    /// Index of the job.
    pub(crate) job: usize,
    /// The scenario as it was simulated.
    pub(crate) scenario: Scenario,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) report: Report,
    /// Overrides beside those of the source.
    pub(crate) changes: Vec<Override>,
    /// Whether the run has automatic length, because the written one does not show the long run.
    pub(crate) is_automatic: bool,
    /// Whether constants vary by a few per cent, because they march in step otherwise.
    pub(crate) is_varied: bool,
    /// The job's steps that count: those after the warm-up.
    pub(crate) measured: Range<usize>,
    /// Events of simulations that were made for the base run itself.
    pub(crate) spent: u64,
    /// Events of the longest replication of the run that the user asked for.
    asked: u64,
    /// Number of epochs that each job has read before a run begins, so that caches hold what they keep; empty if nothing is cached.
    warm: Vec<f64>,
}

impl<'a> Base<'a> {
    /// Returns the base run of a job, from the runs that the user asked for where they show the long run, and otherwise from a run of
    /// automatic length; `None` if the job completes no step.
    pub(crate) fn new(
        source: Source<'a>,
        (scenario, outcomes, report): (&Scenario, &[Outcome], &Report),
        job: usize,
        options: &'a Options<'a>,
    ) -> Option<Base<'a>> {
        report.jobs.get(job)?.figures.step_time.mean?;
        // A warm-up that the file writes or leaves out may hide that buffers drain.
        let mut scenario = scenario.clone();
        scenario.run.warm_up = WarmUp::Auto;
        let scenario = &scenario;
        let is_automatic = !summarise(scenario, outcomes, 0.0).jobs[job].length.enough;
        let written_known = matches!(scenario.run.stop, Stop::Known { .. });
        let warm = warm(scenario, job, options.least_events());
        let begins_anew = !warm.is_empty()
            || has_tokens(scenario, outcomes, job)
            || has_saved_service(scenario, outcomes, job)
            || is_automatic && !written_known;
        let mut base = Base {
            source,
            options,
            job,
            scenario: scenario.clone(),
            outcomes: Vec::new(),
            report: report.clone(),
            changes: Vec::new(),
            is_automatic: begins_anew || written_known,
            is_varied: false,
            measured: 0..0,
            spent: 0,
            asked: outcomes.iter().map(Outcome::events_of_all_steps).max().unwrap_or(0),
            warm,
        };
        if begins_anew {
            base.scenario = base.endless(scenario.clone());
            let run = base.simulate(&base.scenario, 0, None);
            base.take(vec![run]);
        } else {
            let steps = steps_of(outcomes, job);
            let enough = number_of_replications(scenario, outcomes, job);
            // Another job may end before this one.
            if written_known || scenario.jobs.len() == 1 {
                base.outcomes = outcomes[..enough].to_vec();
                base.report = summarise(&base.scenario, &base.outcomes, 0.0);
                base.measure();
            } else {
                // Other jobs go on as long as this one.
                base.scenario = base.shaped(scenario.clone(), steps);
                let run = |i| base.simulate(&base.scenario, i, Some((job, u64::MAX)));
                let all = (0..enough as u32).into_par_iter().map(run).collect();
                base.take(all);
            }
        }
        base.lengthen();
        base.report.jobs[job].figures.step_time.mean?;
        (!base.measured.is_empty()).then_some(base)
    }

    /// Lets the run go on where it has too few steps to compare, or does not know their time well, as long as that costs little.
    fn lengthen(&mut self) {
        let is_short = |base: &Base| {
            let known = match half_width(&base.shown().figures.step_time) {
                Some(half) => half <= PRECISE,
                // Steps that all take the same time have no interval.
                None => base.measured.len() >= ALIKE * base.fewest(),
            };
            base.measured.len() < base.fewest() || !known
        };
        while is_short(self) && self.events() < self.options.least_events() / RUNS {
            let before = self.measured.end;
            self.scenario = self.shaped(self.scenario.clone(), 2 * before + self.fewest());
            let run = |i| self.simulate(&self.scenario, i, Some((self.job, u64::MAX)));
            let all = (0..self.outcomes.len() as u32).into_par_iter().map(run).collect();
            self.take(all);
            if self.measured.end <= before {
                break;
            }
        }
    }

    /// Returns the minimum number of steps to compare: enough for the content of the loaders to be replaced several times.
    fn fewest(&self) -> usize {
        FEWEST.max((TURNS * held(&self.outcomes, self.job) as f64) as usize)
    }

    fn take(&mut self, outcomes: Vec<Outcome>) {
        self.spent += outcomes.iter().map(Outcome::events_of_all_steps).sum::<u64>();
        self.report = summarise(&self.summarised(&self.scenario), &outcomes, 0.0);
        self.outcomes = outcomes;
        self.measure();
    }

    fn measure(&mut self) {
        let steps = steps_of(&self.outcomes, self.job);
        let warm_up = self.shown().warm_up_steps.ceil() as usize;
        self.measured = warm_up.min(steps)..steps;
    }

    /// Reports the part of the verdict's events that are spent.
    pub(crate) fn tell(&self, budget: &Budget) {
        if let Some(told) = self.options.told {
            told(&self.scenario.jobs[self.job].name, budget.share());
        }
    }

    /// Returns the report of the job.
    pub(crate) fn shown(&self) -> &JobReport {
        &self.report.jobs[self.job]
    }

    /// Returns the number of events of the base run.
    pub(crate) fn events(&self) -> u64 {
        self.outcomes.iter().map(Outcome::events_of_all_steps).sum()
    }

    /// Returns the base run with changes of the file before all levers; `None` if the file is refused with them, or if the job
    /// completes no step.
    pub(crate) fn changed(&self, changes: &[Override]) -> Option<Base<'a>> {
        self.anew(self.scenario_with(changes)?, changes, self.is_varied)
    }

    /// Returns the base run with constants that vary by a few per cent; `None` if nothing is constant.
    pub(crate) fn varied(&self) -> Option<Base<'a>> {
        self.anew(varied(&self.scenario)?, &[], true)
    }

    /// Returns a base run of another scenario: as long as this one, unless that takes many events and a shorter run knows the step time.
    fn anew(&self, scenario: Scenario, changes: &[Override], is_varied: bool) -> Option<Base<'a>> {
        let extent = Extent {
            steps: [
                self.steps_with_rare(&RARE),
                self.steps_for(FINE),
                self.steps_in(self.options.least_events() / TRIALS),
            ]
            .into_iter()
            .max()
            .unwrap_or(self.measured.end),
            replications: self.outcomes.len(),
            most_events: u64::MAX,
        };
        let outcomes = self.run(&scenario, extent);
        let mut base = Base {
            scenario,
            outcomes: Vec::new(),
            report: self.report.clone(),
            changes: changes.to_vec(),
            is_varied,
            measured: 0..0,
            spent: 0,
            warm: self.warm.clone(),
            ..*self
        };
        base.take(outcomes);
        base.shown().figures.step_time.mean?;
        (!base.measured.is_empty()).then_some(base)
    }

    /// Returns the scenario with changes, its constants as they are written; `None` if the file is refused with them.
    pub(crate) fn as_written_with(&self, changes: &[Override]) -> Option<Scenario> {
        self.source.with(&[&self.changes, changes].concat())
    }

    /// Returns the scenario with changes, before it is shaped to be compared; `None` if the file is refused with them.
    pub(crate) fn scenario_with(&self, changes: &[Override]) -> Option<Scenario> {
        self.scenario_from(self.source, changes)
    }

    /// Returns the same from another source, such as with another profile.
    pub(crate) fn scenario_from(
        &self,
        source: Source<'_>,
        changes: &[Override],
    ) -> Option<Scenario> {
        let scenario = source.with(&[&self.changes, changes].concat())?;
        match self.is_varied {
            true => Some(varied(&scenario).unwrap_or(scenario)),
            false => Some(scenario),
        }
    }

    /// Simulates a scenario until the job has made the steps of `extent`; further if its loaders hold so much that it would not be
    /// replaced in that time.
    pub(crate) fn run(&self, scenario: &Scenario, extent: Extent) -> Vec<Outcome> {
        let found = self.run_until(scenario, extent);
        let (held, start) = (held(&found, self.job) as f64, self.measured.start);
        let compared = extent.steps.saturating_sub(start) as f64;
        match compared < TURNS / 2.0 * held {
            true => {
                let steps = start + (TURNS * held) as usize;
                self.run_until(scenario, Extent { steps, ..extent })
            }
            false => found,
        }
    }

    fn run_until(&self, scenario: &Scenario, extent: Extent) -> Vec<Outcome> {
        let shaped = self.shaped(scenario.clone(), extent.steps);
        let until = Some((self.job, extent.most_events));
        let one = |i| self.simulate(&shaped, i, until);
        (0..extent.replications as u32).into_par_iter().map(one).collect()
    }

    /// Simulates a replication of a scenario; `until` is the job whose end ends it, and the most events that it takes.
    fn simulate(
        &self,
        scenario: &Scenario,
        replication: u32,
        until: Option<(usize, u64)>,
    ) -> Outcome {
        let options = sim::Options {
            until: until.map(|(job, _)| job),
            epochs_before: &self.warm,
            stop: self.options.stop,
            collectives: self.options.collectives,
            // A change that makes steps endless must not take more than its share, nor a base run more than a tenth of all.
            most_events: Some(match until {
                Some((_, most)) => most.min(MOST_TIMES * self.events_of_one().max(FEWEST_EVENTS)),
                None => self.asked.max(self.options.least_events() / RUNS),
            }),
            largest_sample_only: true,
            ..sim::Options::default()
        };
        let mut outcome = sim::run(scenario, replication, &options);
        if !self.warm.is_empty() {
            // No epoch of the run is a first one, in which caches are cold.
            for copy in &mut outcome.jobs {
                copy.cache.clear();
                copy.tiers.clear();
                copy.decoded.clear();
            }
        }
        outcome
    }

    fn events_of_one(&self) -> u64 {
        self.outcomes
            .iter()
            .map(Outcome::events_of_all_steps)
            .max()
            .unwrap_or(u64::MAX / MOST_TIMES)
    }

    /// Returns a scenario whose job makes `steps` steps, while jobs whose length only `[run]` sets go on.
    fn shaped(&self, scenario: Scenario, steps: usize) -> Scenario {
        let mut shaped = self.endless(scenario);
        shaped.jobs[self.job].stop = Some(Stop::Steps(steps as u64));
        shaped
    }

    /// Returns a scenario whose jobs go on until their results are known, except for those that others wait for. Runs of automatic
    /// length begin with empty queues and empty token buckets: what these hold at the start says nothing of the long run.
    fn endless(&self, mut scenario: Scenario) -> Scenario {
        let written = scenario.run.stop;
        let awaited: Vec<usize> = scenario.jobs.iter().flat_map(|job| job.after.clone()).collect();
        if matches!(written, Stop::Steps(_) | Stop::Epochs(_)) {
            for job in &awaited {
                scenario.jobs[*job].stop.get_or_insert(written);
            }
        }
        if !matches!(written, Stop::Known { .. }) {
            scenario.run.stop = Run::default().stop;
        }
        scenario.run.warm_up = WarmUp::Auto;
        let limits = scenario.storage.iter_mut().filter_map(|of| of.path.limit.as_mut());
        limits.filter(|_| self.is_automatic).for_each(|limit| limit.tokens = 0.0);
        let bursts = scenario.storage.iter_mut().filter_map(|of| of.path.burst.as_mut());
        bursts.filter(|_| self.is_automatic).for_each(|burst| burst.content = 0.0);
        let bursts = scenario.storage.iter_mut().filter_map(|of| of.path.operation_burst.as_mut());
        bursts.filter(|_| self.is_automatic).for_each(|burst| burst.content = 0.0);
        for (index, job) in scenario.jobs.iter_mut().enumerate() {
            if index == self.job || !awaited.contains(&index) {
                job.stop = None;
            }
            if self.is_automatic {
                job.prefill = 0;
            }
        }
        scenario
    }

    /// Returns the scenario by whose rules a run is summarised: a run of automatic length leaves out more.
    pub(crate) fn summarised(&self, scenario: &Scenario) -> Scenario {
        match self.is_automatic {
            true => self.endless(scenario.clone()),
            false => scenario.clone(),
        }
    }

    /// Returns the report of runs that [`Base::run`] made of a scenario.
    pub(crate) fn report_of(&self, scenario: &Scenario, outcomes: &[Outcome]) -> Report {
        let shaped = self.shaped(scenario.clone(), steps_of(outcomes, self.job));
        summarise(&self.summarised(&shaped), outcomes, 0.0)
    }

    /// Returns the number of steps until which stalls with a cause have come several times, or all steps if they come seldom; `None` if
    /// they never come.
    fn steps_with(&self, cause: Cause) -> Option<usize> {
        let copies =
            || self.outcomes.iter().flat_map(|of| &of.jobs).filter(|of| of.job == self.job);
        let comes = copies().any(|copy| copy.stalls.iter().any(|of| of.cause.cause == cause));
        let each: Option<Vec<usize>> =
            copies().map(|copy| steps_until(copy, cause, self.measured.start)).collect();
        let last = each.and_then(|each| each.into_iter().max());
        comes.then(|| last.unwrap_or(self.measured.end).min(self.measured.end))
    }

    /// Returns the number of steps that about so many events make.
    pub(crate) fn steps_of(&self, events: u64) -> usize {
        (events as f64 / self.events_of_one() as f64 * self.measured.end as f64) as usize
    }

    /// Returns the number of steps that about so many events make, and at least as many as can be compared.
    pub(crate) fn steps_in(&self, events: u64) -> usize {
        let Range { start, end } = self.measured;
        self.steps_of(events).clamp((start + self.fewest()).min(end), end)
    }

    /// Returns the number of steps until which stalls with each of these causes have come several times; 0 if none of them comes.
    pub(crate) fn steps_with_rare(&self, causes: &[Cause]) -> usize {
        causes.iter().filter_map(|cause| self.steps_with(*cause)).max().unwrap_or(0)
    }

    /// Returns the number of steps of a trial whose step time should be known to the relative half-width `precision`: as many as the base
    /// run would need, since half-widths fall with the square root of a run's length.
    pub(crate) fn steps_for(&self, precision: f64) -> usize {
        let Range { start, end } = self.measured;
        let Some(half) = half_width(&self.shown().figures.step_time) else {
            return (start + ALIKE * self.fewest()).min(end);
        };
        let needed = (end - start) as f64 * (half / precision).powi(2);
        (start + self.fewest().max(needed.ceil() as usize)).min(end)
    }
}

/// Returns the number of steps of a copy's run until stalls with a cause have come `OFTEN` times after step `from`; `None` if they have not.
fn steps_until(copy: &JobOutcome, cause: Cause, from: usize) -> Option<usize> {
    let stalls = copy.stalls.iter().filter(|of| of.cause.cause == cause);
    let mut steps: Vec<usize> =
        stalls.map(|of| of.step as usize).filter(|step| *step >= from).collect();
    // Steps in a row wait for the same checkpoint or restart.
    steps.dedup_by(|next, last| *next <= *last + 1);
    steps.get(OFTEN).copied()
}

/// Returns the number of epochs that each job has read before runs begin in which caches are warm; empty if no page cache keeps what the
/// job reads, or if filling the caches would take too many events.
fn warm(scenario: &Scenario, job: usize, least_events: u64) -> Vec<f64> {
    let keeps = |job: &Job| scenario.keeps_pages(job, &scenario.cluster.node);
    let units = |job: &Job| {
        let dataset = &scenario.datasets[job.dataset];
        let each = dataset.places() as f64 * dataset.units_per_place() as f64;
        EPOCHS_BEFORE * each * f64::from(job.copies)
    };
    let look_ups: f64 = scenario.jobs.iter().filter(|job| keeps(job)).map(units).sum();
    let each = look_ups / sim::LOOK_UPS_IN_EVENT as f64;
    let is_cheap = each * TRIALS as f64 <= least_events as f64;
    let fails = scenario.jobs.iter().any(|job| job.failures.is_some());
    match keeps(&scenario.jobs[job]) && is_cheap && !fails {
        true => vec![EPOCHS_BEFORE; scenario.jobs.len()],
        false => Vec::new(),
    }
}

/// Returns whether object stores begin a run with tokens for more than a small share of the requests that the job makes in it: a run that
/// spends them is faster than the long run.
fn has_tokens(scenario: &Scenario, outcomes: &[Outcome], job: usize) -> bool {
    let reads = scenario.storage.iter().enumerate();
    let limits = reads.filter(|(index, _)| scenario.uses(&scenario.jobs[job], *index).reads);
    let tokens: f64 = limits.filter_map(|(_, of)| Some(of.path.limit?.tokens)).sum();
    let copies = outcomes[0].jobs.iter().filter(|of| of.job == job);
    tokens > WORTH * copies.map(|of| of.samples.started as f64).sum::<f64>()
}

/// Returns whether storages that the job uses have drawn more than a small share of their bytes or operations from what their token
/// buckets held when the run began: such a run is faster than the long run.
fn has_saved_service(scenario: &Scenario, outcomes: &[Outcome], job: usize) -> bool {
    let uses = |index: usize| {
        let of = scenario.uses(&scenario.jobs[job], index);
        of.reads || of.writes()
    };
    let drawn = |resource: &ResourceOutcome| match (resource.of.owner, resource.burst) {
        (Owner::Storage(index), Some(burst)) => {
            uses(index) && burst.drawn > WORTH * resource.served
        }
        _ => false,
    };
    outcomes.iter().flat_map(|outcome| &outcome.resources).any(drawn)
}

/// Returns the number of steps that all copies of a job have completed in all outcomes.
pub(crate) fn steps_of(outcomes: &[Outcome], job: usize) -> usize {
    let copies = outcomes.iter().flat_map(|of| &of.jobs).filter(|copy| copy.job == job);
    copies.map(|copy| copy.steps.len()).min().unwrap_or(0)
}

/// Returns the half-width of a figure's interval, relative to its mean; `None` if it has none.
fn half_width(figure: &Figure) -> Option<f64> {
    figure.ci95.zip(figure.mean).map(|([low, high], mean)| (high - low) / 2.0 / mean)
}

/// Returns the largest number of batches that the loaders of a copy of a job hold at the end, in workers and buffers.
fn held(outcomes: &[Outcome], job: usize) -> usize {
    let held = |copy: &JobOutcome| {
        let held = copy.samples.started.saturating_sub(copy.samples.dequeued);
        // Most steps of a batch interval take none.
        let taken = copy.steps.iter().map(|step| step.fresh).max().unwrap_or(0).max(1);
        usize::try_from(held.div_ceil(taken)).unwrap_or(usize::MAX)
    };
    let copies = outcomes.iter().flat_map(|of| &of.jobs).filter(|of| of.job == job);
    copies.map(held).max().unwrap_or(0).max(1)
}

/// Returns the number of replications that are compared: one if it alone knows the step time well, and otherwise all.
fn number_of_replications(scenario: &Scenario, outcomes: &[Outcome], job: usize) -> usize {
    let first = summarise(scenario, &outcomes[..1], 0.0);
    let half = half_width(&first.jobs[job].figures.step_time);
    if half.is_some_and(|half| half <= PRECISE) { 1 } else { outcomes.len() }
}

/// Returns the scenario with constant work of loaders that varies; `None` if no loader has any.
///
/// Workers whose work takes exactly the same time march in step: they ask for the same resource at the same instant, for ever. Real times
/// vary, and then workers spread. Where that changes the answer, advice must not rest on the constant times.
fn varied(scenario: &Scenario) -> Option<Scenario> {
    let mut then = scenario.clone();
    let mut any = false;
    for job in &mut then.jobs {
        for stage in &mut job.loader.stages {
            for operation in stage.per_sample.iter_mut().chain(&mut stage.per_item) {
                any |= vary(operation);
            }
        }
    }
    any.then_some(then)
}

/// Makes constant work vary, and returns whether it did.
fn vary(operation: &mut Operation) -> bool {
    let (Operation::Compute(work) | Operation::Delay(work)) = operation else { return false };
    let Distribution::Constant(mean) = *work else { return false };
    if mean <= 0.0 {
        return false;
    }
    *work = Distribution::Gamma { shape: 1.0 / (CV * CV), scale: mean * CV * CV };
    true
}
