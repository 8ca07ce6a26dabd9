//! Predicts points by simulation.

use super::bound::training;
use super::{Factors, Naive, Observed, Prediction, Refit, Work, naive};
use crate::profile::{Fit, Parameter, Profile};
use crate::report::{self, Unfinished};
use crate::scenario::{Override, Problems, Reading, Scenario, ScenarioFile, Value};
use crate::sim;
use crate::stats::{mean, student_975};
use crate::uncertainty;

/// 97.5th percentile of the standard normal distribution.
const NORMAL_975: f64 = 1.959_964;

/// Why a point cannot be predicted.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// The scenario has problems.
    #[error("{0}")]
    Problems(#[from] Problems),
    /// The run takes longer than can be simulated.
    #[error("{0}")]
    Unfinished(#[from] Unfinished),
}

/// Simulations of a point, each with parameters sampled from the uncertainty of the profile's measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The runs that completed a step.
    runs: Vec<Run>,
    seed: u64,
    /// Whether the scenario prescribes the time of the training steps, so that no run is faster than its trainers without stalls.
    steps_are_prescribed: bool,
    /// Number of explanations of measured rows, which the runs take in turn.
    explanations: usize,
    /// Prediction of the naive model, if it is applicable.
    pub naive: Option<Naive>,
}

/// A simulated run.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    number: u32,
    /// Duration of the run [s].
    seconds: f64,
    figures: Observed,
}

impl Simulated {
    /// Returns the prediction for one run, with the run-to-run noise that `profile` has; it is that of the best explanation of
    /// measured rows, and its interval holds those of all explanations. `None` if no simulation completed a step.
    #[must_use]
    pub fn predict(&self, profile: &Profile) -> Option<Prediction> {
        let slowed = |run: &Run| {
            let of = &run.figures;
            let factor = uncertainty::slowdown(profile, self.seed, run.number, run.seconds);
            let most = of.unstalled_rate.max(of.samples_per_second);
            let least = if self.steps_are_prescribed { of.samples_per_second / most } else { 0.0 };
            of.clone().slowed(factor.max(least))
        };
        let by = |explanation: usize| {
            let is_of = |run: &&Run| run.number as usize % self.explanations == explanation;
            let of = || self.runs.iter().filter(is_of);
            let simulated: Vec<Observed> = of().map(|run| run.figures.clone()).collect();
            Prediction::from_runs(&simulated, &of().map(slowed).collect::<Vec<_>>())
        };
        (0..self.explanations).filter_map(by).reduce(|a, b| Prediction {
            interval: [a.interval[0].min(b.interval[0]), a.interval[1].max(b.interval[1])],
            ..a
        })
    }
}

/// Simulates a point `runs` times, each time with a seed of its own and parameters sampled from the uncertainty of the
/// profile's measurements. `next_time` is added to the trainer's time for each batch [s].
///
/// # Errors
/// If the scenario has problems, or takes longer than can be simulated.
pub fn simulate(
    file: &ScenarioFile,
    overrides: &[Override],
    profile: &Profile,
    runs: u32,
    refit: Option<&Refit>,
    next_time: f64,
) -> Result<Simulated, PredictError> {
    let factors = refit.map_or(Factors::default(), |refit| refit.best().best);
    let factors = factors.with_batch(next_time);
    let fitted = factors.applied(resolve(file, overrides, profile)?);
    let seed = fitted.run.seed;
    let steps_are_prescribed = fitted.jobs.iter().all(|job| training(job) == Work::Timed);
    let naive = naive(&fitted);
    let explanations = refit.map_or(1, |refit| refit.explanations.len());
    let mut simulated =
        Simulated { runs: Vec::new(), seed, steps_are_prescribed, explanations, naive };
    for run in 0..runs {
        let drawn = uncertainty::drawn(profile, seed, run);
        let factors = refit.map_or(Factors::default(), |refit| refit.drawn(run));
        let factors = factors.with_batch(next_time);
        let scenario = factors.applied(resolve(file, overrides, &drawn)?);
        let outcome = sim::run(&scenario, run, &sim::Options::default());
        let seconds = outcome.makespan;
        let report = report::summarise(&scenario, &[outcome.whole()?], 0.0);
        let figures = Observed::from_report(&report);
        simulated.runs.extend(figures.map(|figures| Run { number: run, seconds, figures }));
    }
    Ok(simulated)
}

