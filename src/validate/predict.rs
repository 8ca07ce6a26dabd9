//! What the simulated world expects of a point.

use super::{Factors, Naive, Observed, Prediction, Refit, naive};
use crate::profile::{Fit, Parameter, Profile};
use crate::report;
use crate::scenario::{Override, Problems, Reading, Scenario, ScenarioFile};
use crate::sim;
use crate::stats::mean;
use crate::uncertainty;

/// Simulates a point `runs` times, each time with parameters as the profile's measurements allow
/// them and a seed of its own; `None` where no run completed a step.
///
/// # Errors
/// With what is wrong with the scenario.
pub fn predict(
    file: &ScenarioFile,
    overrides: &[Override],
    profile: &Profile,
    runs: u32,
) -> Result<Option<(Prediction, Option<Naive>)>, Problems> {
    predict_with(file, overrides, profile, runs, None)
}

/// The same with times as rows of other runs told them.
///
/// # Errors
/// With what is wrong with the scenario.
pub fn predict_with(
    file: &ScenarioFile,
    overrides: &[Override],
    profile: &Profile,
    runs: u32,
    refit: Option<&Refit>,
) -> Result<Option<(Prediction, Option<Naive>)>, Problems> {
    let factors = refit.map_or(Factors::default(), Refit::factors);
    let fitted = factors.applied(resolve(file, overrides, profile)?);
    let seed = fitted.run.seed;
    let mut simulated = Vec::new();
    for run in 0..runs {
        let drawn = uncertainty::drawn(profile, seed, run);
        let factors = refit.map_or(Factors::default(), |refit| refit.drawn(run));
        let scenario = factors.applied(resolve(file, overrides, &drawn)?);
        let outcome = sim::run(&scenario, run, &sim::Options::default());
        let report = report::summarise(&scenario, &[outcome], 0.0);
        let slowdown = uncertainty::slowdown(profile, seed, run);
        simulated.extend(Observed::of(&report).map(|observed| observed.slowed(slowdown)));
    }
    Ok(Prediction::of(&simulated).map(|prediction| (prediction, naive(&fitted))))
}

/// One simulation with what was fitted, and no chance beside it; `None` where it completes no step.
///
/// # Errors
/// With what is wrong with the scenario.
pub fn show(
    file: &ScenarioFile,
    overrides: &[Override],
    profile: &Profile,
    factors: Factors,
) -> Result<Option<Observed>, Problems> {
    let scenario = factors.applied(resolve(file, overrides, profile)?);
    let outcome = sim::run(&scenario, 0, &sim::Options::default());
    Ok(Observed::of(&report::summarise(&scenario, &[outcome], 0.0)))
}

/// The scenario on a machine of which this is known.
fn resolve(
    file: &ScenarioFile,
    overrides: &[Override],
    profile: &Profile,
) -> Result<Scenario, Problems> {
    file.resolve_as(overrides, Reading { profile: Some(profile), ..Reading::default() })
}

/// The profile with the differences between equal runs that `groups` of live runs showed: relative
/// standard deviations of samples per second, pooled. Unchanged without two equal runs.
#[must_use]
pub fn with_noise(profile: &Profile, groups: &[Vec<Observed>]) -> Profile {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for group in groups {
        let rates: Vec<f64> = group.iter().map(|run| run.samples_per_second).collect();
        let Some(mean) = mean(&rates).filter(|mean| *mean > 0.0) else { continue };
        squares += rates.iter().map(|rate| (rate / mean - 1.0).powi(2)).sum::<f64>();
        freedom += rates.len() as f64 - 1.0;
    }
    if freedom < 1.0 {
        return profile.clone();
    }
    let value = (squares / freedom).sqrt();
    let parameter = Parameter { value, unit: "1".to_owned(), ..Parameter::default() };
    let noise = Fit {
        parameters: [("run_to_run".to_owned(), parameter)].into(),
        samples: groups.iter().map(|group| group.len() as u64).sum(),
        ..Fit::default()
    };
    Profile { noise: Some(noise), ..profile.clone() }
}
