//! The smallest or largest values of one key, or of two, with which the goals are met.

use super::trial::{Failed, Figured, Met, Question, Setting, first_report, meets};
use super::unknown::Unknown;
use crate::report::Report;
use crate::scenario::{Override, Value};
use crate::select::{Judged, Pairs, Smallest, minimal_pairs, smallest};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Most values of a key that are tried together with another key.
const MOST_OF_TWO: usize = 16;

/// A setting that was tried.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_month: Option<Figured>,
    /// Number of replications.
    pub replications: usize,
    /// Why it could not be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Answer {
    /// Index of the tried setting that is the answer; `None` if none meets the goals.
    pub found: Option<usize>,
    /// Index of the tried setting that comes nearest to the goals, if none meets them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<usize>,
    /// The settings that were tried; those of one key in the order of its values.
    pub tried: Vec<Tried>,
    /// With two keys: indices of the tried settings of which neither value can be smaller, or larger if the largest is wanted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub front: Vec<usize>,
    /// Number of values of each key that could have been tried.
    pub values: Vec<usize>,
    /// Values that the scenario refuses: how many, and why the first is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<(usize, String)>,
    /// Whether the goals were met the better the less was saved, up to the answer and as far as was tried.
    pub monotone: bool,
    /// Whether each decision has the certainty that was asked for, and no better value was left untried.
    pub certain: bool,
    /// What binds: the first sentence on the bottleneck of the answer, or of the nearest setting.
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
    /// Probability of an error that each decision may have.
    error: f64,
    made: BTreeMap<Vec<usize>, (Tried, Option<Setting>)>,
}

impl Trials<'_, '_> {
    fn changes(&self, places: &[usize]) -> Vec<Override> {
        let own = self.unknowns.iter().zip(&self.wanted).zip(places);
        let own = own
            .map(|((unknown, values), place)| Override::new(&*unknown.key, values[*place].clone()));
        self.before.iter().cloned().chain(own).collect()
    }

    /// Tries a setting, unless it was tried, and returns whether it meets the goals.
    fn meets(&mut self, places: &[usize]) -> Result<bool, Failed> {
        if let Some((tried, _)) = self.made.get(places) {
            return Ok(tried.meets);
        }
        let setting = Setting::new(self.question, self.changes(places));
        let met = setting.and_then(|mut setting| {
            let met = meets(self.question, &mut setting, self.error)?;
            Ok((met, setting))
        });
        let values =
            self.wanted.iter().zip(places).map(|(values, place)| values[*place].to_string());
        let mut tried = Tried {
            values: values.collect(),
            meets: false,
            certain: true,
            figures: Vec::new(),
            cost_per_month: None,
            replications: 0,
            failed: None,
        };
        let setting = match met {
            Err(Failed::Stopped) => return Err(Failed::Stopped),
            Err(Failed::Setting(why)) => {
                tried.failed = Some(why);
                None
            }
            Ok((Met { meets, certain }, setting)) => {
                let goals = 0..self.question.goals.len();
                tried.figures = goals.filter_map(|index| setting.goal(index)).collect();
                tried.cost_per_month = setting.month();
                tried.replications = setting.replications();
                (tried.meets, tried.certain) = (meets, certain);
                Some(setting)
            }
        };
        let is_met = tried.meets;
        self.made.insert(places.to_vec(), (tried, setting));
        Ok(is_met)
    }

    /// Returns what bisection needs to know of a setting: the goal that is met least well counts, in its tolerances.
    fn judged(&mut self, places: &[usize]) -> Result<Judged, Failed> {
        let meets = self.meets(places)?;
        let tried = &self.made[places].0;
        let goals = self.question.goals.iter().zip(&tried.figures).map(|(goal, figured)| {
            let tolerance = goal.tolerance(self.question.within);
            let half = figured.ci95.map_or(0.0, |[low, high]| (high - low) / 2.0);
            (goal.margin(figured.mean) / tolerance, half / tolerance)
        });
        let worst = goals.min_by(|a, b| a.0.total_cmp(&b.0));
        let (margin, half_width) = worst.unwrap_or((f64::NAN, 0.0));
        Ok(Judged { meets, margin, half_width })
    }
}