/// Simulates a point once without sampling; returns `None` if the run completes no step.
///
/// # Errors
/// If the scenario has problems, or takes longer than can be simulated.
pub fn show(
    file: &ScenarioFile,
    overrides: &[Override],
    profile: &Profile,
    factors: Factors,
) -> Result<Option<Observed>, PredictError> {
    Ok(figures(&factors.applied(resolve(file, overrides, profile)?))?)
}

/// Simulates a scenario once; returns `None` if the run completes no step.
///
/// # Errors
/// If the run takes longer than can be simulated.
pub fn figures(scenario: &Scenario) -> Result<Option<Observed>, Unfinished> {
    let outcome = sim::run(scenario, 0, &sim::Options::default());
    Ok(Observed::from_report(&report::summarise(scenario, &[outcome.whole()?], 0.0)))
}

/// Returns the override that makes a step of the only job `factor` times as long as its loader needs for the step's samples;
/// `None` if the simulation completes no step.
///
/// # Errors
/// If the scenario has problems, or takes longer than can be simulated.
pub fn step_at_crossover(
    file: &ScenarioFile,
    overrides: &[Override],
    profile: &Profile,
    factor: f64,
) -> Result<Option<String>, PredictError> {
    // This step time is shorter than that of any loader, so the simulated step takes as long as the loader needs.
    let hardly = Override::new("job.model.step".to_owned(), Value::from("1 us"));
    let overrides: Vec<Override> = overrides.iter().cloned().chain([hardly]).collect();
    let shown = show(file, &overrides, profile, Factors::default())?;
    let step =
        |shown: Observed| format!("job.model.step=\"{:.1} us\"", 1e6 * factor * shown.step_time);
    Ok(shown.map(step))
}

/// Returns the scenario on the machine that `profile` describes.
///
/// # Errors
/// If the scenario has problems.
pub fn resolve(
    file: &ScenarioFile,
    overrides: &[Override],
    profile: &Profile,
) -> Result<Scenario, Problems> {
    file.resolve_as(overrides, Reading { profile: Some(profile), ..Reading::default() })
}

/// Returns the profile with the run-to-run noise that `groups` of equal live runs show: the pooled relative standard deviation of
/// throughput, multiplied by the ratio of Student's t to the normal distribution (95 %), so that few runs give more noise.
/// Returns the profile unchanged if no group has two runs.
#[must_use]
pub fn with_noise(profile: &Profile, groups: &[Vec<Observed>]) -> Profile {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for group in groups {
        let rates: Vec<f64> = group.iter().map(|run| run.samples_per_second).collect();
        let Some(mean) = mean(&rates).filter(|mean| *mean > 0.0) else { continue };
        squares += rates.iter().map(|rate| (rate / mean - 1.0).powi(2)).sum::<f64>();
        freedom += rates.len() as f64 - 1.0;
    }
    noisy(profile, squares, freedom)
}

/// Returns the profile with its noise set from the errors of single runs, systematic errors included. Each group has the
/// predicted throughput and the live runs of a point. Returns the profile unchanged for fewer than two runs.
#[must_use]
pub fn with_errors(profile: &Profile, groups: &[(f64, &[Observed])]) -> Profile {
    let (mut squares, mut runs) = (0.0, 0.0);
    for (predicted, group) in groups.iter().filter(|(predicted, _)| *predicted > 0.0) {
        let errors = group.iter().map(|run| run.samples_per_second / predicted - 1.0);
        squares += errors.map(|error| error * error).sum::<f64>();
        runs += group.len() as f64;
    }
    noisy(profile, squares, if runs > 1.0 { runs } else { 0.0 })
}

/// Returns the profile with its run-to-run noise set to √(`squares` ÷ `freedom`), enlarged for few degrees of freedom.
fn noisy(profile: &Profile, squares: f64, freedom: f64) -> Profile {
    if freedom < 1.0 {
        return profile.clone();
    }
    let few = student_975(freedom).unwrap_or(NORMAL_975) / NORMAL_975;
    let value = (squares / freedom).sqrt() * few;
    let parameter = Parameter { value, unit: "1".to_owned(), ..Parameter::default() };
    let noise = Fit {
        parameters: [("run_to_run".to_owned(), parameter)].into(),
        samples: freedom as u64,
        ..Fit::default()
    };
    Profile { noise: Some(noise), ..profile.clone() }
}
