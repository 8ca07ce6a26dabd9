//! Whether a choice stays over what publications reached of nominal numbers, and over what the measurements of a profile allow.

use super::choice::Choice;
use super::trial::{Failed, Question, one_value};
use crate::profile::Profile;
use crate::ranges::{self, Common, DRAWS, Nominal};
use crate::scenario::{Override, Reading, Scenario};
use crate::uncertainty;
use crate::verdict::Source;
use rayon::prelude::*;

/// How often each option is the best over the draws.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OverDraws {
    /// Number of draws.
    pub draws: usize,
    /// Number of draws in which each option is the best, in the order of the options.
    pub best: Vec<usize>,
    /// Number of draws in which no option meets the goals.
    pub none: usize,
    /// What differs between the draws, in words: published results, or parameters of the profile.
    pub over: String,
    /// Which measurement would decide; `None` if the choice is the best in every draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<String>,
}

/// An option as draws change it.
struct Variant {
    /// Index of the option.
    option: usize,
    /// Its changes to the file.
    changes: Vec<Override>,
    /// Its nominal numbers.
    numbers: Vec<Nominal>,
    /// The profile that it names.
    profile: Option<Profile>,
}

/// Chooses again over each draw, with one replication of each option; `None` if the options have neither nominal numbers nor a profile.
///
/// # Errors
/// If a signal comes.
pub fn over_draws(
    question: &Question<'_>,
    choice: &Choice,
    before: &[Override],
) -> Result<Option<OverDraws>, Failed> {
    let tried = choice.options.iter().enumerate().filter(|(_, of)| of.failed.is_none());
    let made = tried.map(|(option, of)| {
        let changes = [question.overrides, before, &of.changes].concat();
        Variant::new(question, option, changes)
    });
    let Some(variants) = made.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some((_, seed)) = variants.first() else { return Ok(None) };
    let common = Common::of(variants.iter().map(|(of, _)| of.numbers.as_slice()), *seed);
    let has_profile = variants.iter().any(|(of, _)| of.profile.is_some());
    let over = match (!common.is_empty(), has_profile) {
        (true, true) => "what publications reached and the profile's measurements allow",
        (true, false) => "what publications reached",
        (false, true) => "what the profile's measurements allow",
        (false, false) => return Ok(None),
    };
    let value = |(draw, (variant, seed)): (usize, &(Variant, u64))| {
        let Some(scenario) = variant.in_draw(question, &common, (*seed, draw)) else {
            return Ok((variant.option, None));
        };
        match one_value(question, &scenario) {
            Err(Failed::Stopped) => Err(Failed::Stopped),
            other => Ok((variant.option, other.ok())),
        }
    };
    let tasks = (0..DRAWS).flat_map(|draw| variants.iter().map(move |of| (draw, of)));
    let values = tasks.collect::<Vec<_>>().into_par_iter().map(value);
    let values = values.collect::<Result<Vec<_>, Failed>>()?;
    let mut found = OverDraws {
        draws: DRAWS,
        best: vec![0; choice.options.len()],
        none: 0,
        over: over.to_owned(),
        measure: None,
    };
    let mut leads = Vec::new();
    for of_draw in values.chunks(variants.len()) {
        match best(of_draw, choice.best) {
            Some(best) => found.best[best] += 1,
            None => found.none += 1,
        }
        leads.push(lead(of_draw, choice.best));
    }
    let stays = choice.best.map_or(found.none, |best| found.best[best]);
    found.measure = (stays < DRAWS).then(|| remedy(common.followed(&leads)));
    Ok(Some(found))
}

impl Variant {
    /// Returns an option with its numbers, and the seed of its runs; `None` if its changes are refused.
    fn new(
        question: &Question<'_>,
        option: usize,
        changes: Vec<Override>,
    ) -> Option<(Variant, u64)> {
        let scenario = question.file.resolve(&changes).ok()?;
        let reading = Reading::default();
        let source = Source { file: question.file, overrides: &changes, reading };
        let numbers = ranges::nominal(source, &scenario);
        let profile = question.file.profile(&changes).ok()?.map(|of| (*of).clone());
        Some((Variant { option, changes, numbers, profile }, scenario.run.seed))
    }

    /// Returns the scenario of a draw; `None` if it is refused.
    fn in_draw(
        &self,
        question: &Question<'_>,
        common: &Common,
        (seed, draw): (u64, usize),
    ) -> Option<Scenario> {
        let run = u32::try_from(draw).ok()?;
        let drawn = self.profile.as_ref().map(|profile| uncertainty::drawn(profile, seed, run));
        let reading = Reading { profile: drawn.as_ref(), ..Reading::default() };
        let changes = common.changes(&self.numbers, draw);
        question.file.resolve_as(&[&self.changes[..], &changes].concat(), reading).ok()
    }
}

/// Returns the option with the largest value; of equal ones the one that was chosen, or the first.
fn best(of_draw: &[(usize, Option<f64>)], chosen: Option<usize>) -> Option<usize> {
    let known = of_draw.iter().filter_map(|(option, value)| Some((*option, (*value)?)));
    let key = |(option, value): (usize, f64)| (value, Some(option) == chosen);
    let larger = |a: &(usize, f64), b: &(usize, f64)| {
        let (a, b) = (key(*a), key(*b));
        a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
    };
    known.rev().max_by(larger).map(|(option, _)| option)
}

/// Returns by how much the chosen option is better than the best other one; infinite if only one of both meets the goals.
fn lead(of_draw: &[(usize, Option<f64>)], chosen: Option<usize>) -> f64 {
    let value = |is_chosen: bool| {
        let of = of_draw.iter().filter(|(option, _)| (Some(*option) == chosen) == is_chosen);
        of.filter_map(|(_, value)| *value).reduce(f64::max)
    };
    match (value(true), value(false)) {
        (Some(own), Some(other)) => own - other,
        (Some(_), None) => f64::INFINITY,
        (None, Some(_)) => f64::NEG_INFINITY,
        (None, None) => 0.0,
    }
}

fn remedy(number: Option<&Nominal>) -> String {
    match number {
        Some(of) => format!("measure what `{}` reaches: {}", of.key, of.range.measure),
        None => "calibrate with more trials, so that the profile's parameters are known better"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{best, lead};

    #[test]
    fn equal_options_leave_the_choice_as_it_is() {
        let of_draw = [(0, Some(2.0)), (1, Some(2.0)), (2, None)];
        assert_eq!(best(&of_draw, Some(1)), Some(1));
        assert_eq!(best(&of_draw, Some(2)), Some(0));
        assert_eq!(best(&[(0, None)], Some(0)), None);
    }

    #[test]
    fn the_lead_is_negative_where_another_option_is_better() {
        let of_draw = [(0, Some(2.0)), (1, Some(3.0)), (2, Some(1.0))];
        assert_eq!(lead(&of_draw, Some(0)), -1.0);
        assert_eq!(lead(&of_draw, Some(1)), 1.0);
        assert_eq!(lead(&[(0, None), (1, Some(1.0))], Some(0)), f64::NEG_INFINITY);
    }
}
