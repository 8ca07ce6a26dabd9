//! Draws: the run of a scenario repeated with amounts from the ranges of its nominal numbers.

use super::nominal::{Nominal, changes, nominal};
use super::{Reached, Unit};
use crate::random::{Permutation, Purpose, Streams};
use crate::report::format::seconds;
use crate::report::{self, Bottleneck, Outcome, Report, RestsOn};
use crate::scenario::{Override, Scenario, Stop, WarmUp};
use crate::sim;
use crate::verdict::Source;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Number of draws. One more draw lies between the extremes of nineteen with a probability of 90 %.
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

/// First owner of the random streams that shuffle the amounts of nominal numbers. The laws of a profile have smaller owners.
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

/// The draws of a scenario, and its own run over the same steps.
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
    /// Returns the question on the job of the report's bottleneck; `None` if no job has completed a step.
    #[must_use]
    pub fn of_bottleneck(
        source: Source<'a>,
        (scenario, outcome, report): (&'a Scenario, &'a Outcome, &Report),
        options: &'a sim::Options<'a>,
    ) -> Option<Question<'a>> {
        let named = &report.bottleneck.as_ref()?.job;
        let job = scenario.jobs.iter().position(|job| job.name == *named)?;
        Some(Question { source, scenario, outcome, job, options })
    }

    /// Returns the answer that an outcome of `scenario` gives; `None` if the job has completed no step.
    fn answer(&self, scenario: &Scenario, outcome: Outcome) -> Option<Answer> {
        let mut report = report::summarise(scenario, &[outcome], 0.0);
        report::choose_job(&mut report, scenario, self.job);
        let figures = &report.jobs.get(self.job)?.figures;
        let step = figures.step_time.mean?;
        let busy = figures.accelerator_utilisation.mean.unwrap_or(0.0);
        let limit = limit_of(report.bottleneck.as_ref()?, busy);
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

    /// Returns the answer with nominal numbers set to these amounts: the same random numbers, one replication.
    fn over(&self, drawn: &[(&Nominal, f64)], part: Option<Part>) -> Option<Answer> {
        let Source { file, overrides, reading } = self.source;
        let scenario = file.resolve_as(&[overrides, &changes(drawn)].concat(), reading).ok()?;
        let scenario = part.map_or_else(|| scenario.clone(), |part| self.shaped(&scenario, part));
        let most_events = Some(MOST_TIMES.saturating_mul(self.outcome.events_of_all_steps()));
        let until = part.map(|_| self.job);
        let options = sim::Options {
            trace: false,
            progress: None,
            most_events,
            until,
            largest_sample_only: true,
            ..*self.options
        };
        let outcome = sim::run(&scenario, 0, &options).whole().ok()?;
        self.answer(&scenario, outcome)
    }

    fn numbers(&self) -> Vec<Nominal> {
        nominal(self.source, self.scenario)
    }
}

/// Returns the draws; `None` if the scenario has no number with a range, or if the answer does not depend on these: at the low ends of the ranges, and at
/// the high ends if publications may have reached more than the scenario has, the limit is the same and the step time changes by at most
/// 20 %. It simulates the run or a part of it at most 20 times, 21 times if only the high ends differ.
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
        found.text = sentence(number, &found);
        Some(found)
    }
}

/// Returns the changes of the file that draw number `draw` makes, below [`DRAWS`].
#[must_use]
pub fn changes_of_draw(source: Source<'_>, scenario: &Scenario, draw: usize) -> Vec<Override> {
    let numbers = nominal(source, scenario);
    changes(&of_draw(&numbers, scenario.run.seed, draw))
}

/// The numbers that several variants of a scenario have between them. A number that variants share has the same amount in a draw of each.
pub struct Common {
    /// The numbers; those with the same range and key are one.
    numbers: Vec<Nominal>,
    seed: u64,
}

