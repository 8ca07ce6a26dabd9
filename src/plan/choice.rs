//! The best of several options that meet the goals, by ranking and selection.

use super::figure::Wanted;
use super::search::limit;
use super::trial::{Failed, Figured, Question, Raced, Setting, begin, race};
use crate::scenario::{Override, PlanOption, Priced, Purchase};
use crate::select::Place;
use std::cmp::Ordering;

/// Where an option stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// It is the best that meets the goals.
    Best,
    /// It meets the goals, or may, and the best one is better.
    Worse,
    /// It misses a goal.
    Misses,
    /// More replications than are allowed would be needed to tell it from the best one, or whether it meets the goals.
    Undecided,
    /// It could not be tried.
    Failed,
}

/// An option with what was found of it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Standing {
    /// Name of the option.
    pub name: String,
    /// Where it stands.
    pub place: Rank,
    /// Index of the goal that it misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<usize>,
    /// Figure of each goal.
    pub figures: Vec<Figured>,
    /// Figure by which options are chosen.
    pub best: Option<Figured>,
    /// Samples per second of all jobs together.
    pub samples_per_second: Option<Figured>,
    /// Cost of a month; `None` without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_month: Option<Figured>,
    /// Whether no other option is both faster and cheaper, or as good in one and better in the other; `None` without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_front: Option<bool>,
    /// What its cost consists of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Priced>,
    /// Sizes of what is paid for; `None` without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purchase: Option<Purchase>,
    /// Number of replications.
    pub replications: usize,
    /// Reasons why the figures may differ from those of the long run, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What holds it back, in a sentence.
    pub bottleneck: Option<String>,
    /// Why it could not be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Changes that make it.
    #[serde(skip)]
    pub changes: Vec<Override>,
}

/// The choice between options.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Choice {
    /// Index of the best option; `None` if none meets the goals.
    pub best: Option<usize>,
    /// Whether that is decided with the certainty that was asked for, by runs that were long enough to show the figures.
    pub certain: bool,
    /// Whether the plan was interrupted before all was decided.
    #[serde(default, rename = "interrupted", skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// Index of the option that comes nearest to the goals, if none meets them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<usize>,
    /// Difference of the figure by which options are chosen that does not matter.
    pub indifference: f64,
    /// The options in the order in which they were given.
    pub options: Vec<Standing>,
}

/// Chooses the best option. An option that fails is said to, and the others go on.
///
/// # Errors
/// If a signal comes.
pub fn choose(
    question: &Question<'_>,
    options: &[PlanOption],
    before: &[Override],
) -> Result<Choice, Failed> {
    // Index of the option that each setting is of.
    let mut made: Vec<(usize, Setting)> = Vec::new();
    let mut failed: Vec<Option<String>> = vec![None; options.len()];
    for (at, option) in options.iter().enumerate() {
        match Setting::new(question, [before, &option.changes].concat()) {
            Ok(setting) => made.push((at, setting)),
            Err(Failed::Setting(why)) => failed[at] = Some(why),
            Err(Failed::Stopped) => return Err(Failed::Stopped),
        }
    }
    let (of, mut settings): (Vec<usize>, Vec<Setting>) = made.into_iter().unzip();
    begin(question, &mut settings);
    let mut made: Vec<(usize, Setting)> = of.into_iter().zip(settings).collect();
    // Of equally good settings a race takes the first.
    made.sort_by(|(_, a), (_, b)| by_tie(question.best, a, b));
    let (of, mut settings): (Vec<usize>, Vec<Setting>) = made.into_iter().unzip();
    let indifference = indifference(question, &settings);
    let raced = race(question, &mut settings, (1.0 - question.certainty, indifference));
    if raced.is_stopped && settings.iter().all(|setting| setting.replications() == 0) {
        return Err(Failed::Stopped);
    }
    let mut standings: Vec<Standing> = options.iter().map(Standing::unknown).collect();
    for (standing, why) in standings.iter_mut().zip(failed) {
        standing.failed = why;
    }
    for (at, setting) in settings.iter().enumerate() {
        fill(&mut standings[of[at]], question, (setting, at), &raced);
    }
    mark_front(&mut standings);
    let best = raced.race.best().map(|at| of[at]);
    let is_long = standings.iter().all(|of| of.warnings.is_empty());
    let nearest = if best.is_some() { None } else { nearest(question, &standings) };
    let is_stopped = raced.is_stopped;
    let certain = raced.race.is_certain() && is_long && !is_stopped;
    Ok(Choice { best, certain, is_stopped, nearest, indifference, options: standings })
}

