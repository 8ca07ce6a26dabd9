//! CPU work of the trainer itself on the node's cores: launching kernels, the interpreter.

use super::{Device, Job};
use crate::Distribution;
use crate::check::Check;
use crate::distribution::or_table::{Table, TimeOr};
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Share};
use crate::role::Role;
use forebay_model::units::Time;
use schemars::JsonSchema;

/// CPU work of each GPU's trainer on its node's cores for each step, beside the loader's work: launching kernels, the
/// interpreter.
///
/// If the work is launched while the device computes, a step takes the longer of two times: the trainer's CPU time and
/// the device's computing time. The trainer does this work when the step begins, also where `device.gpu.ahead` lets it
/// take batches for later steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// CPU work of each of the trainer's threads [core-seconds].
    pub work: Distribution,
    /// Time for which the trainer then waits without a core, drawn anew for each trainer and step [s].
    pub varying: Distribution,
    /// CPU work before that, to take the step's batch from the loader [core-seconds].
    pub taking: f64,
    /// Part of `work` that was measured with it and takes a batch [core-seconds]; 0 once the loader charges for it.
    pub(super) includes_taking: f64,
    /// Time after that for which the trainer holds what only one trainer on its node can hold at a time [s].
    pub serial: f64,
    /// Number of the trainer's threads, each on at most one core.
    pub threads: u32,
    /// Whether the device computes while the threads work; otherwise it begins when they are done.
    pub overlap: bool,
    /// Share of a thread's time in which it holds the interpreter's lock; a loader and its trainers have one lock in
    /// common. Its trainers on another node have another one.
    pub lock: f64,
}

impl Launch {
    /// Returns the launch of a trainer that only takes batches, each for so many core-seconds.
    fn of_batches(taking: f64, overlap: bool) -> Launch {
        let none = Distribution::Constant(0.0);
        let (work, varying) = (none.clone(), none);
        let includes_taking = 0.0;
        Launch {
            work,
            varying,
            taking,
            includes_taking,
            serial: 0.0,
            threads: 1,
            overlap,
            lock: 0.0,
        }
    }

    /// Returns whether the trainer does more than to take batches.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let none = Distribution::Constant(0.0);
        self.work != none || self.varying != none || self.serial > 0.0
    }
}

impl Job {
    /// Adds what its loader costs the trainer for each batch: to its steps where they run on cores, otherwise to what it does before each
    /// step.
    pub(super) fn add_taking(&mut self) {
        let taking = self.loader.taking;
        match (self.device, &mut self.launch) {
            _ if taking <= 0.0 => {}
            (Device::Cpu { .. }, _) => {
                self.step.fixed += taking;
                self.step.floor += taking;
            }
            (Device::Accelerator, Some(launch)) => {
                launch.taking = taking;
                if let Distribution::Constant(work) = &mut launch.work {
                    *work = (*work - launch.includes_taking).max(0.0);
                }
            }
            (Device::Accelerator, launch) => *launch = Some(Launch::of_batches(taking, false)),
        }
    }
}

/// Settings of `launch`: a time or a table.
pub(super) type Written = Field<TimeOr<LaunchSettings>>;

/// CPU work of the trainer itself on the node's cores for each step: launching kernels, the interpreter. Where a model
/// is split over GPUs, each GPU has a trainer with this work, on the cores of its own node.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LaunchSettings {
    /// CPU work of each thread, in core-seconds (default: as the profile says if `measured` is true; otherwise the key is required).
    #[schemars(extend("x-role" = Role::Limit))]
    work: Field<Varying<Time>>,
    /// Time that a trainer takes after `work`, without a core, and that differs from trainer to trainer and from step to step: waking up,
    /// messages, logs. Where ranks wait for each other at the end of a step, the step has the longest of theirs (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    varying: Field<Varying<Time>>,
    /// Time of a step, after the work, for which a trainer holds what all trainers on its node share: the kernel's locks, a log,
    /// the bandwidth of memory. The trainers of a node take turns, so that n of them take n times as long (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    serial: Field<Amount<Time>>,
    /// Number of threads, each on at most one core (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    threads: Field<Count<1, 10_000>>,
    /// Whether the device computes while the threads work, as with asynchronous launches (default: true).
    #[schemars(extend("x-role" = Role::Choice))]
    overlap: Field<bool>,
    /// Share of a thread's time in which it holds the interpreter's lock. Loader workers that are threads, and the
    /// pinning thread, need the same lock (default: 0).
    #[schemars(extend("x-role" = Role::Limit))]
    gil: Field<Share>,
    /// Whether `work`, `varying` and `serial` that are not written are what the profile has measured of PyTorch's ranks: taking a batch, and
    /// by how much ranks that wait for each other differ (default: false).
    #[schemars(extend("x-role" = Role::Choice))]
    measured: Field<bool>,
}

