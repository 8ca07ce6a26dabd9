//! Answers of a scenario over what publications reached.

use super::nominal::{Nominal, changes, nominal};
use super::reached::Reached;
use super::words;
use crate::random::{Permutation, Purpose, Streams};
use crate::report::{self, Outcome, Report, RestsOn};
use crate::scenario::{Override, Scenario, Stop, WarmUp};
use crate::sim;
use crate::verdict::Source;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Number of draws. Their extremes hold 18 of 20 further draws, and so 90 % of what publications would give.
pub const DRAWS: usize = 19;

/// Relative change of the step time below which an answer does not rest on nominal numbers.
const MOVED: f64 = 0.2;

/// A draw may take this many times the events of the run.
const MOST_TIMES: u64 = 2;

/// Parts of the measured steps that a draw may make in place of all of them, if they show the step time of the whole run.
const PARTS: [usize; 3] = [8, 4, 2];

/// Largest relative difference between the step time in a part of the run and in the whole run.
const ALIKE: f64 = 0.02;

/// Fewest measured steps of a draw that is shorter than the run.
const FEWEST_STEPS: usize = 10;

/// Owner of the random order of a number's values; laws of profiles have smaller ones.
const OWNER: u64 = 1 << 32;

/// A run, and the job that the answer is about.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The file that `scenario` was resolved from.
    pub source: Source<'a>,
    /// The scenario with its nominal numbers.
    pub scenario: &'a Scenario,
    /// The first replication.
    pub outcome: &'a Outcome,
    /// Index of the job.
    pub job: usize,
    /// Options of simulations.
    pub options: &'a sim::Options<'a>,
}

/// How fast a job is, and what most of its time goes into.
#[derive(Debug, Clone)]
struct Answer {
    /// Step time [s].
    step: f64,
    limit: String,
    report: Report,
}

/// Steps of the run that draws repeat.
#[derive(Debug, Clone, Copy)]
struct Part {
    steps: usize,
    warm_up: usize,
}

/// The answers over what publications reached.
#[derive(Debug, Clone)]
pub struct Draws {
    /// Name of the job.
    job: String,
    numbers: Vec<Nominal>,
    orders: Vec<[usize; DRAWS]>,
    /// The answer with the nominal numbers, over the steps of the draws.
    base: Answer,
    answers: Vec<Answer>,
}

impl<'a> Question<'a> {
    /// Returns the answer that an outcome of `scenario` gives; `None` if the job has completed no step.
    fn answer(&self, scenario: &Scenario, outcome: Outcome) -> Option<Answer> {
        let mut report = report::summarise(scenario, &[outcome], 0.0);
        report::choose_job(&mut report, scenario, self.job);
        let figures = &report.jobs.get(self.job)?.figures;
        let step = figures.step_time.mean?;
        let busy = figures.accelerator_utilisation.mean.unwrap_or(0.0);
        let limit = words::limit(report.bottleneck.as_ref()?, busy);
        Some(Answer { step, limit, report })
    }

    /// Returns the answer of the run, and the part of it that draws repeat: the shortest one that shows the same step time and the same
    /// limit. `None` for the whole run.
    fn base(&self) -> Option<(Answer, Option<Part>)> {
        let whole = self.answer(self.scenario, self.outcome.clone())?;
        let shown = &whole.report.jobs[self.job];
        let copies = self.outcome.jobs.iter().filter(|of| of.job == self.job);
        let steps = copies.map(|of| of.steps.len()).min().unwrap_or(0);
        let warm_up = shown.warm_up_steps.ceil() as usize;
        let measured = steps.saturating_sub(warm_up);
        let parts = PARTS.iter().map(|part| measured / part).filter(|of| *of >= FEWEST_STEPS);
        let part = parts.map(|of| Part { steps: warm_up + of, warm_up }).find_map(|part| {
            let outcome = self.first_steps(part.steps);
            let found = self.answer(&self.shaped(self.scenario, part), outcome)?;
            let is_alike = (found.step / whole.step - 1.0).abs() <= ALIKE;
            (is_alike && found.limit == whole.limit).then_some((found, Some(part)))
        });
        // A slower draw would make fewer steps in the same time.
        let all = matches!(self.scenario.run.stop, Stop::Duration(_));
        let all = all.then_some(Part { steps, warm_up });
        Some(part.unwrap_or((whole, all)))
    }

    /// Returns what the run had completed when the job had made this many steps: what a run of so many steps would have done.
    fn first_steps(&self, steps: usize) -> Outcome {
        let mut outcome = self.outcome.clone();
        let copies = outcome.jobs.iter().filter(|of| of.job == self.job);
        let end = copies.filter_map(|of| Some(of.steps.get(steps - 1)?.end)).fold(0.0, f64::max);
        for copy in &mut outcome.jobs {
            let made = copy.steps.iter().take_while(|step| step.end <= end).count();
            let made = if copy.job == self.job { steps } else { made };
            copy.steps.truncate(made);
            copy.stalls.retain(|stall| (stall.step as usize) < made);
        }
        outcome
    }

