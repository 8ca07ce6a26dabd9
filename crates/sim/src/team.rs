//! Inner threads: several that share the computing for one sample.

use super::env::Env;
use super::event::{ActivityId, Delay};
use super::index::WorkerId;
use super::loaders::Loaders;
use super::worker::{Cores, Phase, Work};
use forebay_report::Cause;

/// Computing that several threads share.
#[derive(Debug)]
pub(super) struct Team {
    /// What one thread would do.
    pub(super) work: Work,
    pub(super) threads: u32,
    /// How much faster they are together than one, each on a core.
    pub(super) speed: f64,
}

impl Loaders {
    /// Core-seconds of each thread of a team for the sample that worker `w` is at.
    pub(super) fn team_seconds(&self, env: &Env, team: &Team, w: WorkerId) -> f64 {
        let alone = match &team.work {
            Work::Compute(draw) => self.draw(env, draw, w).0,
            Work::Decode(law, pixels) => law.core_seconds(self.stored_bytes(w), *pixels),
            // Nothing else is computed.
            _ => 0.0,
        };
        alone / team.speed
    }

    /// So many threads of worker `w` need a core each; true if for no time.
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
            // Slots are for single threads; where there are teams, cores are shared.
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
