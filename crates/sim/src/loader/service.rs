//! What a request meets at a storage besides links: I/O queues, request limits, and models of service (a table of measured
//! throughput, or a disk head).

use forebay_engine::{Span, Time};
use forebay_model::random::Purpose;
use forebay_report::Cause;
use forebay_scenario::Layout;

use super::loaders::Loaders;
use super::worker::Phase;
use crate::env::{ActivityId, Delay, Env, Event, broken};
use crate::ids::{
    DiskHeadId, Ids, LimiterId, RangeId, RouteId, StationId, TableId, TurnsId, WorkerId,
};
use crate::storage::{ServiceModel, Spot, Turn};

impl Loaders {
    /// Sends the current request of worker `w` to the storage's service model. The request ends when it has been served and its
    /// bytes have arrived over the network. Returns true if the sample is complete.
    pub(super) fn ask_service(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let (mount, way) = (self.mount_of(w), self.workers[w].location.way);
        let (service, group) = (mount.service_on(way), mount.way(&mut env.network, way));
        let worker = &mut self.workers[w];
        let (bytes, activity) = (worker.request, ActivityId::Worker(w));
        let client = self.storages.clients[worker.loader];
        worker.parts = service.parts(group.is_some());
        self.enter(env, w, Phase::Served, Cause::Transfer);
        if let Some(group) = group {
            self.start_transfer(env, service, Turn { activity, client, group, bytes });
        }
        match service {
            ServiceModel::None | ServiceModel::Turns(_) => {}
            ServiceModel::Table(table) => self.ask_table(env, table, bytes, activity),
            ServiceModel::DiskHead(arm) => {
                self.ask_disk_head(env, arm, bytes, (activity, self.spot(w)))
            }
        }
        false
    }

    /// Begins a transfer from a storage with this model of service, as soon as it is the request's turn.
    pub(super) fn start_transfer(&mut self, env: &mut Env, service: ServiceModel, turn: Turn) {
        match service {
            ServiceModel::Turns(turns) => self.storages.turns[turns].ask(env, turn),
            _ => {
                env.network.start(env.now, turn.group, turn.bytes, turn.activity);
            }
        }
    }

    /// Begins the transfer of a request after the overhead of its turn.
    pub(crate) fn begin_transfer(&mut self, env: &mut Env, turns: TurnsId, request: u32) {
        self.storages.turns[turns].begin(env, request);
    }

    /// Ends the turn of `activity`, a request to a storage with this model of service, if requests have turns there. Returns whether all
    /// bytes of the request have been transferred.
    pub(super) fn end_turn(
        &mut self,
        env: &mut Env,
        service: ServiceModel,
        activity: ActivityId,
    ) -> bool {
        match service {
            ServiceModel::Turns(turns) => self.storages.turns[turns].end(env, activity),
            _ => true,
        }
    }

