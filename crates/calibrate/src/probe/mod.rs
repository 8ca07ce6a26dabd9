//! Timed experiments on this machine; knows nothing of scenarios.
//!
//! A [`Probe`] says which kinds of trials it has ([`Cell`]s), makes what they need, and runs one
//! trial at a time. The [`runner`](run) has the discipline, the same for all: trials of all cells
//! in random order, warm-up apart, as many repetitions as it takes until the interval of each
//! cell's median is narrow or time is up, an eye on who else uses the machine, and every sample on
//! disk as soon as it exists (Hoefler and Belli, *Scientific benchmarking of parallel computing
//! systems*, SC 2015).
//!
//! A new probe is one file with settings (a table of the plan), `cells` and `trial`, and a line in
//! [`Plan`] and [`Plan::probes`].

mod cache;
mod clock;
mod collective;
mod copy;
mod decode;
mod error;
pub mod gpu;
mod hand_off;
mod host;
mod journal;
pub mod limits;
mod plan;
pub mod read;
mod repeat;
mod ruler;
mod runner;
mod step;
mod team;
mod watch;
mod workspace;

pub use cache::{CacheProbe, CacheSettings};
pub use clock::{ClockProbe, ClockSettings};
pub use collective::{CollectiveProbe, CollectiveSettings};
pub use copy::{BesideSettings, CopyProbe, CopySettings, HostMemory};
pub use decode::{DecodeProbe, DecodeSettings};
pub use error::ProbeError;
pub use hand_off::{QueueProbe, QueueSettings};
pub use host::{HostProbe, HostSettings, Machine};
pub use journal::Journal;
pub use plan::{Bytes, Count, List, Plan, PlanError, Rules, Seconds, Share, Watching, schema};
pub use read::{ReadProbe, ReadSettings};
pub use repeat::{leading_trend, median_interval};
pub use ruler::Ruler;
pub use runner::{CellSummary, End, Event, Runner, Summary};
pub use step::{DeviceName, ModelName, StepProbe, StepSettings};
pub use team::{Member, Team, team};
pub use watch::{Glance, Limits};
pub use workspace::Workspace;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A kind of trial: repeated until its median is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// What distinguishes it and is no number: `access = "direct"`.
    pub labels: BTreeMap<String, String>,
    /// What is varied, in SI units: `size`, `readers`.
    pub settings: BTreeMap<String, f64>,
}

impl Cell {
    /// A cell with these labels and settings.
    #[must_use]
    pub fn new(labels: &[(&str, &str)], settings: &[(&str, f64)]) -> Cell {
        let label = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let setting = |&(name, value): &(&str, f64)| (name.to_owned(), value);
        Cell {
            labels: labels.iter().map(label).collect(),
            settings: settings.iter().map(setting).collect(),
        }
    }

    /// A setting as a whole number; 0 where there is none.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        self.settings.get(name).map_or(0, |&value| value as usize)
    }

    /// A label; empty where there is none.
    #[must_use]
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// What one trial showed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trial {
    /// Operations that it made.
    pub operations: u64,
    /// Their wall time, less the ruler's own [s].
    pub seconds: f64,
    /// Processor time of the threads that did the work, less the ruler's own [core-s].
    pub core_seconds: f64,
    /// Threads that did the work.
    pub threads: usize,
    /// Time that those threads were ready but had no core, all together [s]; see [`Team::waited`].
    pub waited: f64,
    /// Further observations, for the sample.
    pub observed: BTreeMap<String, f64>,
    /// Why it must not be used, where the probe knows.
    pub excluded: Option<String>,
}

/// What a probe may know of the run around it.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Empty directory of this probe: everything that it writes goes here, and vanishes after it.
    pub directory: &'a Path,
    /// How long a trial should take, about.
    pub length: Duration,
    /// What timing itself costs.
    pub ruler: Ruler,
    /// When the probe's time is up.
    pub deadline: Instant,
    /// Raised when the user has had enough.
    pub stop: &'a AtomicBool,
    /// Differs from trial to trial; the same in the next calibration by the same plan.
    pub seed: u64,
}

impl Context<'_> {
    /// To be asked in long preparations.
    ///
    /// # Errors
    ///
    /// The user has had enough, or the probe's time is up.
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
    /// Its name in samples and plans: `read`.
    fn name(&self) -> &'static str;

    /// Its kinds of trials. Asked again after `prepare`, which may have found some impossible.
    fn cells(&self) -> Vec<Cell>;

    /// Most bytes that it will have in its directory at a time [B].
    fn disk(&self) -> u64 {
        0
    }

    /// Its share of the time that the plan gives, if the plan gives one.
    fn budget(&self) -> Option<Duration> {
        None
    }

    /// The plan's rules for trials, or this probe's own.
    fn rules(&self, rules: Rules) -> Rules {
        rules
    }

    /// Makes what trials need; not timed. Returns what the user should know.
    ///
    /// # Errors
    ///
    /// Without it no trial can run.
    fn prepare(&mut self, _context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        Ok(Vec::new())
    }

    /// Runs one trial of about `context.length`.
    ///
    /// # Errors
    ///
    /// No further trial of this probe makes sense.
    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError>;
}
