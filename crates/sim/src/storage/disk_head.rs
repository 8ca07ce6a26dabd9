//! A hard disk's head: it serves one request after the other. Each request that does not begin where the one before ended needs
//! a seek first.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_engine::fluid::LinkUse;

use crate::env::ActivityId;
use crate::ids::DatasetId;

/// Position of a request on a disk. The files of a data set lie one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    pub(crate) dataset: DatasetId,
    pub(crate) file: u64,
    /// Number of the request within its file.
    pub(crate) number: u32,
    /// Whether the request is the last one of its file.
    pub(crate) last: bool,
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
pub(crate) struct DiskHead {
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
    pub(crate) fn new(seek: f64, rate: f64) -> DiskHead {
        let (visits, usage) = (VecDeque::new(), LinkUse::default());
        DiskHead { seek, rate, head: None, visits, now: Time::ZERO, usage }
    }

    /// Returns the busy time and queue length of the head up to `now`; its capacity is 1.
    pub(crate) fn usage(&mut self, now: Time) -> LinkUse {
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
    pub(crate) fn forget(&mut self, now: Time, is: impl Fn(&ActivityId) -> bool) {
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

    /// Adds a request of `activity` for `bytes` at `spot` to the queue. Returns its service time [s] if it is served at once.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        bytes: f64,
        (activity, spot): (ActivityId, Spot),
    ) -> Option<f64> {
        self.usage(now);
        self.visits.push_back(Visit { activity, spot, bytes });
        if self.visits.len() == 1 { self.begin_next() } else { None }
    }

    /// Ends the request that is being served, and begins the next one. Returns the activity that made the request with the time that
    /// its bytes took [s], and the service time of the next request [s], if there is one.
    pub(crate) fn end(&mut self, now: Time) -> (Option<(ActivityId, f64)>, Option<f64>) {
        self.usage(now);
        let ended = self.visits.pop_front();
        (ended.map(|visit| (visit.activity, visit.bytes / self.rate)), self.begin_next())
    }

    /// Begins to serve the first request, whose position the head moves to; returns its service time [s], seek included.
    fn begin_next(&mut self) -> Option<f64> {
        let visit = self.visits.front()?;
        let there = self.head.is_some_and(|head| visit.spot.follows(head));
        self.head = Some(visit.spot);
        Some(if there { 0.0 } else { self.seek } + visit.bytes / self.rate)
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
