//! Files and samples that are fetched in several range requests, with readahead.

use forebay_report::Cause;
use forebay_scenario::Ranges;

use super::loaders::Loaders;
use super::worker::Phase;
use crate::env::{ActivityId, Env, Event};
use crate::ids::{IdVec, Ids, RangeId, Slab, WorkerId};
use crate::storage::{ServiceModel, Turn};

/// The fetch of a worker's request in several range requests, and its progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fetch {
    /// Bytes not yet requested [B].
    left: f64,
    /// Number of range requests made so far.
    pub(super) number: u32,
    /// Number of requests in progress.
    in_progress: u32,
    /// Number of requests whose bytes are being transferred.
    moving: u32,
}

/// A range request that is in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    worker: WorkerId,
    bytes: f64,
    /// Number of the range within its sample.
    number: u32,
    /// Number of the range's route to storage targets or through an I/O queue, if there are several routes.
    way: u32,
    state: State,
    refusals: u8,
    /// Whether the range is the last one of its sample.
    last: bool,
    /// Number of unfinished parts of the transfer: over the network, and by the storage's service model.
    parts: u8,
}

impl Range {
    /// Returns whether the range has got a slot of its I/O queue, or needs none because there is no queue.
    fn is_in_queue(&self) -> bool {
        self.state != State::Queued
    }
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The request waits for a slot of its I/O queue.
    Queued,
    /// The request is at the station that limits the storage's operations.
    Opening,
    /// The request was refused by the request limiter, and waits until it asks again.
    Refused,
    FirstByte,
    Bytes,
}

/// All ranges that are being fetched.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// The fetch of each worker; empty if no data set is fetched in ranges.
    pub(crate) of: IdVec<WorkerId, Fetch>,
    ranges: Slab<RangeId, Range>,
}

impl Fetches {
    fn add(&mut self, range: Range) -> RangeId {
        self.ranges.add(range)
    }

    /// Returns the worker that fetches range `r`.
    pub(crate) fn worker(&self, r: RangeId) -> WorkerId {
        self.ranges[r].worker
    }

    /// Returns the worker and route of each range of these workers that holds a slot of an I/O queue.
    pub(super) fn in_queues(&self, workers: Ids<WorkerId>) -> Vec<(WorkerId, u32)> {
        let found = self.ranges.all_if(|of| workers.contains(of.worker) && of.is_in_queue());
        found.into_iter().map(|r| (self.ranges[r].worker, self.ranges[r].way)).collect()
    }

    /// Returns the worker and route of range `r` if it waits for a slot of its I/O queue.
    pub(super) fn entering(&self, r: RangeId) -> Option<(WorkerId, u32)> {
        let Range { worker, way, state, .. } = self.ranges[r];
        (state == State::Queued).then_some((worker, way))
    }

    /// Removes all ranges of these workers.
    pub(crate) fn forget(&mut self, workers: Ids<WorkerId>) {
        self.ranges.remove_if(|range| workers.contains(range.worker));
        if !self.of.is_empty() {
            self.of[workers].fill(Fetch::default());
        }
    }
}

impl Loaders {
    /// Fetches the current request of worker `w` in ranges; returns true if the sample is complete.
    pub(super) fn fetch_ranges(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        worker.parts = 1;
        self.fetches.of[w] = Fetch { left: worker.request, ..Fetch::default() };
        self.enter(env, w, Phase::Served, Cause::Latency);
        self.ask_ahead(env, w) && self.end_part(env, w)
    }

    /// Makes range requests of worker `w` until as many are in progress as readahead allows; returns true if all ranges have
    /// been fetched.
    fn ask_ahead(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let source = &self.loaders[self.workers[w].loader].source;
        let Some(Ranges { request, readahead }) = source.ranges else { return true };
        loop {
            let fetch = &mut self.fetches.of[w];
            // Half a byte of slack, because differences of sizes are rounded.
            if fetch.left < 0.5 || fetch.in_progress == readahead {
                return fetch.in_progress == 0;
            }
            let bytes = request.min(fetch.left);
            fetch.left -= bytes;
            fetch.in_progress += 1;
            let number = fetch.number;
            fetch.number += 1;
            let way = self.way_of_range(w, f64::from(number) * request, bytes);
            let state = State::Queued;
            let last = self.fetches.of[w].left < 0.5;
            let range = Range { worker: w, bytes, number, way, state, refusals: 0, last, parts: 0 };
            let r = self.fetches.add(range);
            if self.enter_range(env, r) {
                self.end_range(env, r);
            }
        }
    }

    /// Lets range `r` enter its I/O queue, if there is one; returns true if its bytes are there at once.
    fn enter_range(&mut self, env: &mut Env, r: RangeId) -> bool {
        let Range { worker: w, way, .. } = self.fetches.ranges[r];
        if let Some(slots) = self.slots_of(w, way)
            && !env.enter_queue(slots, ActivityId::Range(r))
        {
            self.note_fetch(env, w, Cause::Open);
            return false;
        }
        self.operate_range(env, r)
    }

