//! The smallest or largest values of one key, or of two, with which the goals are met.

use super::trial::{Failed, Figured, Met, Question, Setting, meets, resolved};
use super::unknown::Unknown;
use crate::report;
use crate::scenario::{Override, Value};
use crate::select::{Judged, Pairs, Smallest, first_pairs, smallest};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Most combinations of values of keys that are searched together.
pub const MOST_COMBINATIONS: usize = 10_000;

/// Number of settings beyond those of a search in which more of a key always helps, which share half of the error that is allowed.
const MORE: f64 = 256.0;

/// Number of pairs of two keys that are tried to see whether more of a key always helps.
const PROBES: usize = 24;

/// A setting that was tried.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Tried {
    /// Values of the keys, in their order.
    pub values: Vec<String>,
    /// Whether the goals are met.
    pub meets: bool,
    /// Whether that was decided with the certainty that was asked for.
    pub certain: bool,
    /// Figure of each goal; empty if the setting failed.
    pub figures: Vec<Figured>,
    /// Cost of a month; `None` without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_month: Option<Figured>,
    /// Number of replications.
    pub replications: usize,
    /// Reasons why the figures may differ from those of the long run, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why it could not be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Answer {
    /// Index of the tried setting that is the answer; `None` if none meets the goals.
    pub found: Option<usize>,
    /// Index of the tried setting that comes nearest to the goals, if none meets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<usize>,
    /// Index of the goal that the nearest setting misses by most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<usize>,
    /// The settings that were tried; those of one key in the order of its values.
    pub tried: Vec<Tried>,
    /// With two keys: indices of the tried settings that meet the goals while none does with a smaller value of one key and the same of
    /// the other; a larger value if the largest is wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub front: Vec<usize>,
    /// Number of values of each key that could have been tried.
    pub values: Vec<usize>,
    /// Values, or pairs of values, that the scenario refuses: how many, and why the first is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<(usize, String)>,
    /// Whether more of a key always helped, up to the answer and as far as was tried.
    pub monotone: bool,
    /// Number of settings that would be better answers, were not tried and are not ruled out, because more of a key does not always help.
    pub untried: usize,
    /// Whether each setting was decided with the certainty that was asked for, and the runs were long enough to show the goals' figures.
    pub certain: bool,
    /// Whether the plan was interrupted before all was decided: the answer is then the best that was tried.
    #[serde(default, rename = "interrupted", skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// The first sentence on the bottleneck of the answer, or of the nearest setting.
    pub bottleneck: Option<String>,
    /// Changes that make the answer, or the nearest setting.
    #[serde(skip)]
    pub changes: Vec<Override>,
}

/// Settings that were tried, by the places of their values.
struct Trials<'a, 'q> {
    question: &'a Question<'q>,
    unknowns: &'a [Unknown],
    /// The values of each key in the order in which they are wanted.
    wanted: Vec<Vec<Value>>,
    before: &'a [Override],
    /// Number of settings that are tried if more of a key always helps.
    planned: f64,
    made: BTreeMap<Vec<usize>, (Tried, Option<Setting>)>,
}

impl Trials<'_, '_> {
    fn changes(&self, places: &[usize]) -> Vec<Override> {
        let own = self.unknowns.iter().zip(&self.wanted).zip(places);
        let own = own.flat_map(|((unknown, values), place)| unknown.set(&values[*place]));
        self.before.iter().cloned().chain(own).collect()
    }

