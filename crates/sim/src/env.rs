//! The environment that all owners of the world share and change.

use forebay_metrics::Recorder;
use std::collections::VecDeque;

use forebay_engine::fluid::{GroupId, Network};
use forebay_engine::{Calendar, Time};
use forebay_model::random::Streams;

use super::event::{ActivityId, Delay, Event};
use super::ids::{IdVec, StationId};
use super::notice::Notice;
use super::station::Service;
use super::storages::Storages;
use super::worker::Waiting;

/// The environment of a run: the simulated time, the calendar of events, shared links, stations and storages, random streams,
/// and records.
#[derive(Debug)]
pub(super) struct Env {
    pub(super) now: Time,
    pub(super) calendar: Calendar<Event>,
    pub(super) network: Network<ActivityId>,
    pub(super) stations: IdVec<StationId, Service>,
    pub(super) storages: Storages,
    pub(super) streams: Streams,
    /// Recorder of the timeline, if one is recorded.
    pub(super) recorder: Option<Recorder>,
    /// Notices sent and not yet delivered, oldest first.
    pub(super) notices: VecDeque<Notice>,
    /// Number of finished transfers and other finished services.
    pub(super) flows: u64,
    /// Number of events that the look-ups in caches before the run began count as.
    pub(super) before: u64,
}

impl Env {
    /// Returns an environment at time zero with nothing in it.
    pub(super) fn new(streams: Streams) -> Env {
        Env {
            now: Time::ZERO,
            calendar: Calendar::new(),
            network: Network::new(),
            stations: IdVec::default(),
            storages: Storages::default(),
            streams,
            recorder: None,
            notices: VecDeque::new(),
            flows: 0,
            before: 0,
        }
    }

    /// Ends a service at `station` and schedules the end of the next one, if an activity waits there.
    pub(super) fn served(&mut self, station: StationId) {
        if let Some(next) = self.stations[station].queue.leave(self.now) {
            self.after(next.delay, Event::Opened(next.activity));
        }
    }

    /// Lets `activity` use one of the cores `slots` for `delay`, as soon as one is free; returns whether one is free now. With a
    /// group, the activity may need its core for longer.
    pub(super) fn take_core(
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
    pub(super) fn use_core(&mut self, Waiting { activity, delay, pace }: Waiting) {
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
    pub(super) fn after(&mut self, delay: Delay, event: Event) {
        let at = self.now + delay.span;
        match delay.lane {
            Some(lane) => self.calendar.schedule_in(lane, at, event),
            None => self.calendar.schedule(at, event),
        }
    }
}
