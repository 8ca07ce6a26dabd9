//! The base run of a job: the run itself, with which short runs are compared.

mod effect;
mod failing;

use crate::report::{JobOutcome, Outcome, RecoveryOutcome, Report};
use crate::scenario::{Job, Scenario, Stop};
use crate::stats::{mean, mser5, sd, t_interval};
use std::ops::Range;

use super::TELLING;
use super::base_runs::BaseRun;
use super::candidates::Subject;
use super::course::{Course, LongRate, ROUNDS, workers_at_once};
use super::failure_free::FEWEST_FAILURES;
use super::lever::Lever;

pub(super) use effect::Effect;

/// A step of a run with a relaxed limit is estimated to take at most this many times the events of a step of the base run.
const MORE_EVENTS: f64 = 1.4;
/// If a scenario has other jobs, a short run ends after a fixed simulated time: the time in which the base run makes the number
/// of compared steps divided by this factor. So the short run completes all compared steps only if its steps are faster than
/// those of the base run by at least this factor.
const FASTER: f64 = 1.2;
/// Minimum number of steps that are compared.
pub(super) const FEWEST: usize = 3;
/// Number of cycles of workers that are compared, if the budget allows.
const CYCLES: usize = 12;
/// Minimum and maximum of the number of steps that are compared, if the budget allows, to reveal a difference of [`TELL_APART`].
const ENOUGH: [usize; 2] = [30, 240];
/// Target for the half-width of the step time's interval, relative to the step time: as many steps are compared as reach it.
const TELL_APART: f64 = 0.01;
/// Minimum number of batch means (means over successive steps) for an interval of paired differences.
const FEWEST_PAIRS: usize = 4;
/// A short run must be so long that the base run waits in its steps for at least this share of the time for which it waits in as
/// many average steps.
const FEWEST_WAITS: f64 = 0.5;
/// Minimum number of checkpoints in a run that shows what they cost.
pub(super) const FEWEST_CHECKPOINTS: u64 = 2;
/// Number of cycles of workers at the start that never count: buffers fill, and workers are in lockstep.
const FILLING: usize = 2;

/// The base run of a job.
pub(super) struct Reference<'a> {
    pub(super) subject: Subject<'a>,
    base: &'a Outcome,
    course: Course<'a>,
    /// Indices of the steps that count.
    counted: Range<usize>,
    /// The long-run step time that the steps show.
    long: Option<LongRate>,
    /// Interval of the step time [s] and the mean step time, over the steps that count; `None` if these are too few.
    spread: Option<([f64; 2], f64)>,
    /// Number of first steps that a short run must make at least to wait at all. It is large if the waits begin late, such as
    /// with a fault of the storage.
    until_waits: usize,
    /// The base run without failures, if the job fails in this one.
    failure_free: Option<Box<Reference<'a>>>,
    /// The base run in later epochs, if caches make the first epoch differ.
    later_epochs: Option<Box<Reference<'a>>>,
    /// Number of epochs that each job has read before the run begins; empty if none has.
    epochs_before: &'a [f64],
}

