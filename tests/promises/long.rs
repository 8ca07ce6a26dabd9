//! Long runs: what a job does in the long run, found without the verdict.

use forebay::report::{JobOutcome, Outcome};
use forebay::scenario::{Distribution, Operation, Scenario, Stop};
use forebay::sim;
use forebay::stats::{mean, t_interval};
use std::ops::Range;

/// Number of stretches of a run whose mean step times give the interval.
const STRETCHES: usize = 10;
/// Share of a run's steps that is left out as warm-up, at least.
const WARM_UP: f64 = 0.2;
/// Number of times that a run must replace what the loaders hold.
const TURNS: f64 = 10.0;
/// Part of the samples by which those read and those trained on may differ in a run that shows the long run.
const IN_BALANCE: f64 = 0.01;
/// Number of epochs until caches hold what they hold in the long run.
const COLD_EPOCHS: u64 = 2;
/// Fewest steps of a run.
const FEWEST_STEPS: usize = 60;
/// Most runs, each with random numbers of its own.
const MOST_RUNS: u32 = 40;
/// Coefficient of variation of constants, where a verdict says that they vary.
const CV: f64 = 0.05;

/// How long a run should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim {
    /// Steps of each run.
    pub(crate) steps: usize,
    /// Fewest runs.
    pub(crate) runs: u32,
    /// Relative half-width of the step time at which runs are enough.
    pub(crate) half: f64,
    /// Events of all runs together, after which no other begins.
    pub(crate) events: u64,
}

/// What a job does in the long run.
#[derive(Debug, Clone)]
pub(crate) struct Long {
    /// Mean step time [s].
    pub(crate) step: f64,
    /// Half-width of its 95 % interval [s].
    pub(crate) half: f64,
    /// Share of the time that the job waits for input, and its half-width.
    pub(crate) waits: f64,
    pub(crate) waits_half: f64,
    pub(crate) events: u64,
    /// Mean step times of the stretches [s].
    stretches: Vec<f64>,
}

impl Long {
    /// Returns the share of the step time that `then` saves, and the half-width of its interval, taken from the same stretches if both have
    /// the same number.
    pub(crate) fn gain(&self, then: &Long) -> (f64, f64) {
        let gain = 1.0 - then.step / self.step;
        let apart = (self.half.powi(2) + then.half.powi(2)).sqrt() / self.step;
        if self.stretches.len() != then.stretches.len() {
            return (gain, apart);
        }
        let saved: Vec<f64> =
            self.stretches.iter().zip(&then.stretches).map(|(a, b)| a - b).collect();
        (gain, (half_width(&saved) / self.step).min(apart))
    }
}

/// A job of a scenario in runs of any length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) job: usize,
    /// Seed of the random numbers.
    pub(crate) seed: u64,
    /// Whether constants vary by a few per cent.
    pub(crate) varied: bool,
    /// Number of steps that the job makes, and of those left out as warm-up, if something comes to an end, so that longer runs are another
    /// system.
    pub(crate) fixed: Option<(usize, usize)>,
}

/// Returns what a job does in the long run; `None` if it makes too few steps.
pub(crate) fn long(scenario: &Scenario, of: Question, aim: Aim) -> Option<Long> {
    let mut scenario = if of.varied { varied(scenario) } else { scenario.clone() };
    let mut steps = of.fixed.map_or(aim.steps.max(FEWEST_STEPS), |(steps, _)| steps);
    scenario.run.seed = of.seed;
    let mut seen = Seen::default();
    for run in 0..MOST_RUNS {
        last(&mut scenario, of.job, steps);
        let most = aim.events.saturating_sub(seen.events).max(aim.events / 8);
        let options = sim::Options {
            until: Some(of.job),
            most_events: Some(most),
            ..sim::Options::default()
        };
        let mut outcome = sim::run(&scenario, run, &options);
        seen.events += outcome.events;
        while of.fixed.is_none() && !is_settled(&outcome, of.job) && outcome.events < most / 3 {
            steps *= 3;
            last(&mut scenario, of.job, steps);
            outcome = sim::run(&scenario, run, &options);
            seen.events += outcome.events;
        }
        seen.add(&outcome, &scenario, of);
        let relative = seen.long().map(|long| long.half / long.step);
        let enough = relative.is_none_or(|half| half <= aim.half);
        if seen.events >= aim.events || (run + 1 >= aim.runs && enough) {
            break;
        }
    }
    seen.long()
}

/// Returns whether the loaders of a job are in balance after the warm-up: they replace what they hold many times, and as much comes in as
/// goes out.
fn is_settled(outcome: &Outcome, job: usize) -> bool {
    outcome.jobs.iter().filter(|copy| copy.job == job).all(|copy| {
        let held = copy.samples.started.saturating_sub(copy.samples.dequeued) as f64;
        let from = (copy.steps.len() as f64 * WARM_UP) as usize;
        let [Some(first), Some(last)] = [copy.steps.get(from), copy.steps.last()] else {
            return true;
        };
        let [read, taken] = [
            last.queue.enqueued - first.queue.enqueued,
            last.queue.dequeued - first.queue.dequeued,
        ];
        let [read, taken] = [read, taken].map(|count| count as f64);
        taken >= TURNS * held && (read - taken).abs() <= IN_BALANCE * taken
    })
}

