//! A hard disk's head: it serves one request after the other. Each request that does not begin where the one before ended needs
//! a seek first.

use std::collections::VecDeque;

use forebay_engine::fluid::LinkUse;
use forebay_engine::{Span, Time};
use forebay_report::Cause;
use forebay_scenario::Layout;

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::ids::{DatasetId, DiskHeadId, WorkerId};
use super::invariant::broken;
use super::loaders::Loaders;

/// Position of a request on a disk. The files of a data set lie one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    dataset: DatasetId,
    file: u64,
    /// Number of the request within its file.
    number: u32,
    /// Whether the request is the last one of its file.
    last: bool,
}

impl Spot {
    /// Returns whether this request begins where `before` ends.
    fn follows(self, before: Spot) -> bool {
        let next = self.file == before.file && self.number == before.number.wrapping_add(1);
        let next_file = before.last && self.file == before.file.wrapping_add(1) && self.number == 0;
        self.dataset == before.dataset && (next || next_file)
    }
}

/// A request at the disk head.
#[derive(Debug, Clone, Copy)]
struct Visit {
    activity: ActivityId,
    spot: Spot,
    bytes: f64,
}

/// The head of a disk.
#[derive(Debug)]
pub(super) struct DiskHead {
    /// Seek time [s].
    seek: f64,
    /// Throughput of sequential reading [B/s].
    rate: f64,
    /// Position of the last request read.
    head: Option<Spot>,
    /// The request being served, then the waiting ones.
    visits: VecDeque<Visit>,
    now: Time,
    usage: LinkUse,
}

impl DiskHead {
    /// Returns a head that has read nothing yet.
    pub(super) fn new(seek: f64, rate: f64) -> DiskHead {
        let (visits, usage) = (VecDeque::new(), LinkUse::default());
        DiskHead { seek, rate, head: None, visits, now: Time::ZERO, usage }
    }

    /// Returns the busy time and queue length of the head up to `now`; its capacity is 1.
    pub(super) fn usage(&mut self, now: Time) -> LinkUse {
        let seconds = now.since(self.now).seconds();
        self.now = now;
        if !self.visits.is_empty() {
            self.usage.busy += seconds;
            self.usage.served += seconds;
            self.usage.flow_seconds += seconds * self.visits.len() as f64;
        }
        self.usage
    }

    /// Removes the requests of each activity for which `is` returns true. If such a request is already being served, it is served
    /// to its end, but resumes no activity.
    pub(super) fn forget(&mut self, now: Time, is: impl Fn(&ActivityId) -> bool) {
        self.usage(now);
        let first = self.visits.pop_front();
        self.visits.retain(|visit| !is(&visit.activity));
        if let Some(mut first) = first {
            if is(&first.activity) {
                first.activity = ActivityId::Endless;
            }
            self.visits.push_front(first);
        }
    }

    /// Returns the service time of the first request [s], seek included, and moves the head to the request's position.
    fn service(&mut self) -> Option<f64> {
        let visit = self.visits.front()?;
        let there = self.head.is_some_and(|head| visit.spot.follows(head));
        self.head = Some(visit.spot);
        Some(if there { 0.0 } else { self.seek } + visit.bytes / self.rate)
    }
}

impl Loaders {
    /// Adds a request of `activity` for `bytes` at `spot` to the queue of disk head `a`.
    pub(super) fn ask_disk_head(
        &mut self,
        env: &mut Env,
        a: DiskHeadId,
        bytes: f64,
        (activity, spot): (ActivityId, Spot),
    ) {
        let arm = &mut env.storages.disk_heads[a];
        arm.usage(env.now);
        arm.visits.push_back(Visit { activity, spot, bytes });
        if arm.visits.len() == 1 {
            self.move_arm(env, a);
        }
    }

    /// Begins to serve the first request in the queue of disk head `a`, if there is one.
    fn move_arm(&mut self, env: &mut Env, a: DiskHeadId) {
        if let Some(seconds) = env.storages.disk_heads[a].service() {
            env.after(Delay::once(seconds), Event::Delivered(a));
        }
    }

    /// Ends the request that disk head `a` was serving.
    pub(super) fn delivered(&mut self, env: &mut Env, a: DiskHeadId) {
        let arm = &mut env.storages.disk_heads[a];
        arm.usage(env.now);
        let (visit, rate) = (arm.visits.pop_front(), arm.rate);
        self.move_arm(env, a);
        env.flows += 1;
        match visit.map(|visit| (visit.activity, visit.bytes)) {
            Some((ActivityId::Worker(w), bytes)) => {
                self.split_latency(env.now, w, bytes / rate);
                self.resume(env, w);
            }
            Some((ActivityId::Range(r), _)) => self.range_moved(env, r),
            // No other activity reads from a disk head.
            _ => {}
        }
    }

    /// Splits the recorded wait of worker `w`: the last `seconds` before `now` were transfer, the time before them latency.
    fn split_latency(&mut self, now: Time, w: WorkerId, seconds: f64) {
        let worker = &mut self.workers[w];
        let Some(since) = worker.timeline.last_start() else {
            return broken("a worker that waits for a disk has begun an activity");
        };
        let then = Time(now.0.saturating_sub(Span::from_seconds(seconds).0));
        if then > since {
            worker.timeline.split(Cause::Latency, then, Cause::Transfer);
        }
    }

    /// Returns the disk position of the current request of worker `w`.
    pub(super) fn spot(&self, w: WorkerId) -> Spot {
        let worker = &self.workers[w];
        let (source, shard) = (&self.loaders[worker.loader].source, &self.shards[w]);
        let dataset = source.dataset;
        match source.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => {
                Spot { dataset, file: worker.location.file, number: 0, last: true }
            }
            layout @ (Layout::Shards { .. } | Layout::RowGroups(_)) => {
                let (file, number, last) = shard.place(worker.request, layout, source.samples);
                Spot { dataset, file, number, last }
            }
        }
    }

    /// Returns the disk position of range `number` of the file that worker `w` reads.
    pub(super) fn spot_of_range(&self, w: WorkerId, number: u32, last: bool) -> Spot {
        Spot { number, last, ..self.spot(w) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_requests_need_no_seek() {
        let spot = |dataset, file, number, last| {
            let dataset = DatasetId::new(dataset);
            Spot { dataset, file, number, last }
        };
        let before = spot(0, 7, 3, false);
        assert!(spot(0, 7, 4, false).follows(before));
        assert!(!spot(0, 7, 3, false).follows(before), "the same again");
        assert!(!spot(0, 7, 5, false).follows(before));
        assert!(!spot(1, 7, 4, false).follows(before), "another data set");
        assert!(!spot(0, 8, 0, false).follows(before), "there is more of the file");
        let end = spot(0, 7, 3, true);
        assert!(spot(0, 8, 0, true).follows(end));
        assert!(!spot(0, 8, 1, true).follows(end));
        assert!(!spot(0, 6, 0, true).follows(end));
    }
}
