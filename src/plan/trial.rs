//! Replications of changed scenarios, and what they show of the goals.
//!
//! Replication `r` of each changed scenario has the same random numbers (common random numbers), so that differences between
//! settings are known from fewer of them.

use super::figure::Wanted;
use super::goal::Goal;
use crate::report::{self, Figure, Outcome, Report};
use crate::scenario::{Override, Scenario, ScenarioFile};
use crate::select::{Known, Observation, Place, Race, Rules};
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
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Figured {
    /// Mean over replications.
    pub mean: f64,
    /// 95 % interval of the mean; `None` if it is not known.
    pub ci95: Option<[f64; 2]>,
}

impl Figured {
    /// Returns the mean of replications and Student's interval; `None` without values.
    fn of(values: &[f64]) -> Option<Figured> {
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
    /// The report of the replications that were made before anything was decided; it has rare stalls in its intervals.
    report: Option<Report>,
    /// Reasons why the figures may differ from those of the long run, a sentence each.
    warnings: Vec<String>,
    /// Whether all replications are equal, because nothing is drawn.
    is_exact: bool,
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
        let scenario = resolved(question, &changes)?;
        (question.fits)(&scenario).map_err(Failed::Setting)?;
        Ok(Setting::of(changes, scenario))
    }

    fn of(changes: Vec<Override>, scenario: Scenario) -> Setting {
        let (runs, warnings) = (Vec::new(), Vec::new());
        Setting { changes, scenario, runs, report: None, warnings, is_exact: false }
    }

    /// Returns the number of replications.
    #[must_use]
    pub fn replications(&self) -> usize {
        self.runs.len()
    }

    /// Returns the report of the first replications; `None` before the first replications.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Returns the reasons why the figures may differ from those of the long run, a sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the figure of each goal; empty before the first replications.
    #[must_use]
    pub fn goals(&self, question: &Question<'_>) -> Vec<Figured> {
        let all = question.goals.iter().enumerate();
        let one = |(at, goal): (usize, &Goal)| {
            self.figured(|report| goal.figure(report), |run| run.values.get(at).copied())
        };
        all.filter_map(one).collect()
    }

    /// Returns the figure by which settings are chosen; `None` before the first replications, or if there is none.
    #[must_use]
    pub fn best(&self, question: &Question<'_>) -> Option<Figured> {
        let wanted = question.best?;
        let figure = |report: &Report| wanted.figure(report, !wanted.is_higher_better());
        self.figured(figure, |run| Some(run.best))
    }

    /// Returns the samples per second of all jobs and copies together.
    #[must_use]
    pub fn speed(&self) -> Option<Figured> {
        self.figured(|_| None, |run| Some(run.speed))
    }

    /// Returns the cost of a month; `None` without prices.
    #[must_use]
    pub fn month(&self) -> Option<Figured> {
        self.figured(|report| Some(report.cost.as_ref()?.month), |run| run.month)
    }