    /// Returns a scenario in which the job makes the steps of a part of the run.
    fn shaped(&self, scenario: &Scenario, part: Part) -> Scenario {
        let mut shaped = scenario.clone();
        shaped.jobs[self.job].stop = Some(Stop::Steps(part.steps as u64));
        shaped.run.warm_up = WarmUp::Steps(part.warm_up as u64);
        if matches!(shaped.run.stop, Stop::Duration(_)) {
            shaped.run.stop = Stop::Steps(part.steps as u64);
        }
        shaped
    }

    /// Returns the answer if these amounts are reached: the same random numbers, one replication.
    fn over(&self, drawn: &[(&Nominal, f64)], part: Option<Part>) -> Option<Answer> {
        let Source { file, overrides, reading } = self.source;
        let scenario = file.resolve_as(&[overrides, &changes(drawn)].concat(), reading).ok()?;
        let scenario = part.map_or_else(|| scenario.clone(), |part| self.shaped(&scenario, part));
        let most_events = Some(MOST_TIMES.saturating_mul(self.outcome.events));
        let until = part.map(|_| self.job);
        let options =
            sim::Options { trace: false, progress: None, most_events, until, ..*self.options };
        let outcome = sim::run(&scenario, 0, &options).whole().ok()?;
        self.answer(&scenario, outcome)
    }

    fn numbers(&self) -> Vec<Nominal> {
        nominal(self.source, self.scenario)
    }
}

/// Returns the answers over what publications reached; `None` if the scenario has no number with a range, or if the answer does not
/// depend on these: at the slow end of what 90 % of publications reached, and at the fast end if they may have reached more than the scenario
/// has, the limit is the same and the step time changes by at most 20 %. It simulates the run or a part of it at most 20 times, 21 times if
/// only the fast end differs.
#[must_use]
pub fn draws(question: Question<'_>) -> Option<Draws> {
    let numbers = question.numbers();
    if numbers.is_empty() {
        return None;
    }
    let (base, part) = question.base()?;
    let ends = if numbers.iter().any(Nominal::may_be_exceeded) { 2 } else { 1 };
    let differs = |of: &Answer| moves(of.step, base.step) || of.limit != base.limit;
    let mut known = Vec::new();
    for place in [0, DRAWS - 1].into_iter().take(ends) {
        let all: Vec<_> =
            numbers.iter().map(|number| (number, quantile(number.range, place))).collect();
        let answer = question.over(&all, part)?;
        let is_another = differs(&answer);
        known.push((all, answer));
        if is_another {
            break;
        }
    }
    if !known.iter().any(|(_, answer)| differs(answer)) {
        return None;
    }
    let orders = orders(question.scenario.run.seed, numbers.len());
    let one = |draw: usize| {
        let drawn = of_draw(&numbers, question.scenario.run.seed, draw);
        // With one number, the ends are draws.
        let same = known.iter().find(|(of, _)| *of == drawn);
        same.map_or_else(|| question.over(&drawn, part), |(_, answer)| Some(answer.clone()))
    };
    let answers = (0..DRAWS).into_par_iter().map(one).collect::<Option<Vec<Answer>>>()?;
    let job = question.scenario.jobs[question.job].name.clone();
    Some(Draws { job, numbers, orders, base, answers })
}

impl Draws {
    /// Returns the reports of the draws.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.answers.iter().map(|answer| &answer.report)
    }

    /// Returns the ends of the step times [s].
    #[must_use]
    pub fn step_time90(&self) -> [f64; 2] {
        ends(self.answers.iter().map(|answer| answer.step))
    }

    /// Returns what the answer rests on; `None` if most draws name the same limit and none moves the step by over 20 %.
    #[must_use]
    pub fn rests_on(&self) -> Option<RestsOn> {
        let (limit_of_draws, draws_with_limit) = most_frequent(&self.answers)?;
        let step_time90 = self.step_time90();
        let is_another = limit_of_draws != self.base.limit && 2 * draws_with_limit > DRAWS;
        if !is_another && !step_time90.iter().any(|step| moves(*step, self.base.step)) {
            return None;
        }
        let steps: Vec<f64> = self.answers.iter().map(|answer| answer.step).collect();
        let number = &self.numbers[responsible(&self.orders, &steps)];
        let mut found = RestsOn {
            job: self.job.clone(),
            key: number.key.clone(),
            value: number.value.clone(),
            range: number.range.name.clone(),
            sources: number.range.sources.len(),
            reached90: number.range.interval90(),
            draws: DRAWS,
            step_time: self.base.step,
            step_time90,
            limit: self.base.limit.clone(),
            limit_of_draws,
            draws_with_limit,
            measure: number.range.measure.clone(),
            text: String::new(),
        };
        found.text = words::sentence(number, &found);
        Some(found)
    }
}