impl Common {
    /// Returns the numbers of variants, in the order in which the variants have them.
    #[must_use]
    pub fn of<'a>(variants: impl Iterator<Item = &'a [Nominal]>, seed: u64) -> Common {
        let mut numbers: Vec<Nominal> = Vec::new();
        for number in variants.flatten() {
            if !numbers.iter().any(|known| known.is_same(number)) {
                numbers.push(number.clone());
            }
        }
        Common { numbers, seed }
    }

    /// Returns whether no variant has such a number.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the changes that draw number `draw`, below [`DRAWS`], makes to the file of a variant with these numbers.
    #[must_use]
    pub fn changes(&self, variant: &[Nominal], draw: usize) -> Vec<Override> {
        let drawn = of_draw(&self.numbers, self.seed, draw);
        let amount = |number: &&Nominal| drawn.iter().find(|(known, _)| known.is_same(number));
        let own = variant.iter().filter_map(|number| Some((number, amount(&number)?.1)));
        changes(&own.collect::<Vec<_>>())
    }

    /// Returns the number whose amounts in the draws these results, one for each draw, follow most closely; `None` without numbers.
    #[must_use]
    pub fn followed(&self, results: &[f64]) -> Option<&Nominal> {
        let orders = orders(self.seed, self.numbers.len());
        self.numbers.get(responsible(&orders, results))
    }
}

/// Returns the amounts that draw number `draw`, below [`DRAWS`], takes from these ranges.
#[must_use]
pub fn reached_in_draw(ranges: &[&Reached], seed: u64, draw: usize) -> Vec<f64> {
    let orders = orders(seed, ranges.len());
    ranges.iter().zip(orders).map(|(range, order)| quantile(range, order[draw])).collect()
}

/// Returns the numbers with their amounts in a draw.
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

/// Returns the amount at place `place` among those of the draws, from the smallest: quantiles 1/20 to 19/20 of the range.
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

/// Step time of a job at both ends of the range of one number; the others are as the scenario has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// The number.
    pub number: Nominal,
    /// Step time at the 5 % and at the 95 % quantile of the range [s].
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

/// Returns the effect of each number that has a range, the largest first; empty if the job completes no step.
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

/// Returns what limits a job that computes for the share `busy` of its time: what most of the time goes into.
fn limit_of(of: &Bottleneck, busy: f64) -> String {
    let known = [
        ("node.nic", "NICs"),
        ("node.intra", "links inside nodes"),
        ("node.cores", "cores"),
        ("network", "communication"),
    ];
    match known.into_iter().find(|(start, _)| of.resource.starts_with(start)) {
        _ if of.cause == "compute" || busy >= of.share => "computing".to_owned(),
        _ if of.cause.contains("checkpoint") => "writing checkpoints".to_owned(),
        Some((_, name)) => name.to_owned(),
        None => of.resource.clone(),
    }
}

/// Returns the sentence that follows the answer.
fn sentence(number: &Nominal, of: &RestsOn) -> String {
    let range = number.range;
    let [short, long] = of.step_time90.map(seconds);
    let limited = match of.draws_with_limit {
        DRAWS => "in all draws".to_owned(),
        most if 2 * most > DRAWS => "in most draws".to_owned(),
        some => format!("in {some} of {DRAWS} draws"),
    };
    let of_it = if range.unit == Unit::Share { " of it" } else { "" };
    format!(
        "This rests on {}: over what {} publications reached {}, {}{of_it}, a step takes {short} to {long}, limited by {} {limited}. \
         Measure it with {}.",
        named(number),
        of.sources,
        range.how,
        range.unit.words(of.reached90),
        of.limit_of_draws,
        of.measure,
    )
}

/// Returns a number with its noun and where it comes from.
fn named(number: &Nominal) -> String {
    let (key, noun) = (&number.key, &number.range.noun);
    let unset = number.unset.map_or_else(String::new, |why| format!("; {why}"));
    match (&number.value, number.range.unit) {
        (Some(value), Unit::Share) if key.starts_with("cluster.") => {
            format!("{value} of {noun} (data sheet{unset})")
        }
        (Some(value), Unit::Share) => format!("`{key}` = {value} (data sheet)"),
        (Some(value), _) => format!("`{key}` = {value} ({noun}, not measured)"),
        (None, _) => format!("{noun}, `{key}`, which is not set"),
    }
}
