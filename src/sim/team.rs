//! Inner threads: several that share the computing for one sample.

use super::event::{Clock, Customer, Delay};
use super::index::WorkerId;
use super::workers::{Cores, Phase, Work};
use super::world::World;
use crate::report::Cause;

/// Computing that several threads share.
#[derive(Debug)]
pub(super) struct Team {
    /// What one thread would do.
    pub(super) work: Work,
    pub(super) threads: u32,
    /// How much faster they are together than one, each on a core.
    pub(super) speed: f64,
}

impl World<'_> {
    /// Core-seconds of each thread of a team for the sample that worker `w` is at.
    pub(super) fn team_seconds(&self, team: &Team, w: WorkerId) -> f64 {
        let alone = match &team.work {
            Work::Compute(draw) => self.draw(draw, w).0,
            Work::Decode(law, pixels) => law.core_seconds(self.stored_bytes(w), *pixels),
            // Nothing else is computed.
            _ => 0.0,
        };
        alone / team.speed
    }

    /// So many threads of worker `w` need a core each; true if for no time.
    pub(super) fn begin_team(
        &mut self,
        clock: &mut Clock,
        w: WorkerId,
        cores: Cores,
        seconds: f64,
        threads: u32,
    ) -> bool {
        let phase = Phase::Computing;
        let Cores::Shared(group) = cores else {
            // Slots are for single threads; where there are teams, cores are shared.
            return self.begin_compute(clock, w, cores, seconds, Delay::once(seconds), phase);
        };
        if seconds <= 0.0 {
            return true;
        }
        self.workers[w].work = seconds;
        self.network.start_many(clock.now, group, seconds, threads, Customer::Worker(w));
        self.enter(clock.now, w, phase, Cause::Decode);
        false
    }
}
