//! A look at the run from time to time: whether it was interrupted, and whether its answer is known.

use std::sync::atomic::Ordering;

use crate::engine::Time;
use crate::report::{CacheRequests, JobOutcome, Known};

use super::fault::FaultRun;
use super::trainer::JobRun;
use super::world::World;

/// Events from one look to the next, at most.
const OFTEN: u64 = 65_536;

/// The same where the run may end at any time.
const FIRST: u64 = 1_024;

/// When to look.
#[derive(Debug)]
pub(super) struct Watch {
    /// Events handled.
    pub(super) handled: u64,
    /// How many they are at the next look.
    pub(super) next: u64,
    /// What ends a run of unwritten length.
    pub(super) known: Option<Known>,
    /// Events and transfers, as outcomes count them, at which the run ends at the latest.
    pub(super) most: u64,
    /// Events from which on it is asked whether the answer is known.
    ask: u64,
    /// Events until it is, from what was found when it was last asked; `u64::MAX` where that could not be told.
    expected: u64,
    /// Whether it is, or the run became too long.
    pub(super) ended: bool,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            handled: 0,
            next: FIRST,
            known: None,
            most: u64::MAX,
            ask: FIRST,
            expected: u64::MAX,
            ended: false,
        }
    }
}

impl Watch {
    /// Share of the events of a run of unwritten length that are over, at least; 0 of others.
    pub(super) fn share(&self) -> f64 {
        let until = |known: &Known| known.most().min(self.expected);
        let share = |known| (self.handled as f64 / until(known) as f64).min(1.0);
        self.known.as_ref().map_or(0.0, share)
    }
}

impl World<'_> {
    /// Tells how far the run has come, and ends it if somebody interrupted it, or its answer is known.
    #[cold]
    pub(super) fn look(&mut self) {
        if let Some(progress) = self.progress {
            self.tell_progress(progress);
        }
        let watch = &self.watch;
        let asks = watch.known.is_some() && watch.handled >= watch.ask;
        let times = if asks { self.times_as_long() } else { None };
        let known = times == Some(1.0);
        let watch = &mut self.watch;
        if asks {
            watch.expected = times.map_or(u64::MAX, |times| (times * watch.handled as f64) as u64);
            // Each time a third more, so that asking costs in proportion to the run.
            watch.ask = watch.handled + watch.handled / 3;
        }
        let left = watch.most.saturating_sub(watch.handled + self.flows);
        // An event may end a flow, which counts too.
        watch.next = watch.handled + OFTEN.min(left / 2 + 1);
        if watch.known.is_some() {
            watch.next = watch.next.min(watch.ask);
        }
        self.watch.ended |= known;
        let enough = self.watch.handled + self.flows >= self.watch.most;
        if known || enough || self.stop.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            self.unfinished = 0;
        }
    }

    /// Factor by which the run must grow until the throughput of every job is known: 1 if it is, or if the run has as many
    /// events as it may have; `None` if that cannot be told yet.
    fn times_as_long(&self) -> Option<f64> {
        let known = self.watch.known.as_ref()?;
        if self.watch.handled >= known.most() {
            return Some(1.0);
        }
        let last = self.jobs.iter().map(|job| job.job).max().unwrap_or(0);
        let longest = |times: f64, job| Some(times.max(self.times_of_job(known, job)?));
        self.has_all_happened().then_some(())?;
        (0..=last).try_fold(1.0, longest)
    }

    /// Whether every job copy trains, faults are over or have begun to stay, and failures and checkpoints have been seen.
    fn has_all_happened(&self) -> bool {
        let turned =
            |fault: &FaultRun| if fault.until == Time::NEVER { fault.from } else { fault.until };
        let shown = |job: &JobRun| {
            let recovery = job.recovery.as_ref().is_none_or(|recovery| recovery.is_shown());
            job.finished || job.steps.completed() > 0 && recovery
        };
        self.faults.iter().all(|fault| turned(fault) <= self.now) && self.jobs.iter().all(shown)
    }

    fn times_of_job(&self, known: &Known, job: usize) -> Option<f64> {
        let copies = || self.jobs.iter().filter(|run| run.job == job);
        if copies().all(|run| run.finished) {
            return Some(1.0);
        }
        let so_far: Vec<JobOutcome> = copies().map(|run| self.so_far(run)).collect();
        known.times_as_long(job, &so_far)
    }

    /// What a job copy has done so far, as far as that decides how long it runs.
    fn so_far(&self, job: &JobRun) -> JobOutcome {
        let loaders = &self.loaders[job.loaders];
        let keeps = loaders.iter().any(|loader| {
            loader.cached.is_some() || loader.tiers.is_some() || loader.decoded.is_some()
        });
        JobOutcome {
            start: job.start.seconds(),
            steps: job.steps.so_far(job.devices.len()),
            cache: if keeps { vec![CacheRequests::default()] } else { Vec::new() },
            ..JobOutcome::default()
        }
    }
}