    /// Returns the cheapest of several settings that were tried; without prices, the one in the middle.
    fn cheapest(&self, settings: &[Vec<usize>]) -> Option<Vec<usize>> {
        let cost = |places: &Vec<usize>| Some(self.made[places].0.cost_per_month.as_ref()?.mean);
        let known = settings.iter().filter_map(|places| Some((places, cost(places)?)));
        let cheapest = known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(places, _)| places.clone());
        cheapest.or_else(|| settings.get(settings.len() / 2).cloned())
    }

    /// Returns the best that was tried before the plan was interrupted.
    fn so_far(&self) -> Found {
        let all: usize = self.wanted.iter().map(Vec::len).product();
        let met = self.made.iter().filter(|(_, (tried, _))| tried.meets);
        let met: Vec<Vec<usize>> = met.map(|(places, _)| places.clone()).collect();
        Found {
            chosen: match self.wanted.len() {
                1 => met.first().cloned(),
                _ => self.cheapest(&met),
            },
            front: Vec::new(),
            is_monotone: true,
            untried: all - self.made.len(),
        }
    }

    /// Returns the probability of an error that the next decision may have: half of what is allowed is shared by the planned settings.
    fn error(&self) -> f64 {
        let half = (1.0 - self.question.certainty) / 2.0;
        let is_planned = (self.made.len() as f64) < self.planned;
        half / if is_planned { self.planned } else { MORE }
    }

    /// Tries a setting, unless it was tried, and returns whether it meets the goals.
    fn meets(&mut self, places: &[usize]) -> Result<bool, Failed> {
        if let Some((tried, _)) = self.made.get(places) {
            return Ok(tried.meets);
        }
        let setting = Setting::new(self.question, self.changes(places));
        let met = setting.and_then(|mut setting| {
            let met = meets(self.question, &mut setting, self.error())?;
            Ok((met, setting))
        });
        let values = self.wanted.iter().zip(places).map(|(values, place)| values[*place].plain());
        let mut tried = Tried {
            values: values.collect(),
            meets: false,
            certain: true,
            figures: Vec::new(),
            cost_per_month: None,
            replications: 0,
            warnings: Vec::new(),
            failed: None,
        };
        let setting = match met {
            Err(Failed::Stopped) => return Err(Failed::Stopped),
            Err(Failed::Setting(why)) => {
                tried.failed = Some(why);
                None
            }
            Ok((Met { meets, certain }, setting)) => {
                tried.figures = setting.goals(self.question);
                tried.cost_per_month = setting.month();
                tried.replications = setting.replications();
                tried.warnings = setting.warnings().to_vec();
                (tried.meets, tried.certain) = (meets, certain);
                Some(setting)
            }
        };
        let is_met = tried.meets;
        self.made.insert(places.to_vec(), (tried, setting));
        Ok(is_met)
    }

    /// Returns the goal that a tried setting meets least well, with the margin and its half-width in tolerances of the goal; `None` if the setting
    /// failed.
    fn worst(&self, tried: &Tried) -> Option<(usize, f64, f64)> {
        let goals = self.question.goals.iter().zip(&tried.figures).enumerate();
        let margins = goals.map(|(at, (goal, figured))| {
            let tolerance = goal.tolerance(self.question.within);
            let half = figured.ci95.map_or(0.0, |[low, high]| (high - low) / 2.0);
            (at, goal.margin(figured.mean) / tolerance, half / tolerance)
        });
        margins.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns what bisection needs to know of a setting.
    fn judged(&mut self, places: &[usize]) -> Result<Judged, Failed> {
        let meets = self.meets(places)?;
        let worst = self.worst(&self.made[places].0);
        let (margin, half_width) =
            worst.map_or((f64::NAN, 0.0), |(_, margin, half)| (margin, half));
        Ok(Judged { meets, margin, half_width })
    }

    /// Returns the tried setting that comes nearest to the goals.
    fn nearest(&self) -> Option<Vec<usize>> {
        let known = self.made.iter().filter_map(|(places, (tried, _))| {
            let (_, margin, _) = self.worst(tried)?;
            Some((places, margin))
        });
        known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(places, _)| places.clone())
    }
}

/// What a search found, by places of values.
struct Found {
    chosen: Option<Vec<usize>>,
    front: Vec<Vec<usize>>,
    is_monotone: bool,
    untried: usize,
}

