//! What a worker does to its item, with time stamps.

use super::clock::Clock;
use forebay_engine::Time;
use forebay_metrics::Activity;
use forebay_report::Cause;
use std::sync::atomic::AtomicBool;

/// The activities of one item: each lasts until the next.
pub(super) struct Log {
    clock: Clock,
    since: Time,
    pub(super) entries: Vec<(Time, Activity)>,
}

impl Log {
    pub(super) fn new(clock: Clock) -> Log {
        Log { clock, since: Time::ZERO, entries: Vec::new() }
    }

    /// A new item has been there since `since`.
    pub(super) fn clear(&mut self, since: Time) {
        self.since = since;
        self.entries.clear();
    }

    /// The time.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Sleeps until `deadline`, or until the run is `over`.
    pub(super) fn sleep_until(&self, deadline: Time, over: &AtomicBool) {
        self.clock.sleep_until(deadline, over);
    }

    /// From now on the worker does what counts as `cause`. An item's first activity begins with the
    /// item: no clock is asked, and waking up counts as part of it.
    #[inline]
    pub(super) fn begin(&mut self, cause: Cause) -> Time {
        let now = if self.entries.is_empty() { self.since } else { self.clock.now() };
        self.entries.push((now, Activity::Doing(cause)));
        now
    }

    /// The last activity has taken until now, of which the thread had a core for `used`: the rest
    /// was waiting for one, counted first, as in the simulated world.
    pub(super) fn split_cpu_wait(&mut self, used: forebay_engine::Span) {
        let now = self.clock.now();
        let Some((start, activity)) = self.entries.last_mut() else { return };
        let took = now.since(*start);
        if took > used {
            let computed = *start + forebay_engine::Span(took.0 - used.0);
            let what = std::mem::replace(activity, Activity::Doing(Cause::CpuWait));
            self.entries.push((computed, what));
        }
    }
}
