//! Token buckets of bytes: a link that is faster while its bucket holds bytes.
//!
//! A bucket's content follows from the bytes that its link has served. They are counted at checks, not at every change of rates: a check
//! comes at the earliest instant at which the bucket can be empty, and often enough before that the content is known well although
//! a full bucket gains nothing.

use forebay_engine::fluid::{Capacity, LinkId};
use forebay_engine::{Span, Time};
use forebay_scenario::Burst;

use super::Storages;
use crate::env::{ActivityId, Env, Event};
use crate::ids::ByteBucketId;

/// Share of its size below which a bucket counts as empty. Otherwise a bucket that is emptied slowly would be checked at ever shorter
/// intervals.
const EMPTY: f64 = 1.0 / 1024.0;

/// Minimum number of checks in the time that empties a full bucket, or fills an empty one. So the time for which a bucket was full is
/// known to within 1/64 of that time.
const CHECKS: f64 = 64.0;

/// Maximum number of checks in a period. Without it, a bucket that is nearly empty and whose link is very fast would be checked without
/// end.
const MOST_CHECKS: f64 = 4096.0;

/// A token bucket, and the link whose bytes it counts.
#[derive(Debug)]
pub(crate) struct ByteBucket {
    link: LinkId,
    /// Rate at which bytes enter the bucket [B/s].
    sustained: f64,
    of: Burst,
    /// Speed of the storage relative to its speed without faults.
    pace: f64,
    /// Content at time `counted` [B].
    content: f64,
    counted: Time,
    /// Bytes that the link had served by then [B].
    served: f64,
    /// Number of periods whose bytes had entered by then.
    periods: u64,
    /// Whether the link has the bandwidth of bursts.
    is_fast: bool,
    /// First time at which the bucket was found empty, after it had held bytes.
    emptied: Option<Time>,
    /// Whether a check is scheduled.
    is_planned: bool,
}

impl ByteBucket {
    /// Returns the bucket of `link`, a link of the bandwidth `sustained` [B/s] without bursts, at the begin of a run.
    pub(crate) fn new(link: LinkId, sustained: f64, of: Burst) -> ByteBucket {
        ByteBucket {
            link,
            sustained,
            of,
            pace: 1.0,
            content: of.content,
            counted: Time::ZERO,
            served: 0.0,
            periods: 0,
            is_fast: false,
            emptied: None,
            is_planned: false,
        }
    }

    /// Returns the highest mean bandwidth until `now`, without faults [B/s].
    pub(crate) fn most_over(&self, now: Time) -> f64 {
        self.of.most_over(self.sustained, now.seconds().max(f64::MIN_POSITIVE))
    }

    /// Returns the bytes that the link has served beyond what has entered the bucket since the run began [B], which is less than zero if
    /// the bucket has been filled; and the first time at which it was empty [s], after it had held bytes.
    pub(crate) fn drawn(&mut self, env: &Env) -> (f64, Option<f64>) {
        self.count(env);
        (self.of.content - self.content, self.emptied.map(Time::seconds))
    }

    /// Brings the content up to the present.
    fn count(&mut self, env: &Env) {
        let served = env.network.usage(env.now, self.link).served;
        let seconds = match self.of.period {
            None => env.now.since(self.counted).seconds(),
            Some(period) => {
                let periods = env.now.0 / Span::from_seconds(period).0;
                let new = periods - self.periods;
                self.periods = periods;
                new as f64 * period
            }
        };
        let gained = self.sustained * self.pace * seconds;
        self.content = (self.content - (served - self.served) + gained).min(self.of.bucket);
        (self.counted, self.served) = (env.now, served);
    }

    /// Sets the capacity of the link by the content.
    fn set(&mut self, env: &mut Env) {
        let is_fast = self.content > EMPTY * self.of.bucket;
        if self.is_fast && !is_fast {
            self.emptied.get_or_insert(env.now);
        }
        self.is_fast = is_fast;
        let rate = match (is_fast, self.of.period) {
            (true, _) => self.of.bandwidth,
            (false, None) => self.sustained,
            (false, Some(_)) => 0.0,
        };
        let capacity = Capacity::Fixed(rate * self.pace);
        if *env.network.capacity(self.link) != capacity {
            env.network.set_capacity(env.now, self.link, capacity);
        }
    }

    /// Returns the instant of the next check. Faults only slow a storage, so checks that hold without them come early enough.
    fn next(&self, now: Time) -> Time {
        let after = |seconds: f64| now + Span::from_seconds(seconds).max(Span(1));
        let Some(period) = self.of.period else {
            return after(if self.is_fast {
                let drain = self.of.bandwidth - self.sustained;
                (self.content / drain).min(self.of.bucket / drain / CHECKS)
            } else {
                self.of.bucket / self.sustained / CHECKS
            });
        };
        let span = Span::from_seconds(period);
        let begins = Time(span.0.saturating_mul(self.periods + 1));
        match self.is_fast {
            true => after((self.content / self.of.bandwidth).max(period / MOST_CHECKS)).min(begins),
            false => begins,
        }
    }
}

impl Storages {
    /// Returns the bucket of a link, if it has one.
    pub(crate) fn bucket_of(&self, link: LinkId) -> Option<ByteBucketId> {
        self.buckets.ids().iter().find(|b| self.buckets[*b].link == link)
    }

    /// Sets the links of all buckets at the begin of a run, and schedules the first check of each.
    pub(crate) fn begin_buckets(&mut self, env: &mut Env) {
        for b in self.buckets.ids() {
            self.buckets[b].set(env);
            self.plan(env, b);
        }
    }

    fn plan(&mut self, env: &mut Env, b: ByteBucketId) {
        let bucket = &mut self.buckets[b];
        bucket.is_planned = true;
        env.calendar.schedule(bucket.next(env.now), Event::Bucket(b));
    }

    /// Checks a bucket, and schedules the next check unless nothing else is left to happen: a run that stands still ends.
    pub(crate) fn check_bucket(&mut self, env: &mut Env, b: ByteBucketId) {
        self.buckets[b].count(env);
        self.buckets[b].set(env);
        self.buckets[b].is_planned = false;
        if !self.only_checks_are_left(env) {
            self.plan(env, b);
        }
    }

    fn only_checks_are_left(&self, env: &Env) -> bool {
        env.calendar.len() <= self.buckets.len()
            && env.calendar.len() == self.buckets.iter().filter(|bucket| bucket.is_planned).count()
            && env.network.count(|activity| *activity != ActivityId::Endless) == 0
    }

    /// Lets a bucket and its link be `pace` times as fast as without faults, from now on.
    pub(crate) fn set_bucket_pace(&mut self, env: &mut Env, b: ByteBucketId, pace: f64) {
        let bucket = &mut self.buckets[b];
        bucket.count(env);
        bucket.pace = pace;
        bucket.set(env);
    }
}