    /// Returns a figure over all replications: as the report of the first ones has it, if there were no more, otherwise with Student's interval.
    fn figured(
        &self,
        of_report: impl Fn(&Report) -> Option<Figure>,
        of_run: impl Fn(&Run) -> Option<f64>,
    ) -> Option<Figured> {
        let values = self.runs.iter().map(of_run).collect::<Option<Vec<f64>>>()?;
        let figured = Figured::of(&values)?;
        if self.is_exact {
            return Some(Figured { ci95: Some([figured.mean; 2]), ..figured });
        }
        let report = self.report.as_ref().filter(|of| of.replications == self.runs.len());
        let reported = report
            .and_then(of_report)
            .and_then(|figure| Some(Figured { mean: figure.mean?, ci95: Some(figure.ci95?) }));
        Some(reported.unwrap_or(figured))
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

    /// Returns an interval for each figure from the report on the first replications. A figure that no replication changes, such as a
    /// price, has an interval of width 0.
    fn known(&self, question: &Question<'_>) -> Known {
        let interval = |wanted: &Wanted, figure: Option<Figure>| -> Option<[f64; 2]> {
            let figure = figure?;
            if wanted.is_fixed(&self.scenario) {
                return Some([figure.mean?; 2]);
            }
            // An interval without width is one over equal replications, which may be so by chance.
            figure.ci95.filter(|[low, high]| low < high)
        };
        let Some(report) = &self.report else { return Known::default() };
        let margins = question.goals.iter().map(|goal| {
            let ends = interval(&goal.wanted, goal.figure(report))?.map(|end| goal.margin(end));
            Some(if goal.most { [ends[1], ends[0]] } else { ends })
        });
        let objective = question.best.and_then(|wanted| {
            let higher = wanted.is_higher_better();
            let [low, high] = interval(wanted, wanted.figure(report, !higher))?;
            Some(if higher { [low, high] } else { [-high, -low] })
        });
        Known { objective, margins: margins.collect() }
    }
}

/// Returns the scenario with these changes, after those that all settings have.
///
/// # Errors
/// If it is refused: the first reason, in a line.
pub(super) fn resolved(question: &Question<'_>, changes: &[Override]) -> Result<Scenario, Failed> {
    let all = [question.overrides, changes].concat();
    question.file.resolve(&all).map_err(|problems| Failed::Setting(problems.in_one_line()))
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

/// Returns what the first replication of a setting did, for a verdict on it.
///
/// # Errors
/// If it is not whole, or a signal came.
pub fn first_outcome(question: &Question<'_>, setting: &Setting) -> Result<Outcome, Failed> {
    simulate(question, &setting.scenario, 0)
}

/// Returns what a replication shows.
///
/// # Errors
/// If it does not show a figure.
fn seen(question: &Question<'_>, scenario: &Scenario, outcome: Outcome) -> Result<Run, Failed> {
    let print = (outcome.makespan.to_bits(), outcome.events, outcome.flows);
    let report = report::summarise(scenario, &[outcome], 0.0);
    let unknown = |of: &Wanted| {
        let steps = report.jobs.iter().all(|job| job.figures.is_empty());
        let without = report.jobs.iter().find(|job| {
            of.is_of_time() && of.of_job(&report, job).is_none_or(|figure| figure.mean.is_none())
        });
        let why = match without.filter(|_| of.job.is_none() && report.jobs.len() > 1) {
            _ if steps => "no job completes a step".to_owned(),
            Some(job) => format!(
                "no run shows it for `{0}`; write `{1} of JOB` for a job that has it",
                job.name, of.text
            ),
            None => "no run of the scenario shows it".to_owned(),
        };
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

fn run(question: &Question<'_>, scenario: &Scenario, replication: usize) -> Result<Run, Failed> {
    simulate(question, scenario, replication).and_then(|outcome| seen(question, scenario, outcome))
}

/// Returns the figure by which options are chosen, larger being better, in one replication of a scenario.
///
/// # Errors
/// If the scenario misses a goal or fails, or a signal comes.
pub(super) fn one_value(question: &Question<'_>, scenario: &Scenario) -> Result<f64, Failed> {
    let setting = Setting::of(Vec::new(), scenario.clone());
    let run = run(question, scenario, 0)?;
    let seen = Setting { runs: vec![run], ..setting }.observation(question, 0);
    match seen.margins.iter().all(|margin| *margin >= 0.0) {
        true => Ok(seen.objective),
        false => Err(Failed::Setting("a goal is missed".to_owned())),
    }
}

/// Returns the number of replications of a setting before anything is decided: as many as the scenario asks for, or more.
fn first_stage(question: &Question<'_>, settings: &[Setting]) -> usize {
    let replications = settings.iter().map(|of| of.scenario.run.replications as usize);
    replications.max().unwrap_or(0).max(FIRST).min(question.most.max(2))
}

/// Why a setting could not be tried when a signal came.
const STOPPED: &str = "the plan was interrupted before";

/// Makes the first replications of settings that have none, and their reports. Returns for each setting why it could not be tried, and
/// whether a signal came. Where nothing is drawn and two replications are equal, all are.
pub(super) fn begin(
    question: &Question<'_>,
    settings: &mut [Setting],
) -> (Vec<Option<String>>, bool) {
    let first = first_stage(question, settings);
    // Outcomes take memory: at most about as many are kept at a time as threads make.
    let together = rayon::current_num_threads().div_ceil(first);
    let (mut failed, mut is_stopped) = (Vec::new(), false);
    for some in settings.chunks_mut(together) {
        let made: Vec<Result<(), Failed>> =
            some.par_iter_mut().map(|setting| setting.begin(question, first)).collect();
        for result in made {
            failed.push(match result {
                Ok(()) => None,
                Err(Failed::Setting(why)) => Some(why),
                Err(Failed::Stopped) => {
                    is_stopped = true;
                    Some(STOPPED.to_owned())
                }
            });
        }
    }
    (failed, is_stopped)
}

impl Setting {
    fn begin(&mut self, question: &Question<'_>, first: usize) -> Result<(), Failed> {
        if !self.runs.is_empty() {
            return Ok(());
        }
        let make = |numbers: std::ops::Range<usize>| -> Result<Vec<(Outcome, Run)>, Failed> {
            let numbers = numbers.into_par_iter();
            let both = numbers.map(|number| {
                let outcome = simulate(question, &self.scenario, number)?;
                let run = seen(question, &self.scenario, outcome.clone())?;
                Ok((outcome, run))
            });
            both.collect()
        };
        let is_drawn = !report::draws_nothing(&self.scenario);
        let mut made = make(0..if is_drawn { first } else { 2 })?;
        if !is_drawn {
            self.is_exact = made[0].1 == made[1].1;
            match self.is_exact {
                true => made.truncate(1),
                false => made.extend(make(2..first)?),
            }
        }
        let (outcomes, runs): (Vec<Outcome>, Vec<Run>) = made.into_iter().unzip();
        let report = report::summarise(&self.scenario, &outcomes, 0.0);
        self.warnings = report.jobs.iter().filter_map(report::text::short_run).collect();
        self.warnings.extend(report::run_warnings(&self.scenario, &outcomes));
        self.warnings.extend(report::lockstep(&self.scenario));
        self.report = Some(report);
        self.runs = runs;
        Ok(())
    }
}

/// Where each setting stands when all is decided, or no further replication is allowed.
pub struct Raced {
    /// The race.
    pub race: Race,
    /// For each setting why it could not be tried.
    pub failed: Vec<Option<String>>,
    /// Whether the plan was interrupted before all was decided.
    pub is_stopped: bool,
}

/// Simulates settings until it is decided which of them meet the goals and, if a figure is given by which they are chosen, which is the
/// best, or a signal comes. `errors` is the probability of an error that is allowed; `indifference` the difference of the figure that does
/// not matter. A setting that fails leaves the race.
pub fn race(
    question: &Question<'_>,
    settings: &mut [Setting],
    (error, indifference): (f64, f64),
) -> Raced {
    let (mut failed, mut is_stopped) = begin(question, settings);
    let first = first_stage(question, settings);
    let rules = Rules {
        certainty: 1.0 - error,
        indifference,
        tolerances: question.goals.iter().map(|goal| goal.tolerance(question.within)).collect(),
        first,
        most: question.most.max(first),
    };
    let mut race = Race::new(settings.len(), rules);
    for (at, setting) in settings.iter().enumerate() {
        if failed[at].is_some() {
            race.withdraw(at);
            continue;
        }
        race.know(at, setting.known(question));
        (0..setting.runs.len()).for_each(|number| {
            race.observe(at, &setting.observation(question, number));
        });
        if setting.is_exact {
            race.settle(at);
        }
    }
    loop {
        let wanted = race.wanted();
        if wanted.is_empty() || is_stopped {
            return Raced { race, failed, is_stopped };
        }
        // An eighth more at a time, so that a single setting keeps several threads busy.
        let next = |(at, number): &(usize, usize)| {
            let until = (number + number.div_ceil(8)).min(question.most.max(first));
            (*number..until.max(number + 1)).map(move |number| (*at, number)).collect::<Vec<_>>()
        };
        let tasks: Vec<(usize, usize)> = wanted.iter().flat_map(next).collect();
        let made: Vec<Result<Run, Failed>> = tasks
            .par_iter()
            .map(|(at, number)| run(question, &settings[*at].scenario, *number))
            .collect();
        for ((at, number), made) in tasks.into_iter().zip(made) {
            match made {
                Ok(_) if failed[at].is_some() || is_stopped => {}
                Ok(run) => {
                    settings[at].runs.push(run);
                    race.observe(at, &settings[at].observation(question, number));
                }
                // A race observes replications in order, so that those after a missing one are dropped.
                Err(Failed::Stopped) => is_stopped = true,
                Err(Failed::Setting(why)) => {
                    failed[at] = Some(why);
                    race.withdraw(at);
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
    let raced = race(question, std::slice::from_mut(setting), (error, 1.0));
    match raced.failed.into_iter().next().flatten() {
        _ if raced.is_stopped => Err(Failed::Stopped),
        Some(why) => Err(Failed::Setting(why)),
        None => {
            let meets = raced.race.best().is_some();
            let certain = raced.race.place(0) != Place::Undecided;
            Ok(Met { meets, certain })
        }
    }
}