/// Returns the smallest or largest values of the unknown keys with which the goals are met, on top of the changes `before`. One key is
/// searched by bisection; two along the border between the pairs that meet the goals and those that do not; of more, the last two along
/// such a border for each combination of the others.
///
/// # Errors
/// If a signal comes, or if the scenario refuses all values; the first reason.
pub fn search(
    question: &Question<'_>,
    unknowns: &[Unknown],
    before: &[Override],
) -> Result<Answer, Failed> {
    let mut unknowns = unknowns.to_vec();
    let (planes, refused) = match &mut unknowns[..] {
        [one] => (Vec::new(), accepted(question, one, before)?),
        [others @ .., first, second] => accepted_planes(question, others, (first, second), before)?,
        [] => (Vec::new(), None),
    };
    let wanted: Vec<Vec<Value>> = unknowns.iter().map(Unknown::wanted).collect();
    let sizes: Vec<usize> = wanted.iter().map(Vec::len).collect();
    let planned = match sizes[..] {
        [.., first, second] => (planes.len() * (first + second + PROBES)) as f64,
        _ => 2.0 + (sizes.iter().sum::<usize>() as f64).log2(),
    };
    let mut trials =
        Trials { question, unknowns: &unknowns, wanted, before, planned, made: BTreeMap::new() };
    let found = match sizes[..] {
        [settings] => one_key(&mut trials, settings),
        _ => several_keys(&mut trials, planes),
    };
    let (found, is_stopped) = match found {
        Err(Failed::Stopped) if !trials.made.is_empty() => (trials.so_far(), true),
        found => (found?, false),
    };
    let reason = |(tried, _): &(Tried, Option<Setting>)| tried.failed.clone();
    if let Some(reasons) = trials.made.values().map(reason).collect::<Option<Vec<String>>>() {
        return Err(Failed::Setting(reasons.into_iter().next().unwrap_or_default()));
    }
    let nearest = if found.chosen.is_some() { None } else { trials.nearest() };
    let shown = found.chosen.clone().or(nearest.clone()).unwrap_or_default();
    let answer = trials.made.get(&shown);
    let worst = answer.and_then(|(tried, _)| trials.worst(tried)).map(|(goal, ..)| goal);
    let setting = answer.and_then(|(_, setting)| setting.as_ref());
    let bottleneck = setting.and_then(|setting| limit(question, setting, worst));
    let changes = if shown.is_empty() { Vec::new() } else { trials.changes(&shown) };
    let largest = unknowns.len() == 1 && unknowns[0].largest;
    let mut made: Vec<(Vec<usize>, Tried)> =
        trials.made.into_iter().map(|(places, (tried, _))| (places, tried)).collect();
    if largest {
        made.reverse();
    }
    let index = |places: &Vec<usize>| made.iter().position(|(of, _)| of == places);
    let tried: Vec<Tried> = made.iter().map(|(_, tried)| tried.clone()).collect();
    let is_short = index(&shown).is_some_and(|at| !tried[at].warnings.is_empty());
    Ok(Answer {
        found: found.chosen.as_ref().and_then(index),
        nearest: nearest.as_ref().and_then(index),
        missed: nearest.as_ref().and(worst),
        front: found.front.iter().filter_map(index).collect(),
        values: sizes,
        refused,
        monotone: found.is_monotone,
        untried: found.untried,
        certain: !is_short && !is_stopped && tried.iter().all(|tried| tried.certain),
        is_stopped,
        tried,
        bottleneck,
        changes,
    })
}

fn one_key(trials: &mut Trials<'_, '_>, settings: usize) -> Result<Found, Failed> {
    let Smallest { found, nearest, is_monotone, untried, .. } =
        smallest(settings, &mut |at| trials.judged(&[at]))?;
    if let Some(at) = nearest {
        trials.meets(&[at])?;
    }
    Ok(Found { chosen: found.map(|at| vec![at]), front: Vec::new(), is_monotone, untried })
}

/// Searches several keys. Of several combinations that meet the goals, the cheapest is chosen; without prices, the one in the middle.
fn several_keys(trials: &mut Trials<'_, '_>, planes: Vec<Plane>) -> Result<Found, Failed> {
    let (mut met, mut is_monotone, mut untried): (Vec<Vec<usize>>, _, _) = (Vec::new(), true, 0);
    for Plane { others, allowed } in planes {
        let all = |(i, j): (usize, usize)| [&others[..], &[i, j]].concat();
        let Pairs { front, is_monotone: is_own, untried: own } =
            first_pairs(allowed, &mut |pair| trials.meets(&all(pair)))?;
        met.extend(front.into_iter().map(all));
        is_monotone &= is_own;
        untried += own;
    }
    let is_better = |a: &[usize], b: &[usize]| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
    let is_first = |places: &&Vec<usize>| !met.iter().any(|other| is_better(other, places));
    let front: Vec<Vec<usize>> = met.iter().filter(is_first).cloned().collect();
    let chosen = trials.cheapest(&front);
    Ok(Found { chosen, front, is_monotone, untried })
}

/// Returns the sentence on what holds back the job that a goal is about, in a setting that was tried; the slowest job's if the goal is about none.
pub(super) fn limit(
    question: &Question<'_>,
    setting: &Setting,
    goal: Option<usize>,
) -> Option<String> {
    let mut report = setting.report()?.clone();
    let goal = goal.and_then(|at| question.goals.get(at));
    if let Some(job) = goal.and_then(|goal| goal.job_in(&report)) {
        report::choose_job(&mut report, &setting.scenario, job);
    }
    report.bottleneck.map(|of| of.finding)
}

