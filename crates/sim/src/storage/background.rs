//! Background loads on storages, from outside the simulated jobs.

use forebay_engine::fluid::GroupId;
use forebay_model::random::{Purpose, Sampler};

use super::mount::{Mount, RequestLatency};
use crate::env::{ActivityId, Delay, Env, Event};
use crate::ids::{IdVec, LoadId, RequestId, Slab};

/// Requests that arrive at one storage as a Poisson process.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) gap: Sampler,
    pub(crate) size: Sampler,
    pub(crate) mount: Mount,
    pub(crate) arrived: u64,
}

/// A background request in progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Request {
    load: LoadId,
    ordinal: u64,
}

/// Endless background transfers, which start with the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless {
    pub(crate) group: GroupId,
    pub(crate) streams: u32,
}

/// The owner of all background loads.
#[derive(Debug, Default)]
pub(crate) struct Background {
    pub(crate) loads: IdVec<LoadId, Load>,
    requests: Slab<RequestId, Request>,
}

impl Background {
    /// Schedules the first request of each load.
    pub(crate) fn begin(&self, env: &mut Env) {
        for load in self.loads.ids() {
            let gap = self.gap(env, load, 0);
            env.after(gap, Event::Arrived(load));
        }
    }

    /// Returns the interarrival time before request number `ordinal` of `load`.
    fn gap(&self, env: &Env, load: LoadId, ordinal: u64) -> Delay {
        let mut generator = env.streams.at(Purpose::Arrival, u64::from(load.number()), ordinal, 0);
        Delay::once(self.loads[load].gap.draw(&mut generator))
    }

    /// Handles the arrival of a request of `load` and schedules the arrival of the next one.
    pub(crate) fn begin_request(&mut self, env: &mut Env, load: LoadId) {
        let ordinal = self.loads[load].arrived;
        self.loads[load].arrived += 1;
        env.after(self.gap(env, load, ordinal + 1), Event::Arrived(load));
        let request = Request { load, ordinal };
        let r = self.requests.add(request);
        match self.loads[load].mount.station {
            None => self.request_latency(env, r),
            Some(station) => {
                let station = &mut env.stations[station];
                let visit = station.visit(env.now, ActivityId::Request(r));
                if station.queue.arrive(env.now, visit) {
                    env.after(visit.delay, Event::Opened(visit.activity));
                }
            }
        }
    }

    pub(crate) fn end_request_operation(&mut self, env: &mut Env, r: RequestId) {
        let load = self.requests[r].load;
        if let Some(station) = self.loads[load].mount.station {
            env.end_service(station);
        }
        self.request_latency(env, r);
    }

    fn request_latency(&mut self, env: &mut Env, r: RequestId) {
        let Request { load, ordinal } = self.requests[r];
        let delay = match &self.loads[load].mount.latency {
            RequestLatency::None => return self.request_bytes(env, r),
            RequestLatency::Constant(delay) => *delay,
            RequestLatency::Drawn(sampler, round_trip) => {
                let purpose = Purpose::RequestLatency;
                let mut generator = env.streams.at(purpose, u64::from(load.number()), ordinal, 0);
                Delay::once(sampler.draw(&mut generator) + round_trip)
            }
        };
        env.after(delay, Event::Waited(ActivityId::Request(r)));
    }

    pub(crate) fn request_bytes(&mut self, env: &mut Env, r: RequestId) {
        let Request { load, ordinal } = self.requests[r];
        let Some(group) = self.loads[load].mount.group else {
            return self.end_request(r);
        };
        let mut generator =
            env.streams.at(Purpose::RequestSize, u64::from(load.number()), ordinal, 0);
        let bytes = self.loads[load].size.draw(&mut generator);
        env.network.start(env.now, group, bytes, ActivityId::Request(r));
    }

    pub(crate) fn end_request(&mut self, r: RequestId) {
        self.requests.remove(r);
    }
}
