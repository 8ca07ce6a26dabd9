//! Reading: an open operation, a latency, and a transfer; of files, of a place in one file, of shards, and of row groups.

use forebay_model::random::Purpose;
use forebay_report::Cause;
use forebay_scenario::{Layout, RowGroups};

use super::loaders::Loaders;
use super::worker::Phase;
use crate::env::{ActivityId, Delay, Env, Event, broken};
use crate::ids::{StationId, WorkerId};
use crate::storage::{First, Mount, Origin, RequestLatency, Routes, ServiceModel};

impl Loaders {
    /// Begins to read the current sample of worker `w`; returns true if the sample is there already.
    #[inline]
    pub(super) fn begin_read(&mut self, env: &mut Env, w: WorkerId) -> bool {
        self.locate(env, w);
        let loader = &self.loaders[self.workers[w].loader];
        if let Some(first) = loader.features.plain {
            return self.fetch_plain(env, w, first);
        }
        if loader.caches.decoded.is_some() && self.look_up_decoded(w) {
            return true;
        }
        self.fetch(env, w)
    }

    /// Requests the next bytes of the current sample of worker `w`; returns true if the sample is complete.
    #[inline(always)]
    fn fetch(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        let loader = &self.loaders[worker.loader];
        let (cached, tiers) = (loader.caches.page_cache.as_ref(), loader.caches.tiers.is_some());
        let routed = loader.mount.routes.is_some();
        let open = match loader.source.layout {
            Layout::FilePerSample => {
                worker.request = worker.sample.size;
                if cached.is_some() {
                    let epoch = loader.source.order.epoch();
                    if self.look_up(w, epoch) {
                        return self.begin_bytes(env, w);
                    }
                }
                if tiers {
                    self.find_file(w);
                }
                if routed {
                    self.choose_route(w, 0);
                }
                true
            }
            Layout::OneFile { .. } => return self.fetch_place(env, w),
            Layout::RowGroups(groups) => return self.fetch_chunk(env, w, groups),
            Layout::Shards { request, record, .. } => {
                let shard = &mut self.shards[w];
                let size = record.around(worker.sample.size);
                // Half a byte of slack, because sums of sizes are rounded.
                if shard.buffered + 0.5 >= size {
                    shard.buffered = (shard.buffered - size).max(0.0);
                    worker.item.bytes += worker.sample.size;
                    return true;
                }
                worker.request = request.min(shard.unread.max(1.0));
                let open = !std::mem::replace(&mut shard.opened, true);
                let number = shard.requests;
                shard.requests += 1;
                if let Some(used) = cached {
                    worker.location.unit = used.units.of(shard.file, number);
                    let epoch = shard.epoch;
                    if self.look_up(w, epoch) {
                        return self.begin_bytes(env, w);
                    }
                }
                if tiers {
                    self.find_request(env, w, number);
                }
                if routed {
                    self.choose_route(w, number);
                }
                open
            }
        };
        self.issue(env, w, open)
    }

    /// Issues the current request of worker `w`; if `open`, the worker opens the file first. Returns true if the sample is
    /// complete.
    #[inline]
    fn issue(&mut self, env: &mut Env, w: WorkerId, open: bool) -> bool {
        let mount = self.mount_of(w);
        if mount.queues().is_some() {
            return self.enter_queue(env, w);
        }
        match mount.station {
            Some(station) if open => self.open(env, w, station),
            _ => self.ask_again(env, w),
        }
    }

    /// Sends the current request to the storage, which may refuse it; returns true if the sample is complete.
    #[inline]
    pub(super) fn ask_again(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &self.workers[w];
        if worker.request > self.loaders[worker.loader].source.most {
            return self.fetch_ranges(env, w);
        }
        match self.mount_of(w).limiter {
            None => self.wait_for_first_byte(env, w),
            Some(limiter) => self.request(env, w, limiter),
        }
    }

    /// Chooses the route of request number `number` of worker `w`: the storage targets that serve it, or the I/O queue of the
    /// worker's core.
    #[cold]
    fn choose_route(&mut self, w: WorkerId, number: u32) {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        if !worker.origin.is_storage() {
            return;
        }
        let shard = &self.shards[w];
        let striped = match loader.mount.routes.as_deref() {
            Some(Routes::Striped(striped)) => Some(striped),
            Some(Routes::Queues(_)) | None => None,
        };
        let route = match (striped, loader.source.layout) {
            (None, _) => self.queue_of(w),
            (Some(striped), Layout::FilePerSample) => {
                striped.way(worker.location.file, number, worker.request)
            }
            (Some(striped), Layout::OneFile { .. }) => {
                striped.way_at(0, worker.location.file as f64 * worker.request, worker.request)
            }
            (Some(striped), Layout::Shards { request, .. }) => {
                striped.way_at(shard.file, f64::from(number) * request, worker.request)
            }
            (Some(striped), Layout::RowGroups(_)) => {
                striped.way(shard.file, number, worker.request)
            }
        };
        self.workers[w].location.way = route;
    }