/// Orders settings that are equally good by the figure by which options are chosen: the faster before the slower, then the cheaper.
fn by_tie(best: Option<&Wanted>, a: &Setting, b: &Setting) -> Ordering {
    let mean = |of: Option<Figured>| of.map_or(0.0, |of| of.mean);
    let faster = mean(b.speed()).total_cmp(&mean(a.speed()));
    let cheaper = mean(a.month()).total_cmp(&mean(b.month()));
    match best {
        Some(_) => faster.then(cheaper),
        None => cheaper.then(faster),
    }
}

/// Returns the difference of the figure by which options are chosen that does not matter.
fn indifference(question: &Question<'_>, settings: &[Setting]) -> f64 {
    let Some(wanted) = question.best else { return 1.0 };
    let sizes = settings.iter().filter_map(|of| of.best(question)).map(|of| of.mean.abs());
    wanted.indifference(question.within, sizes.fold(0.0, f64::max))
}

/// Returns the option whose most missed goal is missed by least, in tolerances of the goal.
fn nearest(question: &Question<'_>, standings: &[Standing]) -> Option<usize> {
    let margin = |standing: &Standing| {
        let goals = question.goals.iter().zip(&standing.figures);
        let margins =
            goals.map(|(goal, of)| goal.margin(of.mean) / goal.tolerance(question.within));
        margins.reduce(f64::min)
    };
    let known = standings.iter().enumerate().filter_map(|(at, of)| Some((at, margin(of)?)));
    known.rev().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

impl Standing {
    fn unknown(option: &PlanOption) -> Standing {
        Standing {
            name: option.name.clone(),
            place: Rank::Failed,
            misses: None,
            figures: Vec::new(),
            best: None,
            samples_per_second: None,
            cost_per_month: None,
            on_front: None,
            items: Vec::new(),
            purchase: None,
            replications: 0,
            warnings: Vec::new(),
            bottleneck: None,
            failed: None,
            changes: option.changes.clone(),
        }
    }
}

/// Writes what a race showed of a setting into the standing of its option.
fn fill(
    standing: &mut Standing,
    question: &Question<'_>,
    (setting, at): (&Setting, usize),
    raced: &Raced,
) {
    if let Some(why) = &raced.failed[at] {
        standing.failed = Some(why.clone());
        return;
    }
    (standing.place, standing.misses) = match raced.race.place(at) {
        Place::Best => (Rank::Best, None),
        Place::Beaten(_) => (Rank::Worse, None),
        Place::Misses(goal) => (Rank::Misses, Some(goal)),
        Place::Undecided | Place::Withdrawn => (Rank::Undecided, None),
    };
    let cost = setting.report().and_then(|report| report.cost.as_ref());
    standing.figures = setting.goals(question);
    standing.best = setting.best(question);
    standing.samples_per_second = setting.speed();
    standing.cost_per_month = setting.month();
    standing.items = cost.map_or_else(Vec::new, |cost| cost.items.clone());
    standing.purchase = cost.map(|cost| cost.purchase.clone());
    standing.replications = setting.replications();
    standing.warnings = setting.warnings().to_vec();
    standing.bottleneck = limit(question, setting, standing.misses);
}

/// Marks the options that no other one beats: none is at least as fast and as cheap, and better in one of both.
fn mark_front(standings: &mut [Standing]) {
    let known = |of: &Standing| {
        Some((of.samples_per_second.as_ref()?.mean, of.cost_per_month.as_ref()?.mean))
    };
    let all: Vec<Option<(f64, f64)>> = standings.iter().map(known).collect();
    for (standing, own) in standings.iter_mut().zip(&all) {
        let Some((speed, cost)) = *own else { continue };
        let dominates = |(faster, cheaper): &(f64, f64)| {
            *faster >= speed && *cheaper <= cost && (*faster > speed || *cheaper < cost)
        };
        standing.on_front = Some(!all.iter().flatten().any(dominates));
    }
}
