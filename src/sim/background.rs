//! Loads on a storage that are not ours.

use crate::fluid::GroupId;
use crate::random::{Purpose, Sampler};

use super::event::{Clock, Customer, Delay, Event};
use super::index::{LoadId, RequestId};
use super::read::{Mount, RequestLatency};
use super::workers::Waiting;
use super::world::World;

/// Requests that arrive at one storage as a Poisson process.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) gap: Sampler,
    pub(super) size: Sampler,
    pub(super) mount: Mount,
    pub(super) arrived: u64,
}

/// A background request in progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Request {
    load: LoadId,
    ordinal: u64,
}

/// Endless transfers, started with the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endless {
    pub(super) group: GroupId,
    pub(super) streams: u32,
}

impl World<'_> {
    /// Time until request number `ordinal` of a load arrives after the one before.
    pub(super) fn gap(&self, load: LoadId, ordinal: u64) -> Delay {
        let mut generator = self.streams.at(Purpose::Arrival, u64::from(load.number()), ordinal, 0);
        Delay::once(self.loads[load].gap.draw(&mut generator))
    }

    /// A request arrives, and the next one is planned.
    pub(super) fn arrived(&mut self, clock: &mut Clock, load: LoadId) {
        let ordinal = self.loads[load].arrived;
        self.loads[load].arrived += 1;
        clock.after(self.gap(load, ordinal + 1), Event::Arrived(load));
        let request = Request { load, ordinal };
        let r = self.requests.add(request);
        match self.loads[load].mount.station {
            None => self.request_latency(clock, r),
            Some(station) => {
                let station = &mut self.stations[station];
                let visit = Waiting { customer: Customer::Request(r), delay: station.service };
                if station.queue.arrive(clock.now, visit) {
                    clock.after(visit.delay, Event::Opened(visit.customer));
                }
            }
        }
    }

    pub(super) fn request_opened(&mut self, clock: &mut Clock, r: RequestId) {
        let load = self.requests[r].load;
        if let Some(station) = self.loads[load].mount.station {
            self.served(clock, station);
        }
        self.request_latency(clock, r);
    }

    fn request_latency(&mut self, clock: &mut Clock, r: RequestId) {
        let Request { load, ordinal } = self.requests[r];
        let delay = match &self.loads[load].mount.latency {
            RequestLatency::None => return self.request_bytes(clock, r),
            RequestLatency::Constant(delay) => *delay,
            RequestLatency::Drawn(sampler, round_trip) => {
                let purpose = Purpose::RequestLatency;
                let mut generator = self.streams.at(purpose, u64::from(load.number()), ordinal, 0);
                Delay::once(sampler.draw(&mut generator) + round_trip)
            }
        };
        clock.after(delay, Event::Waited(Customer::Request(r)));
    }

    pub(super) fn request_bytes(&mut self, clock: &mut Clock, r: RequestId) {
        let Request { load, ordinal } = self.requests[r];
        let Some(group) = self.loads[load].mount.group else {
            return self.end_request(r);
        };
        let mut generator =
            self.streams.at(Purpose::RequestSize, u64::from(load.number()), ordinal, 0);
        let bytes = self.loads[load].size.draw(&mut generator);
        self.network.start(clock.now, group, bytes, Customer::Request(r));
    }

    pub(super) fn end_request(&mut self, r: RequestId) {
        self.requests.remove(r);
    }
}