/// Returns the changes of the file that draw number `draw` makes, below [`DRAWS`].
#[must_use]
pub fn changes_of_draw(source: Source<'_>, scenario: &Scenario, draw: usize) -> Vec<Override> {
    let numbers = nominal(source, scenario);
    changes(&of_draw(&numbers, scenario.run.seed, draw))
}

/// Returns what is reached in draw number `draw` of numbers with these ranges, below [`DRAWS`].
#[must_use]
pub fn reached_in_draw(ranges: &[&Reached], seed: u64, draw: usize) -> Vec<f64> {
    let orders = orders(seed, ranges.len());
    ranges.iter().zip(orders).map(|(range, order)| quantile(range, order[draw])).collect()
}

/// Returns the numbers with what is reached of them in a draw.
fn of_draw(numbers: &[Nominal], seed: u64, draw: usize) -> Vec<(&Nominal, f64)> {
    let ranges: Vec<&Reached> = numbers.iter().map(|number| number.range).collect();
    numbers.iter().zip(reached_in_draw(&ranges, seed, draw)).collect()
}

/// Returns the smallest and the largest of some values.
pub fn ends(values: impl Iterator<Item = f64> + Clone) -> [f64; 2] {
    [values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max)]
}

/// Returns whether a step time differs by more than a fifth from another.
fn moves(step: f64, from: f64) -> bool {
    (step / from - 1.0).abs() > MOVED
}

/// Returns what is reached at place `place` among the values of the draws, from the smallest: twentieths of the distribution.
fn quantile(range: &Reached, place: usize) -> f64 {
    range.quantile((place + 1) as f64 / (DRAWS + 1) as f64)
}

/// Returns for each number the places of its values in the draws: each value occurs once, and the numbers' orders are independent
/// (Latin hypercube sampling; McKay, Beckman and Conover, 1979).
fn orders(seed: u64, numbers: usize) -> Vec<[usize; DRAWS]> {
    let streams = Streams::new(seed, 0);
    let order = |number: usize| {
        let generator = streams.at(Purpose::Parameters, OWNER + number as u64, 0, 0);
        let places = Permutation::new(generator, DRAWS as u64);
        std::array::from_fn(|draw| match number {
            0 => draw,
            _ => places.at(draw as u64) as usize,
        })
    };
    (0..numbers).map(order).collect()
}

/// Returns the limit of most draws, and the number of these; of equally frequent ones, the first by name.
fn most_frequent(answers: &[Answer]) -> Option<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    answers.iter().for_each(|answer| *counts.entry(&answer.limit).or_default() += 1);
    let (limit, count) = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
    Some((limit.to_owned(), count))
}

/// Returns the index of the number whose values the step times follow most closely: by the correlation of ranks.
fn responsible(orders: &[[usize; DRAWS]], steps: &[f64]) -> usize {
    let below = |step: f64| steps.iter().filter(|other| **other < step).count() as f64;
    let equal = |step: f64| steps.iter().filter(|other| **other == step).count() as f64;
    let middle = (DRAWS - 1) as f64 / 2.0;
    let ranks: Vec<f64> =
        steps.iter().map(|step| below(*step) + (equal(*step) - 1.0) / 2.0 - middle).collect();
    let follows = |order: &[usize; DRAWS]| {
        let sum: f64 =
            order.iter().zip(&ranks).map(|(at, rank)| (*at as f64 - middle) * rank).sum();
        sum.abs()
    };
    let all = orders.iter().map(follows).enumerate();
    all.rev().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(index, _)| index)
}

/// What a job's step takes over the range of one number, the others being as the scenario has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The number.
    pub number: Nominal,
    /// Step time at the 5 % and the 95 % quantile [s].
    pub steps: [f64; 2],
}

impl Effect {
    /// Returns the ratio of the longer to the shorter step time.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let [a, b] = self.steps;
        a.max(b) / a.min(b)
    }
}

/// Returns what the step of a job takes over the range of each number that has one, those that matter most first; empty if the job
/// completes no step.
#[must_use]
pub fn effects(question: Question<'_>) -> Vec<Effect> {
    let Some((_, part)) = question.base() else { return Vec::new() };
    let one = |number: Nominal| {
        let at = |place: usize| question.over(&[(&number, quantile(number.range, place))], part);
        let (low, high) = (at(0)?, at(DRAWS - 1)?);
        Some(Effect { steps: [low.step, high.step], number })
    };
    let mut all: Vec<Effect> = question.numbers().into_par_iter().filter_map(one).collect();
    all.sort_by(|a, b| b.spread().total_cmp(&a.spread()));
    all
}
