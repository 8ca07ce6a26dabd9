//! Limits of requests: a bucket that fills, refusals, and back-off.

use forebay_engine::Time;
use forebay_engine::fluid::LinkUse;
use forebay_model::random::{Generator, Purpose, Sampler};
use forebay_report::Cause;
use forebay_scenario::{Distribution, RequestLimit};

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::{LimiterId, WorkerId};
use super::loaders::Loaders;
use super::worker::Phase;

/// Attempts of a request that are told apart in its draws.
const ATTEMPTS: u64 = 64;

/// What lets the requests to an object store through.
#[derive(Debug)]
pub(super) struct Limiter {
    limit: RequestLimit,
    /// Requests that may come now, and when that was counted.
    tokens: f64,
    counted: Time,
    /// Requests let through.
    served: u64,
    /// Time that refused ones waited [s].
    waited: f64,
}

impl Limiter {
    /// With a full bucket.
    pub(super) fn new(limit: RequestLimit) -> Limiter {
        Limiter { limit, tokens: limit.burst, counted: Time::ZERO, served: 0, waited: 0.0 }
    }

    /// Whether a request is let through.
    fn admits(&mut self, now: Time) -> bool {
        let filled = now.since(self.counted).seconds() * self.limit.rate;
        self.tokens = (self.tokens + filled).min(self.limit.burst);
        self.counted = now;
        // Sums of roundings must not refuse what comes at just the rate.
        if self.tokens < 1.0 - 1e-9 {
            return false;
        }
        self.tokens -= 1.0;
        self.served += 1;
        true
    }

    /// How long a request waits, by a draw, that is refused after so many refusals; `None`: it is let
    /// through.
    pub(super) fn ask(
        &mut self,
        now: Time,
        refusals: &mut u8,
        generator: impl FnOnce() -> Generator,
    ) -> Option<Delay> {
        if self.admits(now) {
            *refusals = 0;
            return None;
        }
        let RequestLimit { first, most, .. } = self.limit;
        let longest = (first * f64::from((*refusals).min(60)).exp2()).min(most);
        *refusals = refusals.saturating_add(1);
        let wait = Sampler::new(&Distribution::Uniform { low: 0.0, high: longest });
        let wait = wait.draw(&mut generator());
        self.waited += wait;
        Some(Delay::once(wait))
    }

    pub(super) fn usage(&self) -> LinkUse {
        let served = self.served as f64;
        LinkUse { busy: served / self.limit.rate, served, flow_seconds: self.waited }
    }
}

impl Loaders {
    /// Worker `w` asks limiter `l` to let its request through; true if the sample is complete.
    pub(super) fn request(&mut self, env: &mut Env, w: WorkerId, l: LimiterId) -> bool {
        let worker = &mut self.workers[w];
        let (number, mut refusals) = (worker.requests, worker.refusals);
        let wait = self.refused(env, w, l, number, &mut refusals);
        self.workers[w].refusals = refusals;
        let Some(wait) = wait else { return self.wait_for_first_byte(env, w) };
        self.enter(env, w, Phase::Refused, Cause::Open);
        env.after(wait, Event::Waited(ActivityId::Worker(w)));
        false
    }

    /// How long a request of worker `w`, of this number and refused so often before, has to wait before
    /// it comes again to limiter `l`; `None` if it is let through.
    pub(super) fn refused(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        l: LimiterId,
        request: u32,
        refusals: &mut u8,
    ) -> Option<Delay> {
        let worker = &self.workers[w];
        let attempt = u64::from(refusals.saturating_add(1)) % ATTEMPTS;
        let index = u64::from(request) * ATTEMPTS + attempt;
        let owner = u64::from(self.loaders[worker.loader].job.number());
        let (streams, position) = (&env.streams, worker.position);
        let generator = || streams.at(Purpose::BackOff, owner, position, index);
        env.storages.limiters[l].ask(env.now, refusals, generator)
    }
}
