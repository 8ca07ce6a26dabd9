//! A hard disk's arm: one request after the other, and a seek before what does not follow the last.

use std::collections::VecDeque;

use forebay_engine::fluid::LinkUse;
use forebay_engine::{Span, Time};
use forebay_report::Cause;
use forebay_scenario::Layout;

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::{DatasetId, DiskHeadId, WorkerId};
use super::loaders::Loaders;

/// Where a request is on a disk on which data sets lie in the order of their files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    dataset: DatasetId,
    file: u64,
    /// Which request of the file.
    number: u32,
    /// Whether it is the last of the file.
    last: bool,
}

impl Spot {
    /// Whether it begins where `before` ends.
    fn follows(self, before: Spot) -> bool {
        let next = self.file == before.file && self.number == before.number.wrapping_add(1);
        let next_file = before.last && self.file == before.file.wrapping_add(1) && self.number == 0;
        self.dataset == before.dataset && (next || next_file)
    }
}

/// A request for the arm.
#[derive(Debug, Clone, Copy)]
struct Visit {
    activity: ActivityId,
    spot: Spot,
    bytes: f64,
}

/// The arm of a disk.
#[derive(Debug)]
pub(super) struct DiskHead {
    /// Time to move it [s].
    seek: f64,
    /// How fast bytes come [B/s].
    rate: f64,
    /// What was read last.
    head: Option<Spot>,
    /// The one that is served, and those that wait.
    visits: VecDeque<Visit>,
    now: Time,
    usage: LinkUse,
}

impl DiskHead {
    /// One that has read nothing yet.
    pub(super) fn new(seek: f64, rate: f64) -> DiskHead {
        let (visits, usage) = (VecDeque::new(), LinkUse::default());
        DiskHead { seek, rate, head: None, visits, now: Time::ZERO, usage }
    }

    /// What it has done up to `now`: the capacity of an arm is 1.
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

    /// Visits for whose activity `is` holds are off; the one that is served goes on for nobody.
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

    /// Time that the first of its visits takes [s].
    fn service(&mut self) -> Option<f64> {
        let visit = self.visits.front()?;
        let there = self.head.is_some_and(|head| visit.spot.follows(head));
        self.head = Some(visit.spot);
        Some(if there { 0.0 } else { self.seek } + visit.bytes / self.rate)
    }
}

impl Loaders {
    /// `activity` asks arm `a` for `bytes` at a spot.
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

    /// Arm `a` turns to the first of its visits.
    fn move_arm(&mut self, env: &mut Env, a: DiskHeadId) {
        if let Some(seconds) = env.storages.disk_heads[a].service() {
            env.after(Delay::once(seconds), Event::Delivered(a));
        }
    }

    /// Arm `a` is done with a request.
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
            // Nobody else asks an arm.
            _ => {}
        }
    }

    /// What worker `w` waited for up to now was latency, but for the last `seconds`.
    fn split_latency(&mut self, now: Time, w: WorkerId, seconds: f64) {
        let worker = &mut self.workers[w];
        let Some(since) = worker.timeline.last_start() else { return };
        let then = Time(now.0.saturating_sub(Span::from_seconds(seconds).0));
        if then > since {
            worker.timeline.split(Cause::Latency, then, Cause::Transfer);
        }
    }

    /// Where the request that worker `w` makes now is on its disk.
    pub(super) fn spot(&self, w: WorkerId) -> Spot {
        let worker = &self.workers[w];
        let (source, shard) = (&self.loaders[worker.loader].source, &self.shards[w]);
        let dataset = source.dataset;
        match source.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => {
                Spot { dataset, file: worker.file, number: 0, last: true }
            }
            layout @ (Layout::Shards { .. } | Layout::RowGroups(_)) => {
                let (file, number, last) = shard.place(worker.request, layout, source.samples);
                Spot { dataset, file, number, last }
            }
        }
    }

    /// Where a range of what worker `w` reads is.
    pub(super) fn spot_of_range(&self, w: WorkerId, number: u32, last: bool) -> Spot {
        Spot { number, last, ..self.spot(w) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_needs_no_seek() {
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