/// Returns whether the scenario accepts changes and fits into memory.
///
/// # Errors
/// If not, or if a signal came.
fn check(question: &Question<'_>, changes: &[Override]) -> Result<(), Failed> {
    if question.stop.load(Ordering::Relaxed) {
        return Err(Failed::Stopped);
    }
    (question.fits)(&resolved(question, changes)?).map_err(Failed::Setting)
}

/// Keeps the values that the scenario accepts; returns how many it refuses and why it refuses the first.
///
/// # Errors
/// If it refuses all.
fn accepted(
    question: &Question<'_>,
    unknown: &mut Unknown,
    before: &[Override],
) -> Result<Refused, Failed> {
    let one = |value: &Value| {
        check(question, &[before, &unknown.set(value)].concat()).map(|()| value.clone())
    };
    let all: Vec<Result<Value, Failed>> = unknown.values.par_iter().map(one).collect();
    let refused = refusals(all.iter().filter_map(|of| of.as_ref().err()))?;
    unknown.values = all.into_iter().filter_map(Result::ok).collect();
    match (refused, unknown.values.is_empty()) {
        (Some((_, why)), true) => Err(Failed::Setting(why)),
        (refused, _) => Ok(refused),
    }
}

/// How many settings the scenario refuses, and why it refuses the first.
type Refused = Option<(usize, String)>;

/// The pairs of values of the last two keys with one combination of values of the others.
struct Plane {
    /// Places of the values of the other keys.
    others: Vec<usize>,
    /// For each value of the last key but one, in the order in which they are wanted, the places of those of the last that the scenario
    /// accepts with it.
    allowed: Vec<Vec<usize>>,
}

/// Returns the pairs of values of two keys that the scenario accepts, for each combination of values of the other keys in the order in
/// which they are wanted, and how many combinations it refuses and why it refuses the first.
///
/// # Errors
/// If it refuses all.
fn accepted_planes(
    question: &Question<'_>,
    others: &[Unknown],
    (first, second): (&Unknown, &Unknown),
    before: &[Override],
) -> Result<(Vec<Plane>, Refused), Failed> {
    let (rows, columns) = (first.wanted(), second.wanted());
    let (mut planes, mut all) = (Vec::new(), Vec::new());
    for others in combinations(others) {
        let own: Vec<Override> = others.iter().flat_map(|(_, changes)| changes.clone()).collect();
        let one = |row: &Value, column: &Value| {
            check(question, &[before, &own, &first.set(row), &second.set(column)].concat())
        };
        let plane: Vec<Vec<Result<(), Failed>>> = rows
            .par_iter()
            .map(|row| columns.iter().map(|column| one(row, column)).collect())
            .collect();
        let places = |row: &Vec<Result<(), Failed>>| {
            row.iter().enumerate().filter(|(_, of)| of.is_ok()).map(|(at, _)| at).collect()
        };
        let others = others.iter().map(|(at, _)| *at).collect();
        planes.push(Plane { others, allowed: plane.iter().map(places).collect() });
        all.extend(plane.into_iter().flatten().filter_map(Result::err));
    }
    let is_empty = |plane: &Plane| plane.allowed.iter().all(Vec::is_empty);
    match refusals(all.iter())? {
        Some((_, why)) if planes.iter().all(is_empty) => Err(Failed::Setting(why)),
        refused => Ok((planes, refused)),
    }
}

/// Returns every combination of the keys' values. Each value is given by its index, in the order in which values are wanted, and the
/// overrides that set it.
fn combinations(keys: &[Unknown]) -> Vec<Vec<(usize, Vec<Override>)>> {
    let mut all = vec![Vec::new()];
    for key in keys {
        let wanted = key.wanted();
        let values = wanted.iter().enumerate().map(|(at, value)| (at, key.set(value)));
        let values: Vec<(usize, Vec<Override>)> = values.collect();
        let longer = |begin: &Vec<(usize, Vec<Override>)>| {
            values
                .iter()
                .map(|of| begin.iter().chain([of]).cloned().collect())
                .collect::<Vec<Vec<_>>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Returns the number of refusals and the first reason; `None` without any.
///
/// # Errors
/// If a signal came.
fn refusals<'a>(all: impl Iterator<Item = &'a Failed>) -> Result<Refused, Failed> {
    let mut found: Option<(usize, String)> = None;
    for one in all {
        match (one, &mut found) {
            (Failed::Stopped, _) => return Err(Failed::Stopped),
            (Failed::Setting(why), None) => found = Some((1, why.clone())),
            (Failed::Setting(_), Some((number, _))) => *number += 1,
        }
    }
    Ok(found)
}
