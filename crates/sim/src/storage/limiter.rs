//! Request-rate limits: a token bucket, refusals, and back-off.

use forebay_engine::Time;
use forebay_engine::fluid::LinkUse;
use forebay_model::random::{Generator, Sampler};
use forebay_scenario::{Distribution, RequestLimit};

use crate::env::Delay;

/// The limiter of requests to an object store: a token bucket.
#[derive(Debug)]
pub(crate) struct Limiter {
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
    pub(crate) fn new(limit: RequestLimit) -> Limiter {
        Limiter { limit, tokens: limit.tokens, counted: Time::ZERO, served: 0, waited: 0.0 }
    }

    /// Takes a token for a request; returns false if there is none.
    fn take_token(&mut self, now: Time) -> bool {
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
    pub(crate) fn ask(
        &mut self,
        now: Time,
        refusals: &mut u8,
        generator: impl FnOnce() -> Generator,
    ) -> Option<Delay> {
        if self.take_token(now) {
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

    pub(crate) fn usage(&self) -> LinkUse {
        let served = self.served as f64;
        LinkUse { busy: served / self.limit.rate, served, flow_seconds: self.waited }
    }
}
