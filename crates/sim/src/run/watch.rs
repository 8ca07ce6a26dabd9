//! Periodic checks of a run: whether it was interrupted, whether its result is known accurately enough, and its progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use forebay_engine::Time;
use forebay_report::{JobOutcome, Known};

use super::Options;
use crate::env::{Env, Faults};
use crate::job::{JobRun, Jobs};

/// Maximum number of events from one check to the next.
const OFTEN: u64 = 65_536;

/// Number of events before the first check.
const FIRST: u64 = 1_024;

/// The times at which a run is checked, and the conditions that end it.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    /// Number of events handled, plus number of groups of transfers that ended together.
    pub(super) handled: u64,
    /// Number of groups of equal transfers that ended together; they are included in `handled`.
    pub(super) transfers: u64,
    /// Value of `handled` at the next check.
    pub(super) next: u64,
    /// Rule that ends a run whose length the scenario does not give.
    pub(super) known: Option<Known>,
    /// Maximum number of events and transfers, counted as in outcomes, after which the run ends.
    pub(super) most: u64,
    /// Value of `handled` from which on a check tests whether the result is known.
    ask: u64,
    /// Value of `handled` at which the result is expected to be known, as estimated at the last test; `u64::MAX` if there is no
    /// estimate.
    expected: u64,
    /// Whether the run has ended because its result is known, or because it became too long.
    pub(super) ended: bool,
    /// Number of events of the calendar, once the run is over.
    pub(super) events: u64,
    /// Flag that ends the run when it becomes true.
    pub(super) stop: Option<&'a AtomicBool>,
    /// Object that receives the progress of the run.
    pub(super) progress: Option<&'a Progress>,
    /// Maximum simulated time of the run, at which it ends.
    pub(super) until: Time,
}

impl<'a> Watch<'a> {
    /// Returns the watch of a run that ends at time `until`, or earlier if the rule `known` says that its result is known.
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
    /// Returns a lower bound of the share of events done in a run whose length the scenario does not give; 0 for other runs.
    pub(super) fn share(&self) -> f64 {
        let until = |known: &Known| known.most().min(self.expected);
        let share = |known| (self.handled as f64 / until(known) as f64).min(1.0);
        self.known.as_ref().map_or(0.0, share)
    }
}

impl Watch<'_> {
    /// Counts one more event or group of transfers, and returns whether the run ends now. The conditions for its end are only
    /// checked from time to time.
    #[inline]
    pub(super) fn count_and_check(&mut self, env: &Env, jobs: &Jobs, faults: &Faults) -> bool {
        self.handled += 1;
        self.handled >= self.next && self.check(env, jobs, faults)
    }

    /// Reports progress; returns whether the run ends now, because it was interrupted, is too long, or its result is known.
    #[cold]
    fn check(&mut self, env: &Env, jobs: &Jobs, faults: &Faults) -> bool {
        if let Some(progress) = self.progress {
            self.tell(env, jobs, progress);
        }
        let asks = self.known.is_some() && self.handled >= self.ask;
        let times = if asks { self.times_as_long(env, jobs, faults) } else { None };
        let known = times == Some(1.0);
        if asks {
            self.expected = times.map_or(u64::MAX, |times| (times * self.handled as f64) as u64);
            // The interval grows by a third each time, so that the cost of testing stays proportional to the run.
            self.ask = self.handled + self.handled / 3;
        }
        let counted = self.handled - self.transfers + env.flows + env.before;
        let left = self.most.saturating_sub(counted);
        // An event may end a flow, which counts too, so only half of the remaining number is used.
        self.next = self.handled + OFTEN.min(left / 2 + 1);
        if self.known.is_some() {
            self.next = self.next.min(self.ask);
        }
        self.ended |= known;
        let enough = counted >= self.most;
        known || enough || self.stop.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Returns the factor by which the run must grow until the throughput of every job is known: 1 if it is known already, or
    /// if the run has reached its maximum number of events; `None` if there is no estimate yet.
    fn times_as_long(&self, env: &Env, jobs: &Jobs, faults: &Faults) -> Option<f64> {
        let known = self.known.as_ref()?;
        if self.handled >= known.most() {
            return Some(1.0);
        }
        (faults.have_turned(env.now) && jobs.have_shown_all()).then_some(())?;
        let last = jobs.all().iter().map(|job| job.job).max().unwrap_or(0);
        let so_far: Vec<JobOutcome> = jobs.all().iter().map(|run| jobs.so_far(run)).collect();
        let longest = |times: f64, job| {
            let all_finished =
                || jobs.all().iter().filter(|run| run.job == job).all(JobRun::is_finished);
            Some(if all_finished() { times } else { times.max(known.times_as_long(job, &so_far)?) })
        };
        (0..=last).try_fold(1.0, longest)
    }
}

/// The progress that a run reports from time to time; one for each run in progress.
#[derive(Debug, Default)]
pub struct Progress {
    /// Number of events so far.
    events: AtomicU64,
    /// Simulated time [ps].
    time: AtomicU64,
    /// Share of steps done, for the job that is furthest behind, multiplied by [`WHOLE`].
    share: AtomicU64,
}

/// Value of [`Progress`]'s `share` for a complete run.
const WHOLE: f64 = 1e9;

impl Progress {
    /// Returns the number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Returns the simulated time [s].
    #[must_use]
    pub fn seconds(&self) -> f64 {
        Time(self.time.load(Ordering::Relaxed)).seconds()
    }

    /// Returns the share of the run that is done, from 0 to 1. It is the larger of two shares: that of the steps done by the
    /// job that is furthest behind, and that of the run's simulated time. Returns 0 if neither is known.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share.load(Ordering::Relaxed) as f64 / WHOLE
    }

    /// Resets the progress because another run begins.
    pub fn reset(&self) {
        self.tell(0, Time::ZERO, 0.0);
    }

    fn tell(&self, events: u64, time: Time, share: f64) {
        self.events.store(events, Ordering::Relaxed);
        self.time.store(time.0, Ordering::Relaxed);
        self.share.store((share.clamp(0.0, 1.0) * WHOLE) as u64, Ordering::Relaxed);
    }
}

impl Watch<'_> {
    /// Stores the present progress of the run in `to`.
    #[cold]
    pub(super) fn tell(&self, env: &Env, jobs: &Jobs, to: &Progress) {
        let of_jobs = jobs.all().iter().filter(|job| !job.is_finished()).map(JobRun::share_done);
        let of_time = env.now.0 as f64 / self.until.0.max(1) as f64;
        let share = of_jobs.fold(1.0, f64::min).max(of_time).max(self.share());
        to.tell(self.handled, env.now, share);
    }
}
