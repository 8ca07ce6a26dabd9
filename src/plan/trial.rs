//! Replications of changed scenarios, and what they show of the goals.
//!
//! Replication `r` of each changed scenario has the same random numbers (common random numbers), so that differences between
//! settings are known from fewer of them.

use super::goal::{Goal, Wanted};
use crate::report::{self, Outcome, Report};
use crate::scenario::{Override, Scenario, ScenarioFile};
use crate::select::{Observation, Place, Race, Rules};
use crate::sim;
use crate::stats::{mean, t_interval};
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Replications of each setting before anything is decided, at least.
const FIRST: usize = 5;

/// What is asked: the file, the goals, and how certain the answer is to be.
pub struct Question<'a> {
    /// The scenario file.
    pub file: &'a ScenarioFile,
    /// Changes to it that all settings have.
    pub overrides: &'a [Override],
    /// Goals that all are to hold.
    pub goals: &'a [Goal],
    /// Figure by which settings that meet the goals are chosen.
    pub best: Option<&'a Wanted>,
    /// Probability that the answer is right, where it matters by more than `within`.
    pub certainty: f64,
    /// Difference that does not matter: relative, or of all time for shares.
    pub within: f64,
    /// Replications of each setting at most.
    pub most: usize,
    /// Whether a simulation of a scenario fits into memory; why not.
    pub fits: &'a (dyn Fn(&Scenario) -> Result<(), String> + Sync),
    /// Flag that ends the plan when it is raised.
    pub stop: &'a AtomicBool,
    /// Number of replications that were simulated, for users who wait.
    pub simulated: &'a AtomicUsize,
}

/// Why a setting could not be tried, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// The setting is refused, or its figures are not known.
    Setting(String),
    /// A signal came.
    Stopped,
}

/// A figure of a setting over its replications.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Figured {
    /// Mean over replications.
    pub mean: f64,
    /// Student's 95 % interval of the mean; `None` for a single replication.
    pub ci95: Option<[f64; 2]>,
}

impl Figured {
    /// Returns the mean and its interval; `None` without values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Figured> {
        let mean = mean(values).filter(|mean| mean.is_finite())?;
        Some(Figured { mean, ci95: t_interval(values) })
    }
}

/// A changed scenario with its replications so far.
pub struct Setting {
    /// Changes to the scenario, after those that all settings have.
    pub changes: Vec<Override>,
    /// The scenario.
    pub scenario: Scenario,
    /// What each replication showed.
    runs: Vec<Run>,
    /// Whether all replications are equal.
    is_exact: bool,
    /// Whether a replication may show what another one does not, such as a failure, although two are equal.
    has_rare_events: bool,
}

/// What a replication shows.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    /// Figure of each goal.
    values: Vec<f64>,
    /// Figure by which settings are chosen.
    best: f64,
    /// Samples per second of all jobs and copies together.
    speed: f64,
    /// Cost of a month, if there are prices.
    month: Option<f64>,
    /// What tells whether another replication is the same: end, events and flows.
    print: (u64, u64, u64),
}

impl Setting {
    /// Makes a setting of changes to the question's scenario.
    ///
    /// # Errors
    /// If the changed scenario is refused or does not fit into memory.
    pub fn new(question: &Question<'_>, changes: Vec<Override>) -> Result<Setting, Failed> {
        let all: Vec<Override> = question.overrides.iter().chain(&changes).cloned().collect();
        let scenario = question.file.resolve(&all).map_err(|problems| {
            let first = problems.iter().next();
            let words = first.map(|of| match of.key.is_empty() {
                true => format!("{}; {}", of.what, of.remedy),
                false => format!("{}: {}; {}", of.key, of.what, of.remedy),
            });
            Failed::Setting(words.unwrap_or_default())
        })?;
        (question.fits)(&scenario).map_err(Failed::Setting)?;
        Ok(Setting::of(changes, scenario))
    }

    fn of(changes: Vec<Override>, scenario: Scenario) -> Setting {
        let has_rare_events = scenario.jobs.iter().any(|job| job.failures.is_some());
        Setting { changes, scenario, runs: Vec::new(), is_exact: false, has_rare_events }
    }

    /// Returns the number of replications.
    #[must_use]
    pub fn replications(&self) -> usize {
        self.runs.len()
    }