    pub(super) fn open(&mut self, env: &mut Env, w: WorkerId, station: StationId) -> bool {
        self.enter(env, w, Phase::Opening, Cause::Open);
        let station = &mut env.stations[station];
        let visit = station.visit(env.now, ActivityId::Worker(w));
        if station.queue.arrive(env.now, visit) {
            env.after(visit.delay, Event::Opened(visit.activity));
        }
        false
    }

    pub(super) fn end_open(&mut self, env: &mut Env, w: WorkerId) -> bool {
        if let Some(station) = self.mount_of(w).station {
            env.end_service(station);
        }
        self.ask_again(env, w)
    }

    #[inline]
    pub(super) fn wait_for_first_byte(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Some(delay) = self.first_byte_after(env, w) else { return self.begin_bytes(env, w) };
        self.enter(env, w, Phase::Latency, Cause::Latency);
        env.after(delay, Event::Waited(ActivityId::Worker(w)));
        false
    }

    /// Returns the latency to the first byte of one more request of worker `w`, and counts that request; returns `None` if the
    /// storage has no latency.
    #[inline(always)]
    pub(super) fn first_byte_after(&mut self, env: &mut Env, w: WorkerId) -> Option<Delay> {
        let delay = match &self.mount_of(w).latency {
            RequestLatency::None => return None,
            RequestLatency::Constant(delay) => *delay,
            RequestLatency::Drawn(sampler, round_trip) => {
                let worker = &self.workers[w];
                let loader = &self.loaders[worker.loader];
                let (owner, request) = (loader.place.owner(), worker.requests as u64);
                let mut generator =
                    env.streams.at(Purpose::Latency, owner, worker.sample.position, request);
                Delay::once((sampler.draw(&mut generator) + round_trip).max(0.0))
            }
        };
        self.workers[w].requests += 1;
        Some(delay)
    }

    #[inline]
    pub(super) fn begin_bytes(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        if loader.features.plain.is_some() {
            return self.transfer_plain(env, w);
        }
        let bytes = worker.request;
        let shard = matches!(loader.source.layout, Layout::Shards { .. });
        let (hit, mount) = (worker.origin == Origin::PageCache, self.mount_of(w));
        if mount.service != ServiceModel::None && !hit {
            return self.ask_service(env, w);
        }
        let way = match hit {
            true => self.way_in_cache(w),
            false => mount.way(&mut env.network, worker.location.way),
        };
        let Some(group) = way else { return self.end_transfer(env, w) };
        let phase = if shard { Phase::Request } else { Phase::Transfer };
        self.enter(env, w, phase, Cause::Transfer);
        env.network.start(env.now, group, bytes, ActivityId::Worker(w));
        false
    }

    /// Handles the arrival of a request's bytes; returns true if the sample is complete.
    pub(super) fn end_transfer(&mut self, env: &mut Env, w: WorkerId) -> bool {
        if let Some(slots) = self.slots_held(w) {
            env.leave_queue(slots);
        }
        let mount = self.mount_of(w);
        if mount.costs_cpu() { self.receive(env, w) } else { self.end_receive(env, w) }
    }

    /// Begins the CPU work for the bytes that have arrived for worker `w`; returns true if the sample is complete.
    fn receive(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Mount { cpu, alone, .. } = *self.mount_of(w);
        let worker = &mut self.workers[w];
        let (hit, most) =
            (worker.origin == Origin::PageCache, self.loaders[worker.loader].source.most);
        let ranges = worker.request > most && !hit;
        if alone > 0.0 && !hit && !ranges {
            (self.work[w], worker.phase) = (alone * worker.request, Phase::Receiving);
            self.split_cpu_wait(env, w);
        }
        let worker = &self.workers[w];
        let requests = if ranges { f64::from(self.fetches.of[w].number) } else { 1.0 };
        let seconds = cpu.fixed * requests + cpu.per_byte * worker.request;
        let stage = worker.stage;
        if seconds <= 0.0 {
            return self.end_receive(env, w);
        }
        let cores = self.stages[stage].cores;
        self.begin_compute(env, w, cores, seconds, Delay::once(seconds), Phase::Receiving)
    }

