//! Inner threads: several threads that share the computation for one sample.

use super::env::Env;
use super::event::{ActivityId, Delay};
use super::index::WorkerId;
use super::loaders::Loaders;
use super::worker::{Cores, Phase, Work};
use forebay_report::Cause;

/// A computation that several threads share.
#[derive(Debug)]
pub(super) struct Team {
    /// The computation of a single thread.
    pub(super) work: Work,
    pub(super) threads: u32,
    /// Speed-up of all threads together over one thread, if each has a core of its own.
    pub(super) speed: f64,
}

impl Loaders {
    /// Returns the core-seconds of each thread of a team for the current sample of worker `w`.
    pub(super) fn team_seconds(&self, env: &Env, team: &Team, w: WorkerId) -> f64 {
        let alone = match &team.work {
            Work::Compute(draw) => self.draw(env, draw, w).0,
            Work::Decode(law, pixels) => law.core_seconds(self.stored_bytes(w), *pixels),
            // A team has no other kinds of work.
            _ => 0.0,
        };
        alone / team.speed
    }

    /// Begins a computation of worker `w` with `threads` threads, each of which needs a core for `seconds`; returns true if it
    /// takes no time.
    pub(super) fn begin_team(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        cores: Cores,
        seconds: f64,
        threads: u32,
    ) -> bool {
        let phase = Phase::Computing;
        let Cores::Shared(group) = cores else {
            // Stations serve single threads; in scenarios with teams, cores are shared.
            return self.begin_compute(env, w, cores, seconds, Delay::once(seconds), phase);
        };
        if seconds <= 0.0 {
            return true;
        }
        self.workers[w].work = seconds;
        env.network.start_many(env.now, group, seconds, threads, ActivityId::Worker(w));
        self.enter(env, w, phase, Cause::Decode);
        false
    }
}
