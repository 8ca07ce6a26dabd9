//! What the trainer itself needs of the node's cores: launching kernels, the interpreter.

use super::Device;
use crate::Distribution;
use crate::check::Check;
use crate::distribution::or_table::{Table, TimeOr};
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Share};
use forebay_model::units::Time;
use schemars::JsonSchema;

/// What each model copy's trainer does on the node's cores for each step, beside the loader's work:
/// launching kernels, the interpreter.
///
/// A step whose work is launched while the device computes takes the longer of the two. The trainer
/// does not run ahead of its device by more than the step in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Work of each of its threads [core-seconds].
    pub work: Distribution,
    /// Threads that share it, each on at most one core.
    pub threads: u32,
    /// Whether the device computes meanwhile; otherwise it begins when the threads are done.
    pub overlap: bool,
    /// Share of its time in which it holds the interpreter's lock, of which a loader and its trainers
    /// have one.
    pub lock: f64,
}

/// How `launch` is written.
pub(super) type Written = Field<TimeOr<LaunchSettings>>;

/// What the trainer itself does on the node's cores for each step.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LaunchSettings {
    /// Core-seconds of each thread.
    #[schemars(required)]
    work: Field<Varying<Time>>,
    /// Threads, each on at most one core (default: 1).
    threads: Field<Count<1, 10_000>>,
    /// Whether the device computes meanwhile, as with launches that nobody waits for (default: true).
    overlap: Field<bool>,
    /// Share of its time in which it holds the interpreter's lock, with workers that are threads and the
    /// pinning thread (default: 0).
    gil: Field<Share>,
}

impl Table for LaunchSettings {
    const KEYS: &'static [&'static str] = &["work", "threads", "overlap", "gil"];
    const WHAT: &'static str =
        "what the trainer does on cores for each step: core-seconds, or those of several threads";
}

/// The checked launch of a model, if it has one.
pub(super) fn resolve(written: &Written, check: Check<'_>, device: Device) -> Option<Launch> {
    let (at, settings) = written.given()?;
    if device != Device::Accelerator {
        let what = "a step on cores is the trainer's own work already";
        check.wrong(at, what, "remove `launch`, or write `device = \"accelerator\"`");
    }
    match settings {
        TimeOr::Time(work) => {
            Some(Launch { work: work.resolve(check, at)?, threads: 1, overlap: true, lock: 0.0 })
        }
        TimeOr::Table(table) => table.resolve(check, at),
    }
}

impl LaunchSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Launch> {
        check.required(at, &self.work, "work", "write `work = \"2 ms\"`");
        let (work_at, work) = self.work.given()?;
        Some(Launch {
            work: work.resolve(check, work_at)?,
            threads: self.threads.get().map_or(1, |threads| threads.small()),
            overlap: self.overlap.get().copied().unwrap_or(true),
            lock: self.gil.get().map_or(0.0, |share| share.0),
        })
    }
}
