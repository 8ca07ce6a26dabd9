//! A storage as it was measured: requests in progress share its time.

use std::sync::Arc;

use forebay_engine::fluid::LinkUse;
use forebay_engine::{Calendar, Span, Time};
use forebay_model::law::{Between, Throughput};

use super::env::Env;
use super::event::{ActivityId, Event};
use super::index::TableId;
use super::loaders::Loaders;

/// A storage that is known by a table of throughput.
///
/// With `n` requests in progress each has an `n`-th of the storage's time, and goes at an `n`-th of
/// the throughput measured of `n` requests of its own size.
#[derive(Debug)]
pub(super) struct Table {
    of: Arc<Throughput>,
    /// In order of arrival.
    requests: Vec<Serving>,
    /// Up to when they have been served.
    now: Time,
    /// When the first of them will be done; that is planned.
    planned: Time,
    /// Time with requests [s], their bytes [B], and their time in all [s].
    usage: LinkUse,
}

/// A request in progress.
#[derive(Debug, Clone, Copy)]
struct Serving {
    activity: ActivityId,
    /// Where its size is in the table.
    size: Between,
    /// Bytes that it still waits for.
    left: f64,
    /// How fast they come [B/s].
    rate: f64,
}

impl Serving {
    /// Whether what is left is less than comes in a picosecond, or is but the rounding of a sum.
    fn is_done(&self) -> bool {
        self.left <= self.rate * 2e-12
    }
}

impl Table {
    /// An idle one.
    pub(super) fn new(of: Arc<Throughput>) -> Table {
        let (now, planned) = (Time::ZERO, Time::NEVER);
        Table { of, requests: Vec::new(), now, planned, usage: LinkUse::default() }
    }

    /// A request for `bytes` begins.
    fn start(&mut self, now: Time, bytes: f64, activity: ActivityId) {
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

    /// A request that is done at `now`; the others have its share from then on.
    fn finish(&mut self, now: Time) -> Option<ActivityId> {
        self.serve(now);
        let done = self.requests.iter().position(Serving::is_done)?;
        let Serving { activity, left, .. } = self.requests.remove(done);
        self.usage.served += left;
        self.share();
        Some(activity)
    }

    /// Requests to it, table `t`, for whose activity `is` holds are served no longer.
    pub(super) fn forget(
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

    /// Shares the storage's time out.
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

    /// When the next request will be done, if any is in progress.
    fn next(&self) -> Option<Time> {
        let soonest = self.requests.iter().map(|r| r.left / r.rate).min_by(f64::total_cmp)?;
        // Rounded up, so that it is done by then.
        Some(Time(self.now.0.saturating_add(Span::from_seconds(soonest).0).saturating_add(1)))
    }

    /// Plans when the next request to it, table `t`, will be done.
    fn plan(&mut self, calendar: &mut Calendar<Event>, t: TableId) {
        let next = self.next().unwrap_or(Time::NEVER);
        if next != self.planned {
            self.planned = next;
            if next != Time::NEVER {
                calendar.schedule(next, Event::Served(t));
            }
        }
    }

    /// What it has done up to `now`.
    pub(super) fn usage(&mut self, now: Time) -> LinkUse {
        self.serve(now);
        self.usage
    }
}

impl Loaders {
    /// `activity` asks table `t` for `bytes`.
    pub(super) fn ask_table(
        &mut self,
        env: &mut Env,
        t: TableId,
        bytes: f64,
        activity: ActivityId,
    ) {
        env.storages.tables[t].start(env.now, bytes, activity);
        self.plan_table(env, t);
    }

    /// Requests to table `t` may be done.
    pub(super) fn serve_table(&mut self, env: &mut Env, t: TableId) {
        if env.storages.tables[t].planned != env.now {
            // Others have come since, and it is later.
            return;
        }
        env.storages.tables[t].planned = Time::NEVER;
        while let Some(activity) = env.storages.tables[t].finish(env.now) {
            env.flows += 1;
            match activity {
                ActivityId::Worker(w) => self.resume(env, w),
                ActivityId::Range(r) => self.range_moved(env, r),
                // Nobody else asks what was measured.
                _ => {}
            }
        }
        self.plan_table(env, t);
    }

    fn plan_table(&mut self, env: &mut Env, t: TableId) {
        env.storages.tables[t].plan(&mut env.calendar, t);
    }
}
