//! Progress of a run, reported while it goes on.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_engine::Time;

use super::env::Env;
use super::job_run::JobRun;
use super::jobs::Jobs;
use super::watch::Watch;

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
        let of_jobs = jobs.jobs.iter().filter(|job| !job.finished).map(share);
        let of_time = env.now.0 as f64 / self.until.0.max(1) as f64;
        let share = of_jobs.fold(1.0, f64::min).max(of_time).max(self.share());
        to.tell(self.handled, env.now, share);
    }
}

/// Returns how much of its goal an unfinished job has reached, as a share: of the steps or of the fresh samples, whichever share
/// is larger.
fn share(job: &JobRun) -> f64 {
    let steps = job.steps.completed() as f64 / job.plan.goal.steps.max(1) as f64;
    let fresh = job.steps.fresh() as f64 / job.plan.goal.fresh.max(1) as f64;
    steps.max(fresh)
}
