//! What all owners share and change: simulated time, calendar, network, stations, random streams and notices. Nothing here knows
//! who uses it: activities and events are named by ids.

mod arrival_law;
mod bucket;
mod event;
mod fault;
mod sampled_barrier;
mod station;

use std::collections::VecDeque;

use forebay_engine::fluid::{GroupId, Network};
use forebay_engine::{Calendar, Span, Time};
use forebay_metrics::Recorder;
use forebay_model::random::Streams;

use crate::ids::{IdVec, StationId, TokenBucketId};

pub(crate) use bucket::TokenBucket;
pub(crate) use event::{ActivityId, Delay, Event, Lanes, Notice};
pub(crate) use fault::{DeviceGpu, FaultRun, Faults, GpuPlace};
pub(crate) use sampled_barrier::{BarrierWait, EpochsOfLoader, NodeSample, SampledBarrier, Waited};
pub use station::Station;
pub(crate) use station::{Cores, Service, Waiting};

/// The environment of a run: the simulated time, the calendar of events, shared links and stations, random streams, and
/// records.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) now: Time,
    pub(crate) calendar: Calendar<Event>,
    pub(crate) network: Network<ActivityId>,
    pub(crate) stations: IdVec<StationId, Service>,
    /// Token buckets of storages that give bursts, and of CPU quotas.
    pub(crate) buckets: IdVec<TokenBucketId, TokenBucket>,
    pub(crate) streams: Streams,
    /// Recorder of the timeline, if one is recorded.
    pub(crate) recorder: Option<Recorder>,
    /// Notices sent and not yet delivered, oldest first.
    pub(crate) notices: VecDeque<Notice>,
    /// Number of finished transfers and other finished services.
    pub(crate) flows: u64,
    /// Number of events that the look-ups in caches before the run began count as.
    pub(crate) before: u64,
}

impl Env {
    /// Returns an environment at time zero with nothing in it.
    pub(crate) fn new(streams: Streams) -> Env {
        Env {
            now: Time::ZERO,
            calendar: Calendar::new(),
            network: Network::new(),
            stations: IdVec::default(),
            buckets: IdVec::default(),
            streams,
            recorder: None,
            notices: VecDeque::new(),
            flows: 0,
            before: 0,
        }
    }

    /// Ends a service at `station` and schedules the end of the next one, if an activity waits there.
    pub(crate) fn end_service(&mut self, station: StationId) {
        if let Some(next) = self.stations[station].queue.leave(self.now) {
            self.after(next.delay, Event::Opened(next.activity));
        }
    }

    /// Lets `activity` use one of the cores `slots` for `delay`, as soon as one is free; returns whether one is free now. With a
    /// group, the activity may need its core for longer.
    pub(crate) fn take_core(
        &mut self,
        (station, pace): (StationId, Option<GroupId>),
        activity: ActivityId,
        delay: Delay,
    ) -> bool {
        let visit = Waiting { activity, delay, pace };
        let is_free = self.stations[station].queue.arrive(self.now, visit);
        if is_free {
            self.use_core(visit);
        }
        is_free
    }

    /// Lets an activity begin to use the core that it has got.
    #[inline]
    pub(crate) fn use_core(&mut self, Waiting { activity, delay, pace }: Waiting) {
        match (pace, activity) {
            (Some(group), _) => {
                self.network.start(self.now, group, delay.span.seconds(), activity);
            }
            (None, ActivityId::Worker(w)) => self.after(delay, Event::Computed(w)),
            (None, ActivityId::Step(d)) => self.after(delay, Event::Stepped(d)),
            (None, _) => self.after(delay, Event::Waited(activity)),
        }
    }

    /// Schedules `event` at the end of `delay`.
    #[inline(always)]
    pub(crate) fn after(&mut self, delay: Delay, event: Event) {
        let at = self.now + delay.span;
        match delay.lane {
            Some(lane) => self.calendar.schedule_in(lane, at, event),
            None => self.calendar.schedule(at, event),
        }
    }
}

/// Reports that an invariant is broken: `what` is a sentence on what should have been there.
#[cold]
#[track_caller]
pub(crate) fn broken(what: &str) {
    debug_assert!(false, "{what}");
}

impl Env {
    /// Removes a request from its I/O queue; the request that has waited longest takes its slot.
    pub(crate) fn leave_queue(&mut self, slots: StationId) {
        if let Some(next) = self.stations[slots].queue.leave(self.now) {
            self.after(next.delay, Event::Waited(next.activity));
        }
    }

    /// Adds a request to an I/O queue; returns false if all slots are taken and the request waits.
    pub(crate) fn enter_queue(&mut self, slots: StationId, activity: ActivityId) -> bool {
        // A request that gets a freed slot goes on at that instant.
        let delay = Delay { span: Span::ZERO, lane: None };
        self.stations[slots].queue.arrive(self.now, Waiting { activity, delay, pace: None })
    }
}