impl Table for LaunchSettings {
    const KEYS: &'static [&'static str] =
        &["work", "varying", "serial", "threads", "overlap", "gil", "measured"];
    const WHAT: &'static str =
        "what the trainer does on cores for each step: core-seconds, or those of several threads";
}

/// Returns the checked launch settings of a model; `None` if there are none, or they are wrong.
pub(super) fn resolve(written: &Written, check: Check<'_>, device: Device) -> Option<Launch> {
    let (at, settings) = written.given()?;
    if device != Device::Accelerator {
        let what = "a step on cores already includes the trainer's own work";
        check.wrong(at, what, "remove `launch`, or write `device = \"accelerator\"`");
    }
    match settings {
        TimeOr::Time(work) => {
            Some(Launch { work: work.resolve(check, at)?, ..Launch::of_batches(0.0, true) })
        }
        TimeOr::Table(table) => table.resolve(check, at),
    }
}

impl LaunchSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Launch> {
        let is_measured = self.measured.get().copied().unwrap_or(false);
        let measured =
            if is_measured { Some(Measured::of(check, self.measured.at)?) } else { None };
        if measured.is_none() {
            check.required(at, &self.work, "work", "write `work = \"2 ms\"`");
        }
        let of = |field: &Field<Varying<Time>>, measured: Option<Distribution>| match field.given()
        {
            Some((at, time)) => time.resolve(check, at),
            None => measured,
        };
        let constant = |measured: &Measured| Distribution::Constant(measured.work);
        let exponential = |measured: &Measured| match measured.varying {
            mean if mean > 0.0 => Distribution::Exponential { mean },
            _ => Distribution::Constant(0.0),
        };
        let none = Some(Distribution::Constant(0.0));
        let taking = measured.as_ref().filter(|_| !self.work.is_written());
        let includes_taking = taking.map_or(0.0, |measured| measured.taking);
        Some(Launch {
            includes_taking,
            work: of(&self.work, measured.as_ref().map(constant))?,
            varying: of(&self.varying, measured.as_ref().map(exponential).or(none))?,
            taking: 0.0,
            serial: match (self.serial.get(), measured) {
                (Some(time), _) => time.0,
                (None, measured) => measured.map_or(0.0, |measured| measured.serial),
            },
            threads: self.threads.get().map_or(1, |threads| threads.small()),
            overlap: self.overlap.get().copied().unwrap_or(true),
            lock: self.gil.get().map_or(0.0, |share| share.0),
        })
    }
}

/// What a profile has measured of ranks in a step beside computing [s].
struct Measured {
    work: f64,
    /// Part of `work` that takes a batch: the constant part of the loader's `take`.
    taking: f64,
    varying: f64,
    serial: f64,
}

impl Measured {
    /// Returns what the profile has measured; reports an error at `written` if it has not.
    fn of(check: Check<'_>, written: Option<NodeId>) -> Option<Measured> {
        let parts = check.profile.and_then(|profile| profile.loader.get("pytorch"));
        let ranks = parts.and_then(|parts| parts.get("ranks"));
        let (Some(parts), Some(ranks)) = (parts, ranks) else {
            if let Some(at) = written {
                let what = "no profile has measured what ranks do beside computing";
                let remedy = "name a `profile` from a plan with `[pytorch]`, or write `work`, `varying` and `serial`";
                check.wrong(at, what, remedy);
            }
            return None;
        };
        let value = |name: &str| ranks.value(name).unwrap_or(0.0);
        let taking = parts.get("take").and_then(|take| take.value("fixed")).unwrap_or(0.0);
        Some(Measured {
            work: value("work"),
            taking,
            varying: value("varying"),
            serial: value("serial"),
        })
    }
}