    /// Hands the received bytes to worker `w`; returns true if the sample is complete.
    #[inline(always)]
    pub(super) fn end_receive(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let loader = &self.loaders[self.workers[w].loader];
        let layout = loader.source.layout;
        if loader.features.keeps {
            self.keep_all(env, w);
        }
        match layout {
            Layout::FilePerSample | Layout::OneFile { .. } => self.count_file(w),
            _ => self.end_file_part(env, w, layout),
        }
    }

    /// Handles the arrival of the bytes of a request for a part of a file; returns true if the sample is complete.
    fn end_file_part(&mut self, env: &mut Env, w: WorkerId, layout: Layout) -> bool {
        match layout {
            Layout::RowGroups(groups) => self.end_chunk(env, w, groups),
            _ => self.end_shard_request(env, w),
        }
    }

    /// Inserts the data that worker `w` has read into each cache that keeps them: tier, page cache, decoded samples.
    #[cold]
    fn keep_all(&mut self, env: &mut Env, w: WorkerId) {
        let caches = &self.loaders[self.workers[w].loader].caches;
        let (cached, decoded) = (caches.page_cache.is_some(), caches.decoded.is_some());
        if caches.tiers.is_some() {
            self.fill(env, w);
        }
        if cached {
            self.keep(env, w);
        }
        if decoded {
            self.keep_decoded(w);
        }
    }

    /// Counts the bytes of a sample whose file has been read; returns true because the sample is complete.
    #[inline]
    pub(super) fn count_file(&mut self, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        worker.item.bytes += worker.sample.size;
        true
    }

    /// Adds the bytes of a finished request to the shard's buffer, and requests more bytes if the sample needs them; returns
    /// true if the sample is complete.
    pub(super) fn end_shard_request(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let (worker, shard) = (&self.workers[w], &mut self.shards[w]);
        // The request may have fetched a whole file into a tier, including bytes that were read before.
        let new = worker.request.min(shard.unread.max(1.0));
        shard.buffered += new;
        shard.unread -= new;
        self.fetch(env, w)
    }
}

impl Loaders {
    /// Requests the current sample of worker `w`; returns true if the sample is complete at once.
    #[inline(always)]
    pub(super) fn fetch_plain(&mut self, env: &mut Env, w: WorkerId, first: First) -> bool {
        let worker = &mut self.workers[w];
        worker.request = worker.sample.size;
        match (first, self.loaders[worker.loader].mount.station) {
            (First::Transfer, _) => self.transfer_plain(env, w),
            (First::Operation, Some(station)) => self.open(env, w, station),
            _ => self.wait_for_first_byte(env, w),
        }
    }

    /// Begins the transfer of the sample of worker `w`; returns true if the transfer takes no time.
    #[inline(always)]
    pub(super) fn transfer_plain(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &self.workers[w];
        let (bytes, way) = (worker.request, self.loaders[worker.loader].mount.group);
        let Some(group) = way else { return self.count_file(w) };
        self.enter(env, w, Phase::File, Cause::Transfer);
        env.network.start(env.now, group, bytes, ActivityId::Worker(w));
        false
    }
}

impl Loaders {
    /// Requests the current sample of worker `w` at its position in the file; returns true if the sample is complete at once.
    pub(super) fn fetch_place(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        let loader = &self.loaders[worker.loader];
        let Layout::OneFile { record, opened } = loader.source.layout else {
            broken("only data in one file are read by place");
            return true;
        };
        worker.request = record.around(worker.sample.size);
        let (routed, cached) = (loader.mount.routes.is_some(), loader.caches.page_cache.is_some());
        let epoch = loader.source.order.epoch();
        let cursor = &mut self.shards[w];
        let open = opened && !(cursor.opened && cursor.epoch == epoch);
        (cursor.opened, cursor.epoch) = (true, epoch);
        if cached && self.look_up(w, epoch) {
            return self.begin_bytes(env, w);
        }
        if routed {
            self.choose_route(w, 0);
        }
        self.issue(env, w, open)
    }
}