impl<'a> Reference<'a> {
    /// Returns the base run of a job; `None` if the job has no step in it.
    pub(super) fn new(subject: Subject<'a>, base: &'a Outcome) -> Option<Reference<'a>> {
        Reference::after(&[], subject, base)
    }

    /// Returns the base run of a job, before which each job has read a number of epochs.
    fn after(
        epochs_before: &'a [f64],
        subject: Subject<'a>,
        base: &'a Outcome,
    ) -> Option<Reference<'a>> {
        let course = Course::new(&subject.scenario.jobs[subject.job], subject.job, base)?;
        let (counted, long, spread, until_waits) = (0..course.steps(), None, None, 0);
        let (failure_free, later_epochs) = (None, None);
        let mut reference = Reference {
            subject,
            base,
            course,
            counted,
            long,
            spread,
            until_waits,
            failure_free,
            later_epochs,
            epochs_before,
        };
        let last = reference.last_that_counts();
        reference.counted.end = last;
        reference.counted.start = reference.first_that_counts();
        let (counted, cycle) = (reference.counted.clone(), reference.course.cycle());
        let course = &reference.course;
        let long = course.long_rate(reference.input_from(), whole(counted.clone(), cycle));
        let batches = course.batches(counted.clone(), cycle);
        let spread = t_interval(&batches).filter(|_| batches.len() >= FEWEST_PAIRS);
        let waits = long.as_ref().is_some_and(|long| 1.0 - long.computing > TELLING);
        let until_waits = match waits {
            true => counted.start + course.steps_until_waits(counted, FEWEST_WAITS),
            false => 0,
        };
        (reference.spread, reference.long) = (spread.zip(mean(&batches)), long);
        Some(Reference { until_waits, ..reference })
    }

    /// Adds the base run without failures, if the job fails in this one.
    pub(super) fn and_failure_free(self, run: Option<&'a BaseRun>) -> Reference<'a> {
        let run = run.filter(|_| self.recovery().failures > 0);
        let failure_free =
            run.and_then(|run| Reference::new(run.subject(self.subject), &run.outcome));
        Reference { failure_free: failure_free.map(Box::new), ..self }
    }

    /// Adds the base run in later epochs, if caches make the first epoch differ. Returns `None` if it has too few steps of the job to
    /// show their time.
    pub(super) fn and_later_epochs(self, run: Option<&'a BaseRun>) -> Option<Reference<'a>> {
        let Some(run) = run else { return Some(self) };
        let later = Reference::of(run, self.subject).filter(|of| of.long.is_some())?;
        Some(Reference { later_epochs: Some(Box::new(later)), ..self })
    }

    /// Returns a base run of the job of `subject` that was simulated for a verdict.
    fn of(run: &'a BaseRun, subject: Subject<'a>) -> Option<Reference<'a>> {
        Reference::after(&run.epochs_before, run.subject(subject), &run.outcome)
    }

    /// Returns whether `run` has enough steps of the job of `subject` to show their time.
    pub(super) fn is_shown_by(run: &BaseRun, subject: Subject) -> bool {
        Reference::of(run, subject).is_some_and(|of| of.long.is_some())
    }

    /// Returns the report of the base run in later epochs, if there is one.
    pub(super) fn in_later_epochs(&self) -> Option<&'a Report> {
        self.later_epochs.as_ref().map(|of| of.subject.report)
    }

    /// Returns the number of epochs that each job has read before the run begins; empty if none has.
    pub(super) fn epochs_before(&self) -> &'a [f64] {
        self.epochs_before
    }

    /// Returns the time in the middle of the later epochs [s]; `None` if the run has none, or if caches do not make the first epoch differ.
    pub(super) fn middle_of_later_epochs(&self) -> Option<f64> {
        let Range { start, end } = self.counted;
        self.outlasts_first_epoch().then(|| self.course.time_of(start.midpoint(end)))
    }

    /// Returns the base run that short runs with these levers relaxed are compared with: the one without failures, or the one in later
    /// epochs. The run itself if the levers are against failures, or against waits for checkpoints and the job fails often, or the run
    /// in later epochs has too few checkpoints.
    ///
    /// Failures come at random, so a short run has more or fewer of them than as many average steps.
    pub(super) fn for_levers(&self, levers: &[Lever]) -> &Reference<'a> {
        let often = self.recovery().failures >= FEWEST_FAILURES;
        let shows = |lever: &Lever| lever.is_of_failures() || often && lever.is_of_checkpoints();
        match (&self.failure_free, &self.later_epochs) {
            (Some(free), _) if !levers.iter().any(shows) => free,
            (None, Some(later)) if later.shows_waits_of(levers) => later,
            (Some(_) | None, _) => self,
        }
    }

    /// Returns whether the base run shows what the levers save. For levers that shorten waits for checkpoints it needs a few checkpoints.
    fn shows_waits_of(&self, levers: &[Lever]) -> bool {
        let few = self.recovery().checkpoints < FEWEST_CHECKPOINTS;
        !(few && levers.iter().any(|lever| lever.is_of_checkpoints()))
    }

    /// Returns the long-run step time that the base run shows, or the one in later epochs if it is too short to show any.
    pub(super) fn long_rate(&self) -> Option<LongRate> {
        let later = || self.later_epochs.as_ref()?.long.clone();
        self.long.clone().or_else(later)
    }

    /// Returns the index of the first step that counts. From this step on, caches are warm, buffers are filled, and step times
    /// are stationary.
    fn first_that_counts(&self) -> usize {
        let (last, cycle) = (self.counted.end, self.course.cycle());
        if self.outlasts_first_epoch() {
            let samples = self.subject.scenario.samples_of_epoch(self.described());
            let first = self.course.first_epoch(samples);
            return first + (FILLING * cycle).min((last - first) / 4);
        }
        let level = mser5(&self.course.step_times(0..last)).values;
        let most = (last / 10).min((4 * cycle).max(ENOUGH[1]));
        cycle.max(most.min((FILLING * cycle).max(level))).max(1).min(last / 2)
    }

    /// Returns the index of the first step from which the rate of filling buffers is measured.
    fn input_from(&self) -> usize {
        if self.outlasts_first_epoch() { self.counted.start } else { 0 }
    }

    /// Returns whether the run goes on after a first epoch that differs from later ones because caches are cold.
    pub(super) fn outlasts_first_epoch(&self) -> bool {
        let samples = self.subject.scenario.samples_of_epoch(self.described());
        let later = self.course.first_epoch(samples) + FEWEST <= self.counted.end;
        self.epochs_before.is_empty() && self.subject.keeps() && later
    }

    /// Returns the end (exclusive) of the range of steps that count.
    fn last_that_counts(&self) -> usize {
        let (steps, input) =
            (self.together().unwrap_or(self.course.steps()), self.course.end_of_input());
        match self.stop_of_job() {
            Stop::Epochs(_) if input * 2 >= steps => input,
            Stop::Duration(_) | Stop::Known { .. } | Stop::Steps(_) | Stop::Epochs(_) => steps,
        }
    }

    /// Returns the number of steps that end before another job ends, which leaves the cluster to the rest. `None` if no other job
    /// ends earlier, or if these are not at least half of the steps.
    pub(super) fn together(&self) -> Option<usize> {
        let others = self.base.jobs.iter().filter(|copy| copy.job != self.subject.job);
        let ends = others.filter_map(|copy| Some(copy.steps.last()?.end));
        let steps = self.course.steps_by(ends.fold(f64::INFINITY, f64::min));
        let all = self.course.steps();
        (steps + FEWEST < all && steps * 2 >= all).then_some(steps)
    }

    fn stop_of_job(&self) -> Stop {
        self.subject.scenario.stop_of(self.described())
    }

    fn described(&self) -> &'a Job {
        &self.subject.scenario.jobs[self.subject.job]
    }

    /// Returns the length of a cycle [steps] with the workers of the scenario `then`: from one item of a worker to its next.
    pub(super) fn cycle_of(&self, then: &Scenario) -> usize {
        let job = self.subject.job;
        let workers = |scenario: &Scenario| workers_at_once(&scenario.jobs[job]).max(1) as usize;
        let (now, cycle) = (workers(self.subject.scenario), self.course.cycle_if_faster());
        (cycle * workers(then)).div_ceil(now).max(cycle)
    }

    /// Returns the run itself.
    pub(super) fn base(&self) -> &'a Outcome {
        self.base
    }

    /// Returns how long the job should run alone to show what each sample loads [s], and the minimum number of steps. In this
    /// time, the base run has made at least as many steps. If caches make epochs differ, the time is inside the first epoch.
    pub(super) fn time_alone(&self) -> (f64, usize) {
        let cycle = self.course.cycle();
        let last = if self.outlasts_first_epoch() { self.counted.start } else { self.counted.end };
        let least = (FILLING + ROUNDS) * cycle.max(FEWEST);
        let enough = FILLING * cycle + ENOUGH[0].max(CYCLES * cycle);
        let steps = enough.max(least).min(last);
        (self.course.time_of(steps) - self.described().start, least.min(last))
    }

    /// Returns the number of steps in which `number` failures (or checkpoints) are expected, if the base run has `of` of them in
    /// all; at most all steps of the base run.
    pub(super) fn steps_with(&self, number: u64, of: u64) -> usize {
        let last = self.counted.end;
        let steps = (self.course.steps() as f64 * (number as f64 + 0.5) / of.max(1) as f64).ceil();
        (steps as usize).min(last)
    }

    /// Returns the failures and checkpoints of all copies of the job in the base run.
    pub(super) fn recovery(&self) -> RecoveryOutcome {
        recovery_of(self.base, self.subject.job)
    }

    /// Estimates the number of events of a short run that compares `steps` steps: the events that the base run took for the same
    /// simulated time. Events are not proportional to time: caches or buffers fill, storage may be slow for a while, and some
    /// jobs end before others.
    pub(super) fn events(&self, steps: usize) -> f64 {
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

    /// Returns the number of steps of an affordable short run, with cycles of `cycle` steps; `None` if even the minimum number of
    /// steps takes more than `most_events`.
    pub(super) fn affordable(
        &self,
        most_events: u64,
        cycle: usize,
        rare: Option<usize>,
    ) -> Option<usize> {
        let (first, last) = (self.counted.start, self.counted.end);
        let enough = first + (CYCLES * cycle).max(self.telling());
        let wanted = if rare.is_some() { last } else { last.min(enough.max(self.until_waits)) };
        let least = self.fewest(cycle).max(rare.unwrap_or(0));
        // Binary search is possible, because longer runs take more events.
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

    /// Returns the minimum number of steps of a short run with cycles of `cycle` steps.
    pub(super) fn fewest(&self, cycle: usize) -> usize {
        let rounds = self.input_from() + ROUNDS * cycle + 1;
        (self.counted.start + cycle.max(FEWEST))
            .max(rounds)
            .max(self.until_waits)
            .min(self.counted.end)
    }

    /// Returns the number of steps that reveals a difference of [`TELL_APART`], from the variation of the base run's steps.
    fn telling(&self) -> usize {
        let Some(([low, high], step)) = self.spread else { return ENOUGH[1] };
        // Half-widths are inversely proportional to the root of the number of steps.
        let times = ((high - low) / 2.0 / step / TELL_APART).powi(2);
        ((self.counted.len() as f64 * times) as usize).clamp(ENOUGH[0], ENOUGH[1])
    }

    /// Returns the length [steps of the base run] of a short run that compares `steps` steps.
    fn length(&self, steps: usize) -> usize {
        let by_steps = self.is_alone() || self.failure_free.is_some();
        let steps = if by_steps { steps } else { (steps as f64 / FASTER).ceil() as usize };
        steps.max(self.fewest(self.course.cycle())).max(1)
    }

    /// Returns whether this is the only job. Other jobs would have to go on until it ends.
    fn is_alone(&self) -> bool {
        self.subject.scenario.jobs.len() == 1
    }

    /// Returns the scenario cut to `steps` steps. With other jobs, or with failures, the scenario is cut to the time that the base run
    /// took for these steps.
    pub(super) fn shortened(&self, then: &Scenario, steps: usize) -> Scenario {
        let mut short = then.clone();
        // If a job starts when others have ended, all jobs keep their length.
        if short.jobs.iter().all(|job| job.after.is_empty()) {
            let length = self.length(steps);
            let by_time = Stop::Duration(self.course.time_of(length));
            let by_steps = self.is_alone() && self.failure_free.is_none();
            short.run.stop = if by_steps { Stop::Steps(length as u64) } else { by_time };
            for (index, job) in short.jobs.iter_mut().enumerate() {
                // Other jobs keep their own ends. The examined job loses its end, so that it does not run out of input.
                job.stop = (index != self.subject.job).then(|| then.stop_of(job));
            }
        }
        short
    }

    /// Returns twice the standard deviation of the mean of `steps` successive steps [s], from the means of as many steps in the base run.
    /// If that has too few of them, fewer steps are taken, in whole cycles, and their deviation is taken to fall with the root of their
    /// number; 0 if there are too few of these, too.
    fn deviation_of(&self, steps: usize) -> f64 {
        let times = self.course.step_times(self.counted.clone());
        let cycle = self.course.cycle().max(1);
        let each = steps.min(times.len() / FEWEST_PAIRS) / cycle * cycle;
        if each == 0 {
            return 0.0;
        }
        let means: Vec<f64> = times.chunks_exact(each).filter_map(mean).collect();
        let fewer = (each as f64 / steps.max(1) as f64).sqrt();
        sd(&means).map_or(0.0, |sd| 2.0 * sd * fewer)
    }

    /// Returns the half-width of the interval of the base run's step time [s]; 0 if the run is too short for an interval.
    fn half_width(&self) -> f64 {
        self.spread.map_or(0.0, |([low, high], _)| (high - low) / 2.0)
    }
}

/// Returns the failures and checkpoints of all copies of a job in a run.
pub(super) fn recovery_of(outcome: &Outcome, job: usize) -> RecoveryOutcome {
    let copies = outcome.jobs.iter().filter(|copy| copy.job == job);
    copies.filter_map(|copy| copy.recovery).fold(RecoveryOutcome::default(), |sum, of| {
        RecoveryOutcome {
            failures: sum.failures + of.failures,
            checkpoints: sum.checkpoints + of.checkpoints,
            lost_seconds: sum.lost_seconds + of.lost_seconds,
            down_seconds: sum.down_seconds + of.down_seconds,
            ..sum
        }
    })
}

/// Returns the last part of a range that consists of whole cycles; the whole range if it is shorter than a cycle.
fn whole(stretch: Range<usize>, cycle: usize) -> Range<usize> {
    let cycles = stretch.len() / cycle.max(1);
    if cycles == 0 { stretch } else { stretch.end - cycles * cycle..stretch.end }
}