    /// Sends range `r` to the station that limits the storage's operations, if there is one and the storage has I/O queues;
    /// otherwise sends the request for the range. Returns true if the range's bytes are there at once.
    fn operate_range(&mut self, env: &mut Env, r: RangeId) -> bool {
        let range = &mut self.fetches.ranges[r];
        range.state = State::Opening;
        let w = range.worker;
        let mount = &self.loaders[self.workers[w].loader].mount;
        // Elsewhere the worker's open of the file was the operation.
        let station = mount.station.filter(|_| mount.queues().is_some());
        let Some(station) = station else { return self.ask_range(env, r) };
        self.note_fetch(env, w, Cause::Open);
        let station = &mut env.stations[station];
        let visit = station.visit(env.now, ActivityId::Range(r));
        if station.queue.arrive(env.now, visit) {
            env.after(visit.delay, Event::Opened(visit.activity));
        }
        false
    }

    /// Ends the visit of range `r` at the station that limits the storage's operations.
    pub(crate) fn end_range_operation(&mut self, env: &mut Env, r: RangeId) {
        let w = self.fetches.ranges[r].worker;
        if let Some(station) = self.mount_of(w).station {
            env.end_service(station);
        }
        if self.ask_range(env, r) {
            self.finish_range(env, r);
        }
    }

    /// Sends the request for range `r`, which may be refused; returns true if its bytes are there at once.
    fn ask_range(&mut self, env: &mut Env, r: RangeId) -> bool {
        let Range { worker: w, number, mut refusals, .. } = self.fetches.ranges[r];
        self.fetches.ranges[r].state = State::Refused;
        let mount = &self.loaders[self.workers[w].loader].mount;
        if let Some(limiter) = mount.limiter
            && let Some(wait) = self.refused(env, w, limiter, number, &mut refusals)
        {
            self.fetches.ranges[r].refusals = refusals;
            self.note_fetch(env, w, Cause::Open);
            env.after(wait, Event::Waited(ActivityId::Range(r)));
            return false;
        }
        self.fetches.ranges[r].state = State::FirstByte;
        let Some(delay) = self.first_byte_after(env, w) else { return self.move_range(env, r) };
        self.note_fetch(env, w, Cause::Latency);
        env.after(delay, Event::Waited(ActivityId::Range(r)));
        false
    }

    /// Goes on with range `r` after the end of its delay.
    pub(crate) fn resume_range(&mut self, env: &mut Env, r: RangeId) {
        let over = match self.fetches.ranges[r].state {
            State::Queued => self.operate_range(env, r),
            State::Opening | State::Refused => self.ask_range(env, r),
            State::FirstByte | State::Bytes => self.move_range(env, r),
        };
        if over {
            self.finish_range(env, r);
        }
    }

    /// Begins the transfer of range `r`; returns true if its bytes are there at once.
    fn move_range(&mut self, env: &mut Env, r: RangeId) -> bool {
        let Range { worker: w, bytes, number, way, last, .. } = self.fetches.ranges[r];
        let mount = &self.loaders[self.workers[w].loader].mount;
        let (group, service) = (mount.way(&mut env.network, way), mount.service_on(way));
        let client = self.storages.clients[self.workers[w].loader];
        let range = &mut self.fetches.ranges[r];
        range.state = State::Bytes;
        range.parts = service.parts(group.is_some());
        if range.parts == 0 {
            return true;
        }
        self.fetches.of[w].moving += 1;
        self.note_fetch(env, w, Cause::Transfer);
        let activity = ActivityId::Range(r);
        if let Some(group) = group {
            self.start_transfer(env, service, Turn { activity, client, group, bytes });
        }
        match service {
            ServiceModel::None | ServiceModel::Turns(_) => {}
            ServiceModel::Table(table) => self.ask_table(env, table, bytes, activity),
            ServiceModel::DiskHead(arm) => {
                let spot = self.spot_of_range(w, number, last);
                self.ask_disk_head(env, arm, bytes, (activity, spot));
            }
        }
        false
    }

    /// Ends a part of the transfer of range `r`.
    pub(crate) fn end_range_transfer(&mut self, env: &mut Env, r: RangeId) {
        let range = &mut self.fetches.ranges[r];
        if range.parts > 1 {
            range.parts -= 1;
            return;
        }
        let (w, way) = (range.worker, range.way);
        let service = self.loaders[self.workers[w].loader].mount.service_on(way);
        if self.end_turn(env, service, ActivityId::Range(r)) {
            self.fetches.of[w].moving -= 1;
            self.note_fetch(env, w, Cause::Latency);
            self.finish_range(env, r);
        }
    }

    /// Ends range `r` and requests more; resumes the worker if all ranges have been fetched.
    fn finish_range(&mut self, env: &mut Env, r: RangeId) {
        let w = self.fetches.ranges[r].worker;
        self.end_range(env, r);
        if self.ask_ahead(env, w) {
            self.resume(env, w);
        }
    }

    fn end_range(&mut self, env: &mut Env, r: RangeId) {
        let Range { worker: w, way, .. } = self.fetches.ranges[r];
        if let Some(slots) = self.slots_of(w, way) {
            env.leave_queue(slots);
        }
        self.fetches.of[w].in_progress -= 1;
        self.fetches.ranges.remove(r);
    }

    /// Records the cause of the wait of worker `w`: a transfer if bytes of any of the worker's ranges are being transferred, and
    /// `cause` otherwise.
    fn note_fetch(&mut self, env: &mut Env, w: WorkerId, cause: Cause) {
        let moving = self.fetches.of[w].moving;
        match (cause, moving) {
            (Cause::Transfer, 1) | (_, 0) => self.enter(env, w, Phase::Served, cause),
            _ => {}
        }
    }
}
