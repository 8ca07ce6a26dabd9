//! Request-rate limits: a token bucket, refusals, and back-off.

use forebay_engine::Time;
use forebay_engine::fluid::LinkUse;
use forebay_model::random::{Generator, Purpose, Sampler};
use forebay_report::Cause;
use forebay_scenario::{Distribution, RequestLimit};

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::ids::{LimiterId, WorkerId};
use super::loaders::Loaders;
use super::worker::Phase;

/// Number of attempts of one request that have random numbers of their own; further attempts reuse them.
const ATTEMPTS: u64 = 64;

/// The limiter of requests to an object store: a token bucket.
#[derive(Debug)]
pub(super) struct Limiter {
    limit: RequestLimit,
    /// Tokens in the bucket at time `counted`.
    tokens: f64,
    counted: Time,
    /// Number of requests admitted.
    served: u64,
    /// Total back-off time of refused requests [s].
    waited: f64,
}

impl Limiter {
    /// Returns a limiter at the begin of a run.
    pub(super) fn new(limit: RequestLimit) -> Limiter {
        Limiter { limit, tokens: limit.tokens, counted: Time::ZERO, served: 0, waited: 0.0 }
    }

    /// Takes a token for a request; returns false if there is none.
    fn admits(&mut self, now: Time) -> bool {
        let filled = now.since(self.counted).seconds() * self.limit.rate;
        self.tokens = (self.tokens + filled).min(self.limit.burst);
        self.counted = now;
        // The tolerance covers rounding, which must not refuse requests that arrive exactly at the rate.
        if self.tokens < 1.0 - 1e-9 {
            return false;
        }
        self.tokens -= 1.0;
        self.served += 1;
        true
    }

    /// Asks to admit a request. Returns `None` if it is admitted; otherwise returns the random back-off time before the next
    /// attempt, and counts the refusal in `refusals`.
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
    /// Asks limiter `l` to admit the request of worker `w`. Returns true if the request is admitted, takes no time, and completes
    /// the sample.
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

    /// Returns how long request number `request` of worker `w` has to wait before it asks limiter `l` again, after `refusals`
    /// refusals; `None` if it is admitted.
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
        let owner = self.loaders[worker.loader].place.owner();
        let (streams, position) = (&env.streams, worker.sample.position);
        let generator = || streams.at(Purpose::BackOff, owner, position, index);
        env.storages.limiters[l].ask(env.now, refusals, generator)
    }
}
