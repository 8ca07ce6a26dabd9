//! The I/O queues of a node to a shared target: each queue has slots for requests in progress and a route of its own.

use forebay_engine::Span;
use forebay_engine::fluid::{GroupId, LinkId};
use forebay_report::Cause;

use crate::env::Env;
use crate::event::{ActivityId, Delay, Event};
use crate::ids::{IdVec, Ids, RangeId, RouteId, StationId, WorkerId};
use crate::loaders::Loaders;
use crate::worker::{Phase, Waiting};

/// The I/O queues of a node, as one loader uses them.
#[derive(Debug)]
pub(crate) struct IoQueues {
    /// For each queue, a station whose servers are the queue's slots.
    pub(crate) slots: IdVec<RouteId, StationId>,
    /// For each queue, its own link, if its bandwidth is limited.
    pub(crate) links: Vec<Option<LinkId>>,
    /// For each queue, the route of its bytes; `None` if nothing limits them.
    pub(crate) routes: IdVec<RouteId, Option<GroupId>>,
    /// Number of the queue that the loader's first worker uses.
    pub(crate) first: u32,
}

impl IoQueues {
    /// Returns the number of the queue of the loader's worker number `worker`. For files that no worker reads, `worker` is the
    /// number of the file.
    pub(crate) fn of(&self, worker: u64) -> u32 {
        ((u64::from(self.first) + worker) % self.slots.len() as u64) as u32
    }
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

impl Loaders {
    /// Returns the number of the I/O queue of worker `w`; 0 if its loader's storage has none.
    pub(super) fn queue_of(&self, w: WorkerId) -> u32 {
        let loader = &self.loaders[self.workers[w].loader];
        let number = u64::from(w - loader.stages.workers.start);
        loader.mount.queues().map_or(0, |queues| queues.of(number))
    }

    /// Returns the station whose servers are the slots of I/O queue number `way`; `None` if the storage that worker `w` reads has
    /// no I/O queues.
    pub(crate) fn slots_of(&self, w: WorkerId, way: u32) -> Option<StationId> {
        let queues = self.mount_of(w).queues()?;
        queues.slots.get(RouteId::new(way)).copied()
    }

    /// Returns the station in which the current request of worker `w` holds a slot, if it is a single request (not split into
    /// ranges) in progress.
    #[inline]
    pub(crate) fn slots_held(&self, w: WorkerId) -> Option<StationId> {
        let worker = &self.workers[w];
        self.loaders[worker.loader].mount.queues()?;
        let whole = worker.request <= self.loaders[worker.loader].source.most;
        let issued = matches!(
            worker.phase,
            Phase::Opening | Phase::Refused | Phase::Latency | Phase::Transfer | Phase::Request
        );
        let held = worker.origin.is_storage() && whole && issued;
        held.then(|| self.slots_of(w, worker.location.way)).flatten()
    }

    /// Lets worker `w` enter its I/O queue with its current request; returns true if the sample is complete.
    pub(super) fn enter_queue(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &self.workers[w];
        if worker.request > self.loaders[worker.loader].source.most {
            // Each range enters the queue by itself.
            return self.fetch_ranges(env, w);
        }
        let entered = match self.slots_of(w, worker.location.way) {
            Some(slots) => env.enter_queue(slots, ActivityId::Worker(w)),
            None => true,
        };
        if entered {
            return self.operate(env, w);
        }
        self.enter(env, w, Phase::Queued, Cause::Open);
        false
    }

    /// Continues the request of worker `w`, which has got a slot: it visits the station that limits the storage's operations, if
    /// there is one. Returns true if the sample is complete.
    pub(crate) fn operate(&mut self, env: &mut Env, w: WorkerId) -> bool {
        match self.mount_of(w).station {
            Some(station) => self.open(env, w, station),
            None => self.ask_again(env, w),
        }
    }

    /// Cancels the requests of these workers in I/O queues: each held slot passes to the next request.
    pub(crate) fn leave_queues(&mut self, env: &mut Env, workers: Ids<WorkerId>) {
        let whole = workers.iter().filter_map(|w| self.slots_held(w));
        let ranges = self.fetches.in_queues(workers);
        let ranges = ranges.into_iter().filter_map(|(w, way)| self.slots_of(w, way));
        for slots in whole.chain(ranges).collect::<Vec<_>>() {
            env.leave_queue(slots);
        }
    }

    /// Passes the slot that the request of worker `w` has just got to the next request, because the request of worker `w` is
    /// cancelled.
    pub(crate) fn give_slot_back(&self, env: &mut Env, w: WorkerId) {
        let worker = &self.workers[w];
        if worker.phase == Phase::Queued
            && let Some(slots) = self.slots_of(w, worker.location.way)
        {
            env.leave_queue(slots);
        }
    }

    /// Passes the slot that range `r` has just got to the next request, because the range is cancelled.
    pub(crate) fn give_slot_of_range_back(&self, env: &mut Env, r: RangeId) {
        if let Some((w, way)) = self.fetches.entering(r)
            && let Some(slots) = self.slots_of(w, way)
        {
            env.leave_queue(slots);
        }
    }

    /// Frees the place of the request of worker `w` at the station that limits the storage's operations, because the request is
    /// cancelled.
    pub(crate) fn leave_operations(&self, env: &mut Env, w: WorkerId) {
        if let Some(station) = self.mount_of(w).station {
            env.served(station);
        }
    }
}
