//! The best of several options that meet the goals, by ranking and selection.

use super::search::limit;
use super::trial::{Failed, Figured, Question, Raced, Setting, first_report, race};
use crate::scenario::{Override, PlanOption, Priced};
use crate::select::Place;

/// Where an option stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
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
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Standing {
    /// Name of the option.
    pub name: String,
    /// Where it stands.
    pub place: Rank,
    /// Index of the goal that it misses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misses: Option<usize>,
    /// Figure of each goal.
    pub figures: Vec<Figured>,
    /// Figure by which options are chosen.
    pub best: Option<Figured>,
    /// Samples per second of all jobs together.
    pub samples_per_second: Option<Figured>,
    /// Cost of a month; `None` without prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_month: Option<Figured>,
    /// Whether no other option is both faster and cheaper, or as good in one and better in the other; `None` without prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_front: Option<bool>,
    /// What its cost consists of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Priced>,
    /// Number of replications.
    pub replications: usize,
    /// What holds it back, in a sentence.
    pub bottleneck: Option<String>,
    /// Why it could not be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Changes that make it.
    #[serde(skip)]
    pub changes: Vec<Override>,
}

/// The choice between options.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Choice {
    /// Index of the best option; `None` if none meets the goals.
    pub best: Option<usize>,
    /// Whether that is decided with the certainty that was asked for.
    pub certain: bool,
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
    let made: Vec<Result<Setting, Failed>> = options
        .iter()
        .map(|option| {
            let changes = before.iter().chain(&option.changes).cloned().collect();
            Setting::new(question, changes)
        })
        .collect();
    let mut settings = Vec::new();
    let mut places: Vec<Result<usize, String>> = Vec::new();
    for one in made {
        places.push(match one {
            Ok(setting) => {
                settings.push(setting);
                Ok(settings.len() - 1)
            }
            Err(Failed::Setting(why)) => Err(why),
            Err(Failed::Stopped) => return Err(Failed::Stopped),
        });
    }
    let indifference = indifference(question, &mut settings)?;
    let raced = race(question, &mut settings, (1.0 - question.certainty, indifference))?;
    let best = raced.race.best();
    let mut standings = Vec::new();
    for (option, place) in options.iter().zip(&places) {
        standings.push(match place {
            Ok(at) => standing(question, option, (&settings[*at], *at), &raced)?,
            Err(why) => Standing { failed: Some(why.clone()), ..Standing::unknown(option) },
        });
    }
    mark_front(&mut standings);
    let best = best.and_then(|best| places.iter().position(|place| *place == Ok(best)));
    Ok(Choice { best, certain: raced.race.is_certain(), options: standings })
}

/// Returns the difference of the figure by which options are chosen that does not matter: a part of the first option's.
fn indifference(question: &Question<'_>, settings: &mut [Setting]) -> Result<f64, Failed> {
    let (Some(_), Some(first)) = (question.best, settings.first_mut()) else { return Ok(1.0) };
    let raced = race(question, std::slice::from_mut(first), (0.5, 1.0))?;
    let known = raced.failed.iter().all(Option::is_none).then(|| first.best()).flatten();
    let size = known.map_or(1.0, |of| of.mean.abs());
    Ok((question.within * size).max(f64::MIN_POSITIVE))
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
            replications: 0,
            bottleneck: None,
            failed: None,
            changes: option.changes.clone(),
        }
    }
}

fn standing(
    question: &Question<'_>,
    option: &PlanOption,
    (setting, at): (&Setting, usize),
    raced: &Raced,
) -> Result<Standing, Failed> {
    let unknown = Standing::unknown(option);
    if let Some(why) = &raced.failed[at] {
        return Ok(Standing { failed: Some(why.clone()), ..unknown });
    }
    let (place, misses) = match raced.race.place(at) {
        Place::Best => (Rank::Best, None),
        Place::Beaten(_) => (Rank::Worse, None),
        Place::Misses(goal) => (Rank::Misses, Some(goal)),
        Place::Undecided | Place::Withdrawn => (Rank::Undecided, None),
    };
    let (_, report) = first_report(question, setting)?;
    let goals = 0..question.goals.len();
    let items = report.cost.as_ref().map_or(Vec::new(), |cost| cost.items.clone());
    Ok(Standing {
        place,
        misses,
        figures: goals.filter_map(|index| setting.goal(index)).collect(),
        best: question.best.and_then(|_| setting.best()),
        samples_per_second: setting.speed(),
        cost_per_month: setting.month(),
        items,
        replications: setting.replications(),
        bottleneck: limit(&report),
        ..unknown
    })
}

/// Marks the options of which no other one is at least as fast and as cheap, and better in one of both.
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
