//! Timed experiments on this machine; this module does not depend on scenarios.
//!
//! A [`Probe`] lists its kinds of trials ([`Cell`]s), prepares what they need, and runs one trial at a time.
//! The [`Runner`] treats all probes alike: it runs the trials of all cells in random order, discards warm-up
//! trials, repeats each cell until the interval of its median is narrow or time is up, watches who else uses
//! the machine, and writes every sample to disk as soon as it exists (Hoefler and Belli, *Scientific
//! benchmarking of parallel computing systems*, SC 2015).
//!
//! A new probe is one file with settings (a table of the plan), `cells` and `trial`, and a line in
//! [`Plan`] and [`Plan::probes`].

mod burst;
mod cache;
mod clock;
mod cluster;
mod collective;
mod copy;
mod decode;
mod error;
mod fresh;
mod gate;
pub mod gpu;
mod hand_off;
mod host;
mod journal;
pub mod limits;
mod outlook;
mod plan;
mod pytorch;
pub mod read;
mod repeat;
mod ruler;
mod runner;
mod service;
mod step;
mod team;
mod watch;
mod workspace;

pub use burst::{BurstProbe, BurstSettings};
pub use cache::{CacheProbe, CacheSettings};
pub use clock::{ClockProbe, ClockSettings};
pub use cluster::{CLUSTER_PROBES, ClusterSettings};
pub use collective::{CollectiveProbe, CollectiveSettings};
pub use copy::{BesideSettings, CopyProbe, CopySettings, DecodingSettings, HostMemory};
pub use decode::{DecodeProbe, DecodeSettings};
pub use error::ProbeError;
pub use gate::{GateProbe, GateSettings};
pub use hand_off::{QueueProbe, QueueSettings};
pub use host::{HostProbe, HostSettings, Machine};
pub use journal::{Journal, wall_clock};
pub use outlook::{Spoiler, spoilers};
pub use plan::{
    Bytes, Count, List, Plan, PlanError, Rules, Seconds, Share, Tables, Watching, schema,
};
pub use pytorch::{PytorchProbe, PytorchSettings};
pub use read::{ReadProbe, ReadSettings};
pub use repeat::{leading_trend, median_interval};
pub use ruler::Ruler;
pub use runner::{CellSummary, End, Event, Runner, Summary};
pub use service::{ServiceProbe, ServiceSettings};
pub use step::{DeviceName, ModelName, StepProbe, StepSettings};
pub use team::{Member, Team, team};
pub use watch::{Glance, Limits};
pub use workspace::Workspace;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A kind of trial, which is repeated until its median is known well enough.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// Labels that distinguish the cell, such as `access = "direct"`.
    pub labels: BTreeMap<String, String>,
    /// Numbers that distinguish the cell, in SI units, such as `size` and `readers`.
    pub settings: BTreeMap<String, f64>,
}

impl Cell {
    /// Returns a cell with these labels and settings.
    #[must_use]
    pub fn new(labels: &[(&str, &str)], settings: &[(&str, f64)]) -> Cell {
        let label = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let setting = |&(name, value): &(&str, f64)| (name.to_owned(), value);
        Cell {
            labels: labels.iter().map(label).collect(),
            settings: settings.iter().map(setting).collect(),
        }
    }

    /// Returns a setting as a whole number; 0 if the cell does not have it.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        self.settings.get(name).map_or(0, |&value| value as usize)
    }

    /// Returns a label; empty if the cell does not have it.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// The result of one trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trial {
    /// Number of operations in the trial.
    pub operations: u64,
    /// Wall time of the operations, less the overhead of timing (see [`Ruler`]) [s].
    pub seconds: f64,
    /// Processor time of the threads that did the work, less the overhead of timing [core-s].
    pub core_seconds: f64,
    /// Number of threads that did the work.
    pub threads: usize,
    /// Time that the threads were ready but had no core, all threads together [s]; see [`Team::waited`].
    pub waited: f64,
    /// Processor time of other processes that the probe has started [core-s].
    pub elsewhere: f64,
    /// Further observations, for the sample.
    pub observed: BTreeMap<String, f64>,
    /// Why the trial must not be used, if the probe knows a reason.
    pub excluded: Option<String>,
}

/// Directory, times, seed and other values that a probe gets for its preparation and for each trial.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Empty directory for everything that this probe writes; it is removed after the probe.
    pub directory: &'a Path,
    /// Approximate time that a trial should take.
    pub length: Duration,
    /// Time that a trial may take if what it counts comes in bursts.
    pub longest: Duration,
    /// Relative standard error with which what a trial counts is known well enough.
    pub noise: f64,
    /// Overhead of timing itself.
    pub ruler: Ruler,
    /// Instant at which the probe's time is up.
    pub deadline: Instant,
    /// Set when the user interrupts the run.
    pub stop: &'a AtomicBool,
    /// Seed of the trial: differs from trial to trial, but is the same in the next calibration with the same
    /// plan.
    pub seed: u64,
}

impl Context<'_> {
    /// Checks that the probe may go on. Probes call this regularly in long preparations and trials.
    ///
    /// # Errors
    ///
    /// The user has interrupted the run, or the probe's time is up.
    pub fn go_on(&self) -> Result<(), ProbeError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted);
        }
        if Instant::now() >= self.deadline {
            return Err(ProbeError::Time);
        }
        Ok(())
    }
}

/// A timed experiment.
pub trait Probe {
    /// Returns the name of the probe in samples and plans, such as `read`.
    fn name(&self) -> &'static str;

    /// Returns the probe's kinds of trials. It is called again after `prepare`, which may have found some of
    /// them impossible.
    fn cells(&self) -> Vec<Cell>;

    /// Returns the largest size that the probe's directory may have at any time [B].
    fn disk(&self) -> u64 {
        0
    }

    /// Returns the probe's own time limit, if the plan gives it one.
    fn budget(&self) -> Option<Duration> {
        None
    }

    /// Returns the rules for this probe's trials, given the plan's `rules`.
    fn rules(&self, rules: Rules) -> Rules {
        rules
    }

    /// Prepares what trials need; this is not timed. Returns notes for the user.
    ///
    /// # Errors
    ///
    /// The preparation failed, so that no trial can run.
    fn prepare(&mut self, _context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        Ok(Vec::new())
    }

    /// Runs one trial of about `context.length`.
    ///
    /// # Errors
    ///
    /// The trial failed, and no further trial of this probe makes sense.
    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError>;
}
