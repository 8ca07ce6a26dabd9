//! Records with time stamps what a worker does with its item.

use super::clock::Clock;
use forebay_engine::Time;
use forebay_metrics::Activity;
use forebay_report::Cause;
use std::sync::atomic::AtomicBool;

/// The activities of a worker with one item; each activity lasts until the next begins.
pub(super) struct Log {
    clock: Clock,
    since: Time,
    pub(super) entries: Vec<(Time, Activity)>,
}

impl Log {
    pub(super) fn new(clock: Clock) -> Log {
        Log { clock, since: Time::ZERO, entries: Vec::new() }
    }

    /// Starts the log of a new item, which the worker has had since `since`.
    pub(super) fn clear(&mut self, since: Time) {
        self.since = since;
        self.entries.clear();
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Sleeps until `deadline`, or until `over` is set.
    pub(super) fn sleep_until(&self, deadline: Time, over: &AtomicBool) {
        self.clock.sleep_until(deadline, over);
    }

    /// Begins an activity that counts as `cause`, and returns its start. An item's first activity starts with the item: the clock
    /// is not read, and the worker's wake-up counts as part of the activity.
    #[inline]
    pub(super) fn begin(&mut self, cause: Cause) -> Time {
        let now = if self.entries.is_empty() { self.since } else { self.clock.now() };
        self.entries.push((now, Activity::Doing(cause)));
        now
    }

    /// Splits the last activity, which lasts until now and had a core for `used` of its time. The rest of its time was waiting
    /// for a core and is placed first, as in a simulation.
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
