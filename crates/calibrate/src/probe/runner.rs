//! Runs the trials of probes in random order, repeats them until their medians are known well enough, and
//! notes what others took of the process's cores meanwhile.

mod state;
mod summary;

pub use summary::{CellSummary, End, Summary};

use super::repeat::leading_trend;
use super::{Context, Glance, Journal, Limits, Probe, ProbeError, Ruler, Rules, Workspace};
use crate::measurement::Sample;
use crate::probe::wall_clock;
use forebay_model::random::{Purpose, Streams};
use rand::Rng;
use rand::seq::SliceRandom;
use state::State;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Largest drift of a cell's trials that is ignored, as a share of the trials' median.
pub(super) const DRIFT: f64 = 0.03;

/// Runs probes by these rules and limits.
#[derive(Debug, Clone, Copy)]
pub struct Runner<'a> {
    /// Length and number of trials.
    pub rules: Rules,
    /// Limits beyond which a trial counts as one beside others.
    pub limits: Limits,
    /// Number of cores that this process may use.
    pub cores: f64,
    /// Overhead of timing itself.
    pub ruler: Ruler,
    /// Random seed of the order of trials, of the order of reads and of generated data.
    pub seed: u64,
    /// Directory in which probes write.
    pub workspace: &'a Workspace,
    /// Instant at which the time for all probes is up.
    pub deadline: Instant,
    /// Set when the user interrupts the run.
    pub stop: &'a AtomicBool,
}

