//! A look at the run from time to time: whether it was interrupted, and whether its answer is known.

use super::env::Env;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_engine::Time;
use forebay_report::{CacheRequests, JobOutcome, Known};

use super::fault::Faults;
use super::job_run::JobRun;
use super::jobs::Jobs;
use super::progress::Progress;
use super::world::Options;

/// Events from one look to the next, at most.
const OFTEN: u64 = 65_536;

/// The same where the run may end at any time.
const FIRST: u64 = 1_024;

/// When to look.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    /// Events handled, and transfers that ended.
    pub(super) handled: u64,
    /// Those of them that are ends of transfers, of one or of several that are alike.
    pub(super) transfers: u64,
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
    /// Events of the calendar, once the run is over.
    pub(super) events: u64,
    /// Ends the run when it becomes true.
    pub(super) stop: Option<&'a AtomicBool>,
    /// Told how far the run has come.
    pub(super) progress: Option<&'a Progress>,
    /// When the run ends, if it has not before.
    pub(super) until: Time,
}

impl<'a> Watch<'a> {
    /// Of a run that ends at `until` if it has not before, or once its answer is `known`.
    pub(super) fn new(options: &Options<'a>, until: Time, known: Option<Known>) -> Watch<'a> {
        Watch {
            handled: 0,
            transfers: 0,
            next: FIRST,
            known,
            most: options.most_events.unwrap_or(u64::MAX),
            ask: FIRST,
            expected: u64::MAX,
            ended: false,
            events: 0,
            stop: options.stop,
            progress: options.progress,
            until,
        }
    }
}

impl Watch<'_> {
    /// Share of the events of a run of unwritten length that are over, at least; 0 of others.
    pub(super) fn share(&self) -> f64 {
        let until = |known: &Known| known.most().min(self.expected);
        let share = |known| (self.handled as f64 / until(known) as f64).min(1.0);
        self.known.as_ref().map_or(0.0, share)
    }
}

impl Watch<'_> {
    /// One more event or group of transfers was handled: whether the run ends now, as is asked from time to time.
    #[inline]
    pub(super) fn ends(&mut self, env: &Env, jobs: &Jobs, faults: &Faults) -> bool {
        self.handled += 1;
        self.handled >= self.next && self.look(env, jobs, faults)
    }

    /// Tells how far the run has come; whether somebody interrupted it, or its answer is known.
    #[cold]
    fn look(&mut self, env: &Env, jobs: &Jobs, faults: &Faults) -> bool {
        if let Some(progress) = self.progress {
            self.tell(env, jobs, progress);
        }
        let asks = self.known.is_some() && self.handled >= self.ask;
        let times = if asks { self.times_as_long(env, jobs, faults) } else { None };
        let known = times == Some(1.0);
        if asks {
            self.expected = times.map_or(u64::MAX, |times| (times * self.handled as f64) as u64);
            // Each time a third more, so that asking costs in proportion to the run.
            self.ask = self.handled + self.handled / 3;
        }
        let counted = self.handled - self.transfers + env.flows;
        let left = self.most.saturating_sub(counted);
        // An event may end a flow, which counts too.
        self.next = self.handled + OFTEN.min(left / 2 + 1);
        if self.known.is_some() {
            self.next = self.next.min(self.ask);
        }
        self.ended |= known;
        let enough = counted >= self.most;
        known || enough || self.stop.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Factor by which the run must grow until the throughput of every job is known: 1 if it is, or if the run has as many
    /// events as it may have; `None` if that cannot be told yet.
    fn times_as_long(&self, env: &Env, jobs: &Jobs, faults: &Faults) -> Option<f64> {
        let known = self.known.as_ref()?;
        if self.handled >= known.most() {
            return Some(1.0);
        }
        let last = jobs.jobs.iter().map(|job| job.job).max().unwrap_or(0);
        let longest = |times: f64, job| Some(times.max(jobs.times_of_job(known, job)?));
        (faults.have_turned(env.now) && jobs.have_shown_all()).then_some(())?;
        (0..=last).try_fold(1.0, longest)
    }
}

impl Jobs {
    /// Whether every job copy trains, and failures and checkpoints have been seen.
    fn have_shown_all(&self) -> bool {
        let shown = |job: &JobRun| {
            let recovery = job.recovery.as_ref().is_none_or(|recovery| recovery.is_shown());
            job.finished || job.steps.completed() > 0 && recovery
        };
        self.jobs.iter().all(shown)
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
        let loaders = &self.loaders[job.parts.loaders];
        let keeps = loaders.iter().any(|loader| {
            loader.cached.is_some() || loader.tiers.is_some() || loader.decoded.is_some()
        });
        JobOutcome {
            start: job.start.seconds(),
            steps: job.steps.so_far(job.parts.devices.len()),
            cache: if keeps { vec![CacheRequests::default()] } else { Vec::new() },
            ..JobOutcome::default()
        }
    }
}