/// What runs have shown so far.
#[derive(Debug, Default)]
struct Seen {
    steps: Vec<f64>,
    waits: Vec<f64>,
    events: u64,
}

impl Seen {
    fn add(&mut self, outcome: &Outcome, scenario: &Scenario, of: Question) {
        let copies: Vec<&JobOutcome> =
            outcome.jobs.iter().filter(|copy| copy.job == of.job).collect();
        let done = copies.iter().map(|copy| copy.steps.len()).min().unwrap_or(0);
        let from = copies.iter().map(|copy| warm_up(copy, scenario, of)).max().unwrap_or(0);
        let length = done.saturating_sub(from) / STRETCHES;
        for stretch in 0..STRETCHES {
            let begin = done.saturating_sub((STRETCHES - stretch) * length);
            let range = begin..begin + length;
            let each = |of: fn(&JobOutcome, &Range<usize>) -> f64| {
                copies.iter().map(|copy| of(copy, &range)).collect::<Vec<f64>>()
            };
            if length > 0 && begin > 0 {
                self.steps.extend(mean(&each(step_time)));
                self.waits.extend(mean(&each(waits)));
            }
        }
    }

    fn long(&self) -> Option<Long> {
        let step = mean(&self.steps)?;
        let waits = mean(&self.waits)?;
        let [half, waits_half] = [&self.steps, &self.waits].map(|values| half_width(values));
        let (stretches, events) = (self.steps.clone(), self.events);
        Some(Long { step, half, waits, waits_half, events, stretches })
    }
}

/// Returns the half-width of the mean of values of consecutive stretches, wider if neighbours are alike.
fn half_width(values: &[f64]) -> f64 {
    let Some([low, high]) = t_interval(values) else { return f64::INFINITY };
    let middle = (low + high) / 2.0;
    let from: Vec<f64> = values.iter().map(|value| value - middle).collect();
    let squares: f64 = from.iter().map(|of| of * of).sum();
    let products: f64 = from.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let alike = if squares > 0.0 { (products / squares).clamp(0.0, 0.8) } else { 0.0 };
    (high - low) / 2.0 * ((1.0 + alike) / (1.0 - alike)).sqrt()
}

/// Returns the number of steps that a copy makes until it does what it does in the long run; at most half of its steps.
fn warm_up(copy: &JobOutcome, scenario: &Scenario, of: Question) -> usize {
    let all = copy.steps.len();
    if let Some((_, left_out)) = of.fixed {
        return left_out.clamp(1, all.max(2) - 1);
    }
    let first = (all as f64 * WARM_UP).ceil() as usize;
    let caches = [copy.cache.len(), copy.tiers.len(), copy.decoded.len()].iter().any(|&of| of > 0);
    let cold =
        if caches { COLD_EPOCHS * scenario.samples_of_epoch(&scenario.jobs[of.job]) } else { 0 };
    let mut fresh = 0;
    let warm = copy.steps.iter().position(|step| {
        fresh += step.fresh;
        fresh > cold
    });
    first.max(warm.unwrap_or(all)).min(all / 2).max(1)
}

fn step_time(copy: &JobOutcome, range: &Range<usize>) -> f64 {
    elapsed(copy, range) / range.len() as f64
}

fn elapsed(copy: &JobOutcome, range: &Range<usize>) -> f64 {
    copy.steps[range.end - 1].end - copy.steps[range.start - 1].end
}

/// Returns the share of time that a copy waits for input.
fn waits(copy: &JobOutcome, range: &Range<usize>) -> f64 {
    let counts = |step: u32| range.contains(&(step as usize));
    let input = copy.stalls.iter().filter(|of| counts(of.step) && of.cause.cause.is_input());
    input.map(|of| of.seconds).sum::<f64>() / elapsed(copy, range)
}

/// Makes a job end after `steps` steps, and jobs whose length only `[run]` sets go on as long, unless other jobs wait for their end.
fn last(scenario: &mut Scenario, job: usize, steps: usize) {
    let written = scenario.run.stop;
    let awaited: Vec<usize> = scenario.jobs.iter().flat_map(|job| job.after.clone()).collect();
    if !matches!(written, Stop::Known { .. }) {
        for index in awaited {
            scenario.jobs[index].stop.get_or_insert(written);
        }
    }
    scenario.run.stop = Stop::Known { precision: 1e-5, most: u64::MAX };
    scenario.jobs[job].stop = Some(Stop::Steps(steps as u64));
}

/// Returns the scenario with constant work of loaders that varies by 5 %, as the verdict says it.
fn varied(scenario: &Scenario) -> Scenario {
    let mut then = scenario.clone();
    let stages = then.jobs.iter_mut().flat_map(|job| &mut job.loader.stages);
    for operation in stages.flat_map(|of| of.per_sample.iter_mut().chain(&mut of.per_item)) {
        if let Operation::Compute(work) | Operation::Delay(work) = operation
            && let Distribution::Constant(mean) = *work
            && mean > 0.0
        {
            *work = Distribution::Gamma { shape: 1.0 / (CV * CV), scale: mean * CV * CV };
        }
    }
    then
}
