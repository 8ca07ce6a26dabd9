//! Answers of a scenario over what publications reached.

use super::nominal::{Nominal, nominal, with};
use super::words;
use crate::random::{Permutation, Purpose, Streams};
use crate::report::{self, Outcome, RestsOn};
use crate::scenario::Scenario;
use crate::sim;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Number of draws. Their extremes hold 18 of 20 further draws, and so 90 % of what publications would give.
pub const DRAWS: usize = 19;

/// Relative change of the step time below which an answer does not rest on nominal numbers.
const MOVES: f64 = 0.2;

/// A draw may take this many times the events of the run.
const MOST_TIMES: u64 = 2;

/// Owner of the random order of a number's values; laws of profiles have smaller ones.
const OWNER: u64 = 1 << 32;

/// A run, and the job that the answer is about.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The scenario with its nominal numbers.
    pub scenario: &'a Scenario,
    /// The first replication.
    pub outcome: &'a Outcome,
    /// Index of the job.
    pub job: usize,
    /// Options of simulations.
    pub options: &'a sim::Options<'a>,
}

/// How fast a job is and what limits it, by what is waited for last.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    /// Step time [s].
    step: f64,
    limit: String,
}

impl Question<'_> {
    /// Returns the answer that an outcome of `scenario` gives; `None` if the job has completed no step.
    fn answer(&self, scenario: &Scenario, outcome: Outcome) -> Option<Answer> {
        let mut report = report::summarise(scenario, &[outcome], 0.0);
        report::choose_job(&mut report, scenario, self.job);
        let step = report.jobs.get(self.job)?.figures.step_time.mean?;
        Some(Answer { step, limit: words::limit(report.bottleneck.as_ref()?) })
    }

    /// Returns the answer if these shares of the numbers are reached: the same random numbers, one replication.
    fn over(&self, shares: &[(&Nominal, f64)]) -> Option<Answer> {
        let scenario = with(self.scenario, shares);
        let most_events = Some(MOST_TIMES.saturating_mul(self.outcome.events));
        let options = sim::Options { trace: false, progress: None, most_events, ..*self.options };
        let outcome = sim::run(&scenario, 0, &options);
        self.answer(&scenario, outcome)
    }
}

/// Returns what the answer on a job rests on; `None` if the scenario has no nominal number with a range, or if the answer does not
/// depend on these: at what only 5 % of publications stay below, the limit is the same and the step takes at most 20 % longer. It
/// simulates at most 20 times.
#[must_use]
pub fn rests_on(question: Question<'_>) -> Option<RestsOn> {
    let numbers = nominal(question.scenario);
    if numbers.is_empty() {
        return None;
    }
    let base = question.answer(question.scenario, question.outcome.clone())?;
    let differs = |of: &Answer| moves(of.step, base.step) || of.limit != base.limit;
    // No draw is faster than the data sheet, and none slower than with the least share of every number.
    let least: Vec<_> = numbers.iter().map(|number| (number, quantile(number, 0))).collect();
    let least = question.over(&least)?;
    if !differs(&least) {
        return None;
    }
    let orders = orders(question.scenario.run.seed, numbers.len());
    let one = |draw: usize| {
        // With one number, the first draw was simulated above.
        if numbers.len() == 1 && draw == 0 {
            return Some(least.clone());
        }
        let shares = numbers.iter().zip(&orders);
        let shares: Vec<_> =
            shares.map(|(number, order)| (number, quantile(number, order[draw]))).collect();
        question.over(&shares)
    };
    let answers = (0..DRAWS).into_par_iter().map(one).collect::<Option<Vec<Answer>>>()?;
    let steps: Vec<f64> = answers.iter().map(|answer| answer.step).collect();
    let (limit_of_draws, draws_with_limit) = most_frequent(&answers)?;
    let step_time90 = [
        steps.iter().copied().fold(f64::INFINITY, f64::min),
        steps.iter().copied().fold(0.0, f64::max),
    ];
    let is_another = limit_of_draws != base.limit && 2 * draws_with_limit > DRAWS;
    if !is_another && !step_time90.iter().any(|step| moves(*step, base.step)) {
        return None;
    }
    let responsible = responsible(&orders, &steps);
    let number = &numbers[responsible];
    let mut found = RestsOn {
        job: question.scenario.jobs[question.job].name.clone(),
        key: number.key.to_owned(),
        value: number.value.clone(),
        range: number.range.name.clone(),
        sources: number.range.sources.len(),
        share90: number.range.interval90(),
        draws: DRAWS,
        step_time: base.step,
        step_time90,
        limit: base.limit,
        limit_of_draws,
        draws_with_limit,
        measure: number.range.measure.clone(),
        text: String::new(),
    };
    found.text = words::sentence(number, &found);
    Some(found)
}

/// Returns whether a step time differs by more than a fifth from another.
fn moves(step: f64, from: f64) -> bool {
    (step / from - 1.0).abs() > MOVES
}

/// Returns the share of a number at place `place` among its values in the draws, from the smallest: twentieths of its distribution.
fn quantile(number: &Nominal, place: usize) -> f64 {
    number.range.quantile((place + 1) as f64 / (DRAWS + 1) as f64)
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

/// What a job's step takes over the range of one number, the others being nominal.
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

/// Returns what the step of a job takes over the range of each nominal number, those that matter most first.
#[must_use]
pub fn effects(question: Question<'_>) -> Vec<Effect> {
    let one = |number: Nominal| {
        let at = |place: usize| question.over(&[(&number, quantile(&number, place))]);
        let (low, high) = (at(0)?, at(DRAWS - 1)?);
        Some(Effect { steps: [low.step, high.step], number })
    };
    let numbers = nominal(question.scenario);
    let mut all: Vec<Effect> = numbers.into_par_iter().filter_map(one).collect();
    all.sort_by(|a, b| b.spread().total_cmp(&a.spread()));
    all
}
