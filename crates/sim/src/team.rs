//! Inner threads: several threads that share the computation for one sample.

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_report::Cause;

use super::env::Env;
use super::event::{ActivityId, Delay};
use super::ids::{StationId, WorkerId};
use super::loaders::Loaders;
use super::worker::{Cores, Phase, Work};

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
        if seconds <= 0.0 {
            return true;
        }
        let activity = ActivityId::Worker(w);
        self.enter(env, w, Phase::Computing, Cause::Decode);
        self.workers[w].work = seconds;
        match cores {
            Cores::Shared(group) => {
                env.network.start_many(env.now, group, seconds, threads, activity);
            }
            Cores::Fifo(station) => self.begin_threads(env, w, (station, None), threads),
            Cores::Paced(station, group) => {
                self.begin_threads(env, w, (station, Some(group)), threads);
            }
        }
        false
    }

    /// Lets each of `threads` threads of worker `w` take one of the cores `slots` for its part of the computation.
    fn begin_threads(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        slots: (StationId, Option<GroupId>),
        threads: u32,
    ) {
        self.threads[w] = threads;
        let delay = Delay::once(self.workers[w].work);
        for _ in 0..threads {
            env.take_core(slots, ActivityId::Worker(w), delay);
        }
    }

    /// Ends the computation of worker `w`, or of one of its threads; returns true if all of them have ended.
    #[inline]
    pub(super) fn end_thread(&mut self, now: Time, w: WorkerId) -> bool {
        if !self.is_team(w) {
            return true;
        }
        self.threads[w] -= 1;
        let over = self.threads[w] == 0;
        if over {
            self.split_cpu_wait(now, w);
        }
        over
    }

    /// Returns whether worker `w` computes with several threads that take cores one by one.
    #[inline]
    pub(super) fn is_team(&self, w: WorkerId) -> bool {
        self.threads.get(w).is_some_and(|threads| *threads > 0)
    }
}
