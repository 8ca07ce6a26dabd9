//! Token buckets: a link that is faster while its bucket holds what the link serves, bytes of a storage or core-seconds of a quota.
//!
//! A bucket's content follows from what its link has served. It is counted at checks, not at every change of rates: a check
//! comes at the earliest instant at which the bucket can be empty, and often enough before that the content is known well although
//! a full bucket gains nothing.

use std::collections::VecDeque;

use forebay_engine::fluid::{Capacity, LinkId, Network};
use forebay_engine::{Span, Time};
use forebay_scenario::Burst;

use super::{ActivityId, Env, Event};
use crate::ids::TokenBucketId;

/// Share of its size below which a bucket counts as empty. Otherwise a bucket that is emptied slowly would be checked at ever shorter
/// intervals.
const EMPTY: f64 = 1.0 / 1024.0;

/// Minimum number of checks in the time that empties a full bucket, or fills an empty one. So the time for which a bucket was full is
/// known to within 1/64 of that time.
const CHECKS: f64 = 64.0;

/// Maximum number of checks in a period. Without it, a bucket that is nearly empty and whose link is very fast would be checked without
/// end.
const MOST_CHECKS: f64 = 4096.0;

/// Number of past closings of a gate that are kept. Of a computation that lasts longer than so many periods, the closings before them
/// count as waiting for cores.
const CLOSINGS: usize = 1024;

/// A token bucket, and the link that empties it. Its unit is that of the link: a byte or a core-second.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    link: LinkId,
    /// Rate at which tokens enter the bucket [1/s].
    sustained: f64,
    of: Burst,
    /// Speed of the link relative to its speed without faults.
    pace: f64,
    /// Content at time `counted`.
    content: f64,
    counted: Time,
    /// Tokens that the link had taken by the time `counted`.
    served: f64,
    /// Number of periods whose tokens had entered the bucket by the time `counted`.
    periods: u64,
    /// Whether the link has the bandwidth of bursts.
    is_fast: bool,
    /// First time at which the bucket was found empty, after it had held tokens.
    emptied: Option<Time>,
    /// Last closings of a gate, each with the time at which the gate opened again.
    closings: VecDeque<(Time, Time)>,
    /// Whether a check is scheduled.
    is_planned: bool,
}

impl TokenBucket {
    /// Returns the bucket of `link`, a link of the rate `sustained` [1/s] without bursts, at the begin of a run.
    pub(crate) fn new(link: LinkId, sustained: f64, of: Burst) -> TokenBucket {
        TokenBucket {
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
            closings: VecDeque::new(),
            is_planned: false,
        }
    }

    /// Returns the highest mean rate until `now`, without faults [1/s].
    pub(crate) fn most_over(&self, now: Time) -> f64 {
        self.of.most_over(self.sustained, now.seconds().max(f64::MIN_POSITIVE))
    }

    /// Returns the tokens that the link has taken beyond what has entered the bucket since the run began, which is less than zero if
    /// the bucket has been filled; and the first time at which it was empty [s], after it had held tokens.
    pub(crate) fn drawn(
        &mut self,
        (now, network): (Time, &Network<ActivityId>),
    ) -> (f64, Option<f64>) {
        self.count(now, network);
        (self.of.content - self.content, self.emptied.map(Time::seconds))
    }

    /// Returns how long the gate was closed between `from` and `to`, which is not in the future. A gate is a bucket with a period.
    pub(crate) fn closed(&self, from: Time, to: Time) -> Span {
        let recent = self.closings.iter().rev().take_while(|(_, opened)| *opened > from);
        let spans = recent.map(|(closed, opened)| (*opened).min(to).since((*closed).max(from)));
        Span(spans.map(|span| span.0).sum())
    }

    /// Brings the content up to the present.
    fn count(&mut self, now: Time, network: &Network<ActivityId>) {
        let served = network.usage(now, self.link).served;
        let seconds = match self.of.period {
            None => now.since(self.counted).seconds(),
            Some(period) => {
                let periods = now.0 / Span::from_seconds(period).0;
                let new = periods - self.periods;
                self.periods = periods;
                new as f64 * period
            }
        };
        let gained = self.sustained * self.pace * seconds;
        self.content = (self.content - (served - self.served) + gained).min(self.of.bucket);
        (self.counted, self.served) = (now, served);
    }