/// Something that happens during a run, for the caller to show.
#[derive(Debug)]
pub enum Event<'e> {
    /// The probe of this name begins its preparation.
    Prepare(&'e str),
    /// Name of a probe, and its note for the user.
    Note(&'e str, &'e str),
    /// Sample of a trial that has ended, and estimated number of trials to come.
    Trial(&'e Sample, u64),
    /// The probe of this name ends early, for this reason.
    Failure(&'e str, &'e ProbeError),
}

impl Runner<'_> {
    /// Runs the probes one after the other. Each may use an equal part of the time that is left, or the time of
    /// its own budget. A probe that fails does not keep the others from running.
    ///
    /// # Errors
    ///
    /// Samples cannot be written.
    pub fn run(
        &self,
        probes: &mut [Box<dyn Probe>],
        journal: &mut Journal,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<Summary, ProbeError> {
        let needed = probes.iter().map(|probe| probe.disk()).max().unwrap_or(0);
        self.workspace.room(needed)?;
        let mut summary = Summary::default();
        let count = probes.len();
        for (index, probe) in probes.iter_mut().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                summary.interrupted = true;
                break;
            }
            let now = Instant::now();
            let left = self.deadline.saturating_duration_since(now);
            let part = left / u32::try_from(count - index).unwrap_or(1);
            let deadline = now + probe.budget().map_or(part, |budget| budget.min(left));
            let ended = self.probe(probe.as_mut(), deadline, journal, &mut summary, on);
            self.workspace.clear(probe.name());
            match ended {
                Ok(()) => {}
                Err(Stopped::Journal(error)) => return Err(error),
                Err(Stopped::Probe(ProbeError::Interrupted)) => summary.interrupted = true,
                Err(Stopped::Probe(error)) => {
                    on(Event::Failure(probe.name(), &error));
                    summary.failures.push((probe.name().to_owned(), error));
                }
            }
        }
        journal.replace(mark_trends(journal.samples().to_vec()))?;
        Ok(summary)
    }

    /// Runs one probe until all its cells are known well enough or its time is up.
    fn probe(
        &self,
        probe: &mut dyn Probe,
        deadline: Instant,
        journal: &mut Journal,
        summary: &mut Summary,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Stopped> {
        let (name, rules) = (probe.name(), probe.rules(self.rules));
        let mut states = self.states(probe, journal);
        let mut ended = Ok(());
        if states.iter().any(|state| state.hungry(&rules)) {
            on(Event::Prepare(name));
            ended = self.prepare(probe, deadline, summary, on).and_then(|directory| {
                states = self.states(probe, journal);
                self.rounds(probe, &directory, deadline, &mut states, journal, on)
            });
        }
        summary.add(name, &states, &rules, ended.is_ok());
        ended
    }

    /// Makes a directory for a probe and has the probe prepare itself there; returns the directory.
    fn prepare(
        &self,
        probe: &mut dyn Probe,
        deadline: Instant,
        summary: &mut Summary,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<PathBuf, Stopped> {
        let name = probe.name();
        let directory = self.workspace.directory(name)?;
        for note in probe.prepare(&self.context(&directory, deadline, self.seed))? {
            on(Event::Note(name, &note));
            summary.notes.push((name.to_owned(), note));
        }
        Ok(directory)
    }

    /// Returns the state of each cell of a probe, computed from the samples in the journal.
    fn states(&self, probe: &dyn Probe, journal: &Journal) -> Vec<State> {
        let cells = probe.cells().into_iter();
        cells.map(|cell| State::new(probe.name(), cell, journal.samples())).collect()
    }

    /// Runs rounds of trials over the cells that need more trials, each round in a random order of its own.
    fn rounds(
        &self,
        probe: &mut dyn Probe,
        directory: &Path,
        deadline: Instant,
        states: &mut [State],
        journal: &mut Journal,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Stopped> {
        let rules = probe.rules(self.rules);
        let longest = longest(&rules, deadline, states.len());
        let streams = Streams::new(self.seed, 0);
        let owner = probe.name().bytes().fold(0, |sum: u64, byte| sum * 31 + u64::from(byte));
        for round in journal.samples().len() as u64.. {
            let hungry = |&index: &usize| states[index].hungry(&rules);
            let mut order: Vec<usize> = (0..states.len()).filter(hungry).collect();
            if order.is_empty() {
                return Ok(());
            }
            let mut generator = streams.at(Purpose::Trial, owner, round, 0);
            order.shuffle(&mut generator);
            for index in order {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(ProbeError::Interrupted.into());
                }
                if Instant::now() >= deadline {
                    return Ok(());
                }
                let context = self.context(directory, deadline, generator.next_u64());
                let mut context = Context { noise: noise(&rules), ..context };
                // A warm-up trial need not be precise.
                if states[index].session >= rules.warm_up {
                    context.longest = longest;
                }
                let sample = match self.trial(probe, &states[index], &context) {
                    // Time was up during a long trial.
                    Err(ProbeError::Time) => return Ok(()),
                    ended => ended?,
                };
                states[index].add(&sample);
                let left = states.iter().map(|state| state.left(&rules)).sum();
                journal.append(sample.clone()).map_err(Stopped::Journal)?;
                on(Event::Trial(&sample, left));
            }
        }
        Ok(())
    }

    /// Runs one trial, decides whether it may be used, and notes what others took of the process's cores.
    fn trial(
        &self,
        probe: &mut dyn Probe,
        state: &State,
        context: &Context<'_>,
    ) -> Result<Sample, ProbeError> {
        let before = Glance::now();
        let trial = probe.trial(&state.cell, context)?;
        let between = Glance::now().since(&before).without(trial.elsewhere);
        let (threads, core) = (trial.threads, trial.core_seconds.max(trial.elsewhere));
        let beside = self.limits.judge(&between, self.cores, threads, core, trial.waited);
        let excluded = if state.session < probe.rules(self.rules).warm_up {
            Some("warm-up".to_owned())
        } else if trial.operations == 0 || !trial.seconds.is_finite() {
            Some("no operation was completed".to_owned())
        } else {
            trial.excluded.clone()
        };
        let mut observed = trial.observed;
        observed.insert("waited".to_owned(), trial.waited);
        observed.insert("others".to_owned(), between.others);
        observed.insert("steal".to_owned(), between.steal);
        observed.insert("throttled".to_owned(), between.throttled);
        // JSON has only finite numbers.
        observed.retain(|_, value| value.is_finite());
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        Ok(Sample {
            probe: probe.name().to_owned(),
            labels: state.cell.labels.clone(),
            settings: state.cell.settings.clone(),
            trial: state.total,
            operations: trial.operations,
            seconds: finite(trial.seconds),
            core_seconds: finite(trial.core_seconds),
            observed,
            beside,
            excluded,
            at: wall_clock(),
        })
    }

    fn context<'c>(&'c self, directory: &'c Path, deadline: Instant, seed: u64) -> Context<'c> {
        Context {
            directory,
            length: self.rules.length.duration(),
            longest: self.rules.length.duration(),
            noise: 1.0,
            ruler: self.ruler,
            deadline,
            stop: self.stop,
            seed,
        }
    }
}

/// Number of rounds for which long trials leave time: cells with one trial each show no noise.
const ROUNDS: u32 = 3;
/// Largest length of a trial, as a multiple of the plan's.
const STRETCH: u32 = 20;

/// Returns the time that a trial of `cells` cells may take if what it counts comes in bursts. It stays the same until the
/// deadline, because equal trials must be equally long.
fn longest(rules: &Rules, deadline: Instant, cells: usize) -> Duration {
    let left = deadline.saturating_duration_since(Instant::now());
    let share = left / ROUNDS / u32::try_from(cells.max(1)).unwrap_or(u32::MAX);
    let length = rules.length.duration();
    share.clamp(length, length * STRETCH)
}

/// Returns the relative standard error of one trial with which the smallest number of trials reaches the plan's precision.
fn noise(rules: &Rules) -> f64 {
    rules.precision.0 * (rules.at_least.0 as f64).sqrt()
}

/// Why a probe's rounds ended.
enum Stopped {
    /// The probe cannot go on; other probes can.
    Probe(ProbeError),
    /// Samples cannot be written: no probe can go on.
    Journal(ProbeError),
}

impl From<ProbeError> for Stopped {
    fn from(error: ProbeError) -> Stopped {
        Stopped::Probe(error)
    }
}

/// Excludes the first trials of a cell if they drift and the later ones do not.
fn mark_trends(mut samples: Vec<Sample>) -> Vec<Sample> {
    const TREND: &str = "a trend: the first trials drift";
    let key =
        |sample: &Sample| format!("{} {:?} {:?}", sample.probe, sample.labels, sample.settings);
    let mut cells: std::collections::BTreeMap<String, Vec<usize>> = [].into();
    for (index, sample) in samples.iter_mut().enumerate() {
        sample.excluded.take_if(|why| why == TREND);
        if sample.excluded.is_none() && !state::is_series(sample) {
            cells.entry(key(sample)).or_default().push(index);
        }
    }
    for indices in cells.values() {
        let values: Vec<f64> = indices.iter().map(|&i| samples[i].seconds_each()).collect();
        for &index in &indices[..leading_trend(&values, DRIFT).unwrap_or(0)] {
            samples[index].excluded = Some(TREND.to_owned());
        }
    }
    samples
}

#[cfg(test)]
mod tests;