    /// Returns the figure of goal `index`.
    #[must_use]
    pub fn goal(&self, index: usize) -> Option<Figured> {
        self.figured(|run| run.values.get(index).copied())
    }

    /// Returns the figure by which settings are chosen.
    #[must_use]
    pub fn best(&self) -> Option<Figured> {
        self.figured(|run| Some(run.best))
    }

    /// Returns the samples per second of all jobs and copies together.
    #[must_use]
    pub fn speed(&self) -> Option<Figured> {
        self.figured(|run| Some(run.speed))
    }

    /// Returns the cost of a month; `None` without prices.
    #[must_use]
    pub fn month(&self) -> Option<Figured> {
        self.figured(|run| run.month)
    }

    fn figured(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Figured> {
        let values = self.runs.iter().map(of).collect::<Option<Vec<f64>>>()?;
        let figured = Figured::of(&values)?;
        match self.is_exact {
            true => Some(Figured { ci95: Some([figured.mean; 2]), ..figured }),
            false => Some(figured),
        }
    }

    /// Keeps a replication, unless it is kept. Two equal ones show that all are equal.
    fn keep(&mut self, number: usize, run: Run) {
        if number != self.runs.len() {
            return;
        }
        self.runs.push(run);
        if let [first, second] = &self.runs[..] {
            self.is_exact = first == second && !self.has_rare_events;
        }
    }

    fn observation(&self, question: &Question<'_>, number: usize) -> Observation {
        let run = &self.runs[number];
        let higher = question.best.is_some_and(Wanted::is_higher_better);
        let margins = question.goals.iter().zip(&run.values);
        Observation {
            objective: if higher { run.best } else { -run.best },
            margins: margins.map(|(goal, value)| goal.margin(*value)).collect(),
        }
    }
}

/// Simulates a replication.
fn simulate(
    question: &Question<'_>,
    scenario: &Scenario,
    replication: usize,
) -> Result<Outcome, Failed> {
    if question.stop.load(Ordering::Relaxed) {
        return Err(Failed::Stopped);
    }
    let options = sim::Options { stop: Some(question.stop), ..sim::Options::default() };
    let number = u32::try_from(replication).unwrap_or(u32::MAX);
    let outcome = sim::run(scenario, number, &options);
    question.simulated.fetch_add(1, Ordering::Relaxed);
    match question.stop.load(Ordering::Relaxed) {
        true => Err(Failed::Stopped),
        false => outcome.whole().map_err(|why| Failed::Setting(why.to_string())),
    }
}

/// Returns the report of a setting's first replication.
///
/// # Errors
/// If it is not whole, or a signal came.
pub fn first_report(
    question: &Question<'_>,
    setting: &Setting,
) -> Result<(Outcome, Report), Failed> {
    let outcome = simulate(question, &setting.scenario, 0)?;
    let report = report::summarise(&setting.scenario, std::slice::from_ref(&outcome), 0.0);
    Ok((outcome, report))
}

fn run(question: &Question<'_>, setting: &Setting, replication: usize) -> Result<Run, Failed> {
    let outcome = simulate(question, &setting.scenario, replication)?;
    let print = (outcome.makespan.to_bits(), outcome.events, outcome.flows);
    let report = report::summarise(&setting.scenario, &[outcome], 0.0);
    let unknown = |of: &Wanted| {
        let steps = report.jobs.iter().all(|job| job.figures.is_empty());
        let why = if steps { "no job completes a step" } else { "no run of the scenario shows it" };
        Failed::Setting(format!("`{}` is not known: {why}", of.text))
    };
    let values = question.goals.iter();
    let values = values.map(|goal| goal.value(&report).ok_or_else(|| unknown(&goal.wanted)));
    let values = values.collect::<Result<Vec<f64>, Failed>>()?;
    let best = match question.best {
        Some(wanted) => {
            wanted.value(&report, !wanted.is_higher_better()).ok_or_else(|| unknown(wanted))?
        }
        None => 0.0,
    };
    let speeds = report
        .jobs
        .iter()
        .map(|job| job.figures.samples_per_second.mean.unwrap_or(0.0) * f64::from(job.copies));
    let month = report.cost.as_ref().and_then(|cost| cost.month.mean);
    Ok(Run { values, best, speed: speeds.sum(), month, print })
}

/// Returns the figure by which options are chosen, larger being better, in one replication of a scenario.
///
/// # Errors
/// If the scenario misses a goal or fails, or a signal comes.
pub(super) fn one_value(question: &Question<'_>, scenario: &Scenario) -> Result<f64, Failed> {
    let setting = Setting::of(Vec::new(), scenario.clone());
    let run = run(question, &setting, 0)?;
    let seen = Setting { runs: vec![run], ..setting }.observation(question, 0);
    match seen.margins.iter().all(|margin| *margin >= 0.0) {
        true => Ok(seen.objective),
        false => Err(Failed::Setting("a goal is missed".to_owned())),
    }
}

/// Where each setting stands when all is decided, or no further replication is allowed.
pub struct Raced {
    /// The race.
    pub race: Race,
    /// For each setting why it could not be tried.
    pub failed: Vec<Option<String>>,
}

/// Simulates settings until it is decided which of them meet the goals and, if a figure is given by which they are chosen, which is the
/// best. `errors` is the probability of an error that is allowed; `indifference` the difference of the figure that does not matter.
///
/// # Errors
/// Only if a signal comes: a setting that fails leaves the race.
pub fn race(
    question: &Question<'_>,
    settings: &mut [Setting],
    (error, indifference): (f64, f64),
) -> Result<Raced, Failed> {
    let replications = settings.iter().map(|of| of.scenario.run.replications as usize);
    let first = replications.max().unwrap_or(0).max(FIRST).min(question.most.max(2));
    let rules = Rules {
        certainty: 1.0 - error,
        indifference,
        tolerances: question.goals.iter().map(|goal| goal.tolerance(question.within)).collect(),
        first,
        most: question.most.max(first),
    };
    let mut race = Race::new(settings.len(), rules);
    let mut failed = vec![None; settings.len()];
    loop {
        let mut wanted = race.wanted();
        // Two equal replications show that all are equal, before more are made.
        if wanted.iter().any(|(_, number)| *number < 2) {
            wanted.retain(|(_, number)| *number < 2);
        }
        // The first replications of a setting can be made at the same time.
        let begin = wanted.iter().flat_map(|(at, number)| {
            let until = if *number < 2 {
                2
            } else if *number < first {
                first
            } else {
                number + 1
            };
            (*number..until).map(|number| (*at, number))
        });
        let tasks: Vec<(usize, usize)> = begin.collect();
        if tasks.is_empty() {
            return Ok(Raced { race, failed });
        }
        let made: Vec<Result<Run, Failed>> = tasks
            .par_iter()
            .map(|(at, number)| match settings[*at].runs.get(*number) {
                Some(run) => Ok(run.clone()),
                None => run(question, &settings[*at], *number),
            })
            .collect();
        for ((at, number), made) in tasks.iter().zip(made) {
            match made {
                Ok(_) if failed[*at].is_some() => {}
                Ok(run) => {
                    let setting = &mut settings[*at];
                    setting.keep(*number, run);
                    race.observe(*at, &setting.observation(question, *number));
                    if *number == 1 && setting.is_exact {
                        race.settle(*at);
                    }
                }
                Err(Failed::Stopped) => return Err(Failed::Stopped),
                Err(Failed::Setting(why)) => {
                    failed[*at] = Some(why);
                    race.withdraw(*at);
                }
            }
        }
    }
}

/// Whether a setting meets the goals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Met {
    /// Whether all goals are met.
    pub meets: bool,
    /// Whether that was decided with the certainty that is asked for.
    pub certain: bool,
}

/// Simulates one setting until it is decided whether it meets the goals.
///
/// # Errors
/// If the setting fails, or a signal comes.
pub fn meets(question: &Question<'_>, setting: &mut Setting, error: f64) -> Result<Met, Failed> {
    let raced = race(question, std::slice::from_mut(setting), (error, 1.0))?;
    match raced.failed.into_iter().next().flatten() {
        Some(why) => Err(Failed::Setting(why)),
        None => {
            let meets = raced.race.best().is_some();
            let certain = raced.race.place(0) != Place::Undecided;
            Ok(Met { meets, certain })
        }
    }
}
