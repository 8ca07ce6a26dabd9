//! A storage modelled by a table of measured throughput: requests in progress share its time.

use std::sync::Arc;

use forebay_engine::fluid::LinkUse;
use forebay_engine::{Calendar, Span, Time};
use forebay_model::law::{Between, Throughput};

use crate::env::{ActivityId, Event};
use crate::ids::TableId;

/// A storage modelled by a table of throughput.
///
/// With `n` requests in progress each request has `1/n` of the storage's time, and is served at `1/n` of the throughput that
/// was measured with `n` requests of this request's size.
#[derive(Debug)]
pub(crate) struct Table {
    of: Arc<Throughput>,
    /// Requests in progress, in order of arrival.
    requests: Vec<Serving>,
    /// Time up to which the requests have been served.
    now: Time,
    /// Time for which the completion of the first request is scheduled.
    planned: Time,
    /// Time with at least one request [s], bytes served [B], and total time of all requests [s].
    usage: LinkUse,
}

/// A request in progress.
#[derive(Debug, Clone, Copy)]
struct Serving {
    activity: ActivityId,
    /// Position of the request's size among the sizes of the table.
    size: Between,
    /// Bytes still to be served [B].
    left: f64,
    /// Current throughput of the request [B/s].
    rate: f64,
}

impl Serving {
    /// Returns whether the request is done: the bytes left arrive within a picosecond or two, and may be only a rounding error.
    fn is_done(&self) -> bool {
        self.left <= self.rate * 2e-12
    }
}

impl Table {
    /// Returns a storage with the throughput table `of` and no request in progress.
    pub(crate) fn new(of: Arc<Throughput>) -> Table {
        let (now, planned) = (Time::ZERO, Time::NEVER);
        Table { of, requests: Vec::new(), now, planned, usage: LinkUse::default() }
    }

    /// Begins a request of `activity` for `bytes`.
    pub(crate) fn start(&mut self, now: Time, bytes: f64, activity: ActivityId) {
        self.serve(now);
        let size = self.of.size(bytes);
        self.requests.push(Serving { activity, size, left: bytes, rate: 0.0 });
        self.share();
    }

    /// Serves all requests up to `now`.
    fn serve(&mut self, now: Time) {
        let seconds = now.since(self.now).seconds();
        self.now = now;
        if self.requests.is_empty() || seconds <= 0.0 {
            return;
        }
        self.usage.busy += seconds;
        self.usage.flow_seconds += seconds * self.requests.len() as f64;
        for request in &mut self.requests {
            let bytes = (request.rate * seconds).min(request.left);
            request.left -= bytes;
            self.usage.served += bytes;
        }
    }

    /// Removes a request that is done at `now` and returns its activity, if there is one; the others share the storage from
    /// then on.
    pub(crate) fn finish(&mut self, now: Time) -> Option<ActivityId> {
        self.serve(now);
        let done = self.requests.iter().position(Serving::is_done)?;
        let Serving { activity, left, .. } = self.requests.remove(done);
        self.usage.served += left;
        self.share();
        Some(activity)
    }

    /// Removes all requests of each activity for which `is` returns true; this table has number `t`.
    pub(crate) fn forget(
        &mut self,
        (now, calendar): (Time, &mut Calendar<Event>),
        t: TableId,
        is: impl Fn(&ActivityId) -> bool,
    ) {
        if self.requests.iter().any(|request| is(&request.activity)) {
            self.serve(now);
            self.requests.retain(|request| !is(&request.activity));
            self.share();
            self.plan(calendar, t);
        }
    }

    /// Divides the storage's time among the requests.
    fn share(&mut self) {
        let count = self.requests.len() as f64;
        let number = self.of.number(count);
        let mut known: Option<(Between, f64)> = None;
        for request in &mut self.requests {
            let rate = match known {
                Some((size, rate)) if size == request.size => rate,
                _ => self.of.at(request.size, number) / count,
            };
            (request.rate, known) = (rate, Some((request.size, rate)));
        }
    }

    /// Returns the time when the next request will be done, if any is in progress.
    fn next(&self) -> Option<Time> {
        let soonest = self.requests.iter().map(|r| r.left / r.rate).min_by(f64::total_cmp)?;
        // Rounded up, so that the request is done by then.
        Some(Time(self.now.0.saturating_add(Span::from_seconds(soonest).0).saturating_add(1)))
    }

    /// Schedules the completion of the next request; this table has number `t`.
    pub(crate) fn plan(&mut self, calendar: &mut Calendar<Event>, t: TableId) {
        let next = self.next().unwrap_or(Time::NEVER);
        if next != self.planned {
            self.planned = next;
            if next != Time::NEVER {
                calendar.schedule(next, Event::Served(t));
            }
        }
    }

    /// Ends the wait for the completion that was scheduled for `now`; returns false if more requests have arrived since, so that the
    /// first one is done later.
    pub(crate) fn reach(&mut self, now: Time) -> bool {
        let reached = self.planned == now;
        if reached {
            self.planned = Time::NEVER;
        }
        reached
    }

    /// Returns the table's use up to `now`.
    pub(crate) fn usage(&mut self, now: Time) -> LinkUse {
        self.serve(now);
        self.usage
    }
}