    /// Ends one part of the request of worker `w`; returns true if the sample is complete.
    pub(super) fn end_part(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        if worker.parts > 1 {
            worker.parts -= 1;
            return false;
        }
        let way = worker.location.way;
        let service = self.mount_of(w).service_on(way);
        self.end_turn(env, service, ActivityId::Worker(w)) && self.end_transfer(env, w)
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
    pub(super) fn slots_of(&self, w: WorkerId, way: u32) -> Option<StationId> {
        let queues = self.mount_of(w).queues()?;
        queues.slots.get(RouteId::new(way)).copied()
    }

    /// Returns the station in which the current request of worker `w` holds a slot, if it is a single request (not split into
    /// ranges) in progress.
    #[inline]
    pub(super) fn slots_held(&self, w: WorkerId) -> Option<StationId> {
        let worker = &self.workers[w];
        self.loaders[worker.loader].mount.queues()?;
        let whole = worker.request <= self.loaders[worker.loader].source.most;
        let issued = matches!(
            worker.phase,
            Phase::Opening
                | Phase::Refused
                | Phase::Latency
                | Phase::Transfer
                | Phase::Request
                | Phase::Served
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
    pub(super) fn operate(&mut self, env: &mut Env, w: WorkerId) -> bool {
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
            env.end_service(station);
        }
    }
}

/// Number of attempts of one request that have random numbers of their own; further attempts reuse them.
const ATTEMPTS: u64 = 64;

impl Loaders {
    /// Asks limiter `l` to admit the request of worker `w`. Returns true if the request is admitted, takes no time, and completes
    /// the sample.
    pub(super) fn request(&mut self, env: &mut Env, w: WorkerId, l: LimiterId) -> bool {
        let worker = &mut self.workers[w];
        let (number, mut refusals) = (worker.requests, worker.refusals);
        let wait = self.refused(env, w, l, number, &mut refusals);
        self.workers[w].refusals = refusals;
        let Some(wait) = wait else { return self.wait_for_first_byte(env, w) };
        self.enter(env, w, Phase::Refused, Cause::Open);
        env.after(wait, Event::Waited(ActivityId::Worker(w)));
        false
    }

    /// Returns how long request number `request` of worker `w` has to wait before it asks limiter `l` again, after `refusals`
    /// refusals; `None` if it is admitted.
    pub(super) fn refused(
        &mut self,
        env: &mut Env,
        w: WorkerId,
        l: LimiterId,
        request: u32,
        refusals: &mut u8,
    ) -> Option<Delay> {
        let worker = &self.workers[w];
        let attempt = u64::from(refusals.saturating_add(1)) % ATTEMPTS;
        let index = u64::from(request) * ATTEMPTS + attempt;
        let owner = self.loaders[worker.loader].place.owner();
        let (streams, position) = (&env.streams, worker.sample.position);
        let generator = || streams.at(Purpose::BackOff, owner, position, index);
        self.storages.limiters[l].ask(env.now, refusals, generator)
    }
}

impl Loaders {
    /// Begins a request of `activity` for `bytes` at table `t`.
    pub(super) fn ask_table(
        &mut self,
        env: &mut Env,
        t: TableId,
        bytes: f64,
        activity: ActivityId,
    ) {
        self.storages.tables[t].start(env.now, bytes, activity);
        self.plan_table(env, t);
    }

    /// Ends all requests at table `t` that are done now.
    pub(crate) fn serve_table(&mut self, env: &mut Env, t: TableId) {
        if !self.storages.tables[t].reach(env.now) {
            return;
        }
        while let Some(activity) = self.storages.tables[t].finish(env.now) {
            env.flows += 1;
            match activity {
                ActivityId::Worker(w) => self.resume(env, w),
                ActivityId::Range(r) => self.end_range_transfer(env, r),
                // No other activity reads from a measured storage.
                _ => {}
            }
        }
        self.plan_table(env, t);
    }

    fn plan_table(&mut self, env: &mut Env, t: TableId) {
        self.storages.tables[t].plan(&mut env.calendar, t);
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
        if let Some(seconds) = self.storages.disk_heads[a].ask(env.now, bytes, (activity, spot)) {
            env.after(Delay::once(seconds), Event::Delivered(a));
        }
    }

    /// Ends the request that disk head `a` was serving.
    pub(crate) fn end_disk_request(&mut self, env: &mut Env, a: DiskHeadId) {
        let (ended, next) = self.storages.disk_heads[a].end(env.now);
        if let Some(seconds) = next {
            env.after(Delay::once(seconds), Event::Delivered(a));
        }
        env.flows += 1;
        match ended {
            Some((ActivityId::Worker(w), seconds)) => {
                self.split_latency(env.now, w, seconds);
                self.resume(env, w);
            }
            Some((ActivityId::Range(r), _)) => self.end_range_transfer(env, r),
            // No other activity reads from a disk head.
            _ => {}
        }
    }

    /// Splits the recorded wait of worker `w`: the last `seconds` before `now` were transfer, the time before them latency.
    fn split_latency(&mut self, now: Time, w: WorkerId, seconds: f64) {
        let worker = &mut self.workers[w];
        let Some(since) = worker.timeline.last_start(&self.pages) else {
            return broken("a worker that waits for a disk has begun an activity");
        };
        let then = Time(now.0.saturating_sub(Span::from_seconds(seconds).0));
        if then > since {
            worker.timeline.split(&mut self.pages, Cause::Latency, then, Cause::Transfer);
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