impl Loaders {
    /// Requests the next column chunk of the row group that worker `w` reads; returns true if the sample is complete.
    pub(super) fn fetch_chunk(&mut self, env: &mut Env, w: WorkerId, groups: RowGroups) -> bool {
        let shard = &mut self.shards[w];
        if shard.missing == 0 {
            return self.count_file(w);
        }
        let worker = &mut self.workers[w];
        worker.request = shard.unread * groups.read / f64::from(groups.columns);
        let open = !std::mem::replace(&mut shard.opened, true);
        let (number, epoch) = (shard.requests, shard.epoch);
        shard.requests += 1;
        let loader = &self.loaders[worker.loader];
        let routed = loader.mount.routes.is_some();
        if let Some(used) = &loader.caches.page_cache {
            worker.location.unit = used.units.of(shard.file, number);
            if self.look_up(w, epoch) {
                return self.begin_bytes(env, w);
            }
        }
        if routed {
            self.choose_route(w, number);
        }
        self.issue(env, w, open)
    }

    /// Handles the arrival of a column chunk; returns true if the row group is complete and needs no decompression.
    pub(super) fn end_chunk(&mut self, env: &mut Env, w: WorkerId, groups: RowGroups) -> bool {
        let shard = &mut self.shards[w];
        shard.missing -= 1;
        if shard.missing > 0 {
            return self.fetch_chunk(env, w, groups);
        }
        let seconds = groups.decompress * groups.read * shard.unread;
        if seconds <= 0.0 {
            return self.count_file(w);
        }
        let cores = self.stages[self.workers[w].stage].cores;
        self.begin_compute(env, w, cores, seconds, Delay::once(seconds), Phase::Unpacking)
    }
}

impl Loaders {
    /// Returns the number of the route of a range of `bytes` bytes at position `offset` of the request of worker `w`.
    pub(super) fn way_of_range(&self, w: WorkerId, offset: f64, bytes: f64) -> u32 {
        let worker = &self.workers[w];
        let loader = &self.loaders[worker.loader];
        let Some(Routes::Striped(striped)) = loader.mount.routes.as_deref() else {
            return self.queue_of(w);
        };
        match loader.source.layout {
            Layout::OneFile { .. } => {
                striped.way_at(0, worker.location.file as f64 * worker.request + offset, bytes)
            }
            _ => striped.way_at(worker.location.file, offset, bytes),
        }
    }
}

impl Loaders {
    /// Determines the next sample of worker `w` and its size.
    #[inline]
    pub(super) fn locate(&mut self, env: &mut Env, w: WorkerId) {
        let Self { workers, loaders, shards, .. } = self;
        let (sizes, streams) = (&mut self.storages.sizes, &env.streams);
        let worker = &mut workers[w];
        let loader = &mut loaders[worker.loader];
        let source = &mut loader.source;
        let sizes = &mut sizes[source.dataset];
        let job = loader.place.owner();
        worker.requests = 0;
        let sample = match source.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => {
                let place = source.place(worker.item.first + worker.cursor.sample as u64);
                worker.sample.position = loader.place.in_job(place);
                // The size decides how the worker's flow is sorted among others, so the next sample's size is prefetched.
                sizes.prefetch(job, loader.place.in_job(place + 1));
                let placed = loader.features.plain.is_none()
                    && (loader.features.keeps
                        || loader.mount.routes.is_some()
                        || matches!(loader.mount.service, ServiceModel::DiskHead(_))
                        || !matches!(source.layout, Layout::FilePerSample));
                if placed || sizes.need_order() {
                    let file = source.order.at(place, job, streams);
                    worker.location.unit =
                        loader.caches.page_cache.as_ref().map_or(0, |used| used.units.of(file, 0));
                    worker.location.file = file;
                    file
                } else {
                    0
                }
            }
            Layout::Shards { .. } | Layout::RowGroups(_) => {
                let current = &mut shards[w];
                if current.next == current.end {
                    source.advance(current, job, streams);
                    let base = current.epoch * source.samples;
                    // A row group is always read as a whole, even if some of its samples were used before.
                    let from = match source.layout {
                        Layout::RowGroups(of) => of.group_of(current.next, source.samples).1.start,
                        _ => current.next,
                    };
                    let (samples, record) = (from..current.end, source.layout.record());
                    current.unread = sizes.sum(job, base, samples, record, streams);
                }
                let sample = current.next;
                if loader.features.followed
                    && let Some(lineage) = &mut loader.lineage
                {
                    let first = current.file * source.per_file();
                    let turn = worker.item.first + u64::from(worker.cursor.sample);
                    lineage.locate(turn, current.place + sample - first);
                }
                current.next += 1;
                source.pass(current);
                worker.sample.position = current.epoch * source.samples + sample;
                sample
            }
        };
        worker.sample.size = sizes.at(job, worker.sample.position, sample, streams);
    }
}