/// Returns the smallest or largest values of the unknown keys with which the goals are met, on top of the changes `before`. One key is
/// searched by bisection; two along the border between the pairs that meet the goals and those that do not.
///
/// # Errors
/// If a signal comes, or if the scenario refuses all values; the first reason.
pub fn search(
    question: &Question<'_>,
    unknowns: &[Unknown],
    before: &[Override],
) -> Result<Answer, Failed> {
    let mut unknowns = unknowns.to_vec();
    let refused = match &mut unknowns[..] {
        [one] => accepted(question, one, before)?,
        several => {
            several.iter_mut().for_each(|unknown| unknown.thin(MOST_OF_TWO));
            None
        }
    };
    let wanted: Vec<Vec<Value>> = unknowns.iter().map(Unknown::wanted).collect();
    let sizes: Vec<usize> = wanted.iter().map(Vec::len).collect();
    let decisions = match sizes[..] {
        [one] => 2.0 + (one as f64).log2(),
        _ => sizes.iter().sum::<usize>() as f64,
    };
    let error = (1.0 - question.certainty) / decisions;
    let mut trials =
        Trials { question, unknowns: &unknowns, wanted, before, error, made: BTreeMap::new() };
    let (chosen, nearest, front, is_monotone, is_sure) = match sizes[..] {
        [settings] => {
            let found = smallest(settings, &mut |at| trials.judged(&[at]))?;
            let Smallest { found, nearest, is_monotone, is_sure, .. } = found;
            (found.map(|at| vec![at]), nearest.map(|at| vec![at]), Vec::new(), is_monotone, is_sure)
        }
        _ => {
            let found = minimal_pairs((sizes[0], sizes[1]), &mut |i, j| trials.meets(&[i, j]))?;
            let Pairs { front, .. } = found;
            let cost = |at: &&(usize, usize)| {
                let month = trials.made[&vec![at.0, at.1]].0.cost_per_month.as_ref();
                month.map_or(0.0, |month| month.mean)
            };
            let chosen = front.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let chosen = chosen.map(|(i, j)| vec![*i, *j]);
            let last = vec![sizes[0] - 1, sizes[1] - 1];
            let nearest = front.is_empty().then_some(last);
            let front: Vec<Vec<usize>> = front.iter().map(|(i, j)| vec![*i, *j]).collect();
            (chosen, nearest, front, true, true)
        }
    };
    if let Some(places) = &nearest {
        trials.meets(places)?;
    }
    let reason = |(tried, _): &(Tried, Option<Setting>)| tried.failed.clone();
    if let Some(reasons) = trials.made.values().map(reason).collect::<Option<Vec<String>>>() {
        return Err(Failed::Setting(reasons.into_iter().next().unwrap_or_default()));
    }
    let shown = chosen.clone().or(nearest.clone()).unwrap_or_default();
    let bottleneck = match trials.made.get(&shown).and_then(|(_, setting)| setting.as_ref()) {
        Some(setting) => {
            first_report(question, setting).ok().and_then(|(_, report)| limit(&report))
        }
        None => None,
    };
    let changes = if shown.is_empty() { Vec::new() } else { trials.changes(&shown) };
    let largest = unknowns.len() == 1 && unknowns[0].largest;
    let mut made: Vec<(Vec<usize>, Tried)> =
        trials.made.into_iter().map(|(places, (tried, _))| (places, tried)).collect();
    if largest {
        made.reverse();
    }
    let index = |places: &Vec<usize>| made.iter().position(|(of, _)| of == places);
    let tried: Vec<Tried> = made.iter().map(|(_, tried)| tried.clone()).collect();
    Ok(Answer {
        found: chosen.as_ref().and_then(index),
        nearest: if chosen.is_some() { None } else { nearest.as_ref().and_then(index) },
        front: front.iter().filter_map(index).collect(),
        values: sizes,
        refused,
        monotone: is_monotone,
        certain: is_sure && tried.iter().all(|tried| tried.certain),
        tried,
        bottleneck,
        changes,
    })
}

/// Returns the sentence on what holds the report's slowest job back.
pub(super) fn limit(report: &Report) -> Option<String> {
    report.bottleneck.as_ref().map(|of| of.finding.clone())
}

/// Keeps the values that the scenario accepts; returns how many it refuses and why it refuses the first.
///
/// # Errors
/// If it refuses all.
fn accepted(
    question: &Question<'_>,
    unknown: &mut Unknown,
    before: &[Override],
) -> Result<Option<(usize, String)>, Failed> {
    let check = |value: &Value| {
        let own = Override::new(&*unknown.key, value.clone());
        let changes = before.iter().cloned().chain([own]).collect();
        Setting::new(question, changes).map(|_| value.clone())
    };
    let all: Vec<Result<Value, Failed>> = unknown.values.par_iter().map(check).collect();
    let reasons: Vec<Failed> = all.iter().filter_map(|one| one.as_ref().err().cloned()).collect();
    let refused = reasons.len();
    unknown.values = all.into_iter().filter_map(Result::ok).collect();
    match (reasons.into_iter().next(), unknown.values.is_empty()) {
        (None, _) => Ok(None),
        (Some(why), true) => Err(why),
        (Some(Failed::Stopped), _) => Err(Failed::Stopped),
        (Some(Failed::Setting(why)), false) => Ok(Some((refused, why))),
    }
}