    /// Sets the capacity of the link by the content.
    fn set(&mut self, now: Time, network: &mut Network<ActivityId>) {
        let is_fast = self.content > EMPTY * self.of.bucket;
        if self.is_fast && !is_fast {
            self.emptied.get_or_insert(now);
            if self.of.period.is_some() {
                self.closings.push_back((now, Time::NEVER));
                if self.closings.len() > CLOSINGS {
                    self.closings.pop_front();
                }
            }
        } else if is_fast && let Some((_, opened)) = self.closings.back_mut() {
            *opened = now.min(*opened);
        }
        self.is_fast = is_fast;
        let rate = match (is_fast, self.of.period) {
            (true, _) => self.of.bandwidth,
            (false, None) => self.sustained,
            (false, Some(_)) => 0.0,
        };
        let capacity = Capacity::Fixed(rate * self.pace);
        if *network.capacity(self.link) != capacity {
            network.set_capacity(now, self.link, capacity);
        }
    }

    /// Returns the instant of the next check. Faults only slow a link, so checks that hold without them come early enough.
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

impl Env {
    /// Returns the bucket of a link, if it has one.
    pub(crate) fn bucket_of(&self, link: LinkId) -> Option<TokenBucketId> {
        self.buckets.ids().iter().find(|b| self.buckets[*b].link == link)
    }

    /// Returns the tokens that a bucket has lost since the run began, and when it was first empty [s]: see [`TokenBucket::drawn`].
    pub(crate) fn drawn_from(&mut self, b: TokenBucketId) -> (f64, Option<f64>) {
        self.buckets[b].drawn((self.now, &self.network))
    }

    /// Sets the links of all buckets at the begin of a run, and schedules the first check of each.
    pub(crate) fn begin_buckets(&mut self) {
        for b in self.buckets.ids() {
            self.buckets[b].set(self.now, &mut self.network);
            self.plan(b);
        }
    }

    fn plan(&mut self, b: TokenBucketId) {
        let bucket = &mut self.buckets[b];
        bucket.is_planned = true;
        self.calendar.schedule(bucket.next(self.now), Event::Bucket(b));
    }

    /// Checks a bucket, and schedules the next check unless nothing else is left to happen: a run that stands still ends.
    pub(crate) fn check_bucket(&mut self, b: TokenBucketId) {
        let bucket = &mut self.buckets[b];
        bucket.count(self.now, &self.network);
        bucket.set(self.now, &mut self.network);
        bucket.is_planned = false;
        if !self.only_checks_are_left() {
            self.plan(b);
        }
    }

    fn only_checks_are_left(&self) -> bool {
        self.calendar.len() <= self.buckets.len()
            && self.calendar.len() == self.buckets.iter().filter(|bucket| bucket.is_planned).count()
            && self.network.count(|activity| *activity != ActivityId::Endless) == 0
    }

    /// Lets a bucket and its link be `pace` times as fast as without faults, from now on.
    pub(super) fn set_bucket_pace(&mut self, b: TokenBucketId, pace: f64) {
        let bucket = &mut self.buckets[b];
        bucket.count(self.now, &self.network);
        bucket.pace = pace;
        bucket.set(self.now, &mut self.network);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_time_is_that_of_closings_within_the_time_asked_about() {
        // System: a gate that was closed from 2 to 5 and from 8 to 9, and has been closed since 11. Expectation: for each time asked about,
        // the sum of those parts of it in which the gate was closed.
        let mut network: Network<ActivityId> = Network::new();
        let link = network.link(Capacity::Fixed(1.0));
        let of = Burst { bandwidth: 4.0, bucket: 1.0, content: 1.0, period: Some(1.0) };
        let mut bucket = TokenBucket::new(link, 1.0, of);
        let closings = [(2, 5), (8, 9), (11, u64::MAX)];
        bucket.closings = closings.into_iter().map(|(a, b)| (Time(a), Time(b))).collect();
        for (from, to, closed) in
            [(0, 10, 4), (3, 4, 1), (4, 8, 1), (5, 8, 0), (0, 13, 6), (12, 13, 1)]
        {
            assert_eq!(bucket.closed(Time(from), Time(to)), Span(closed), "{from} to {to}");
        }
    }
}
