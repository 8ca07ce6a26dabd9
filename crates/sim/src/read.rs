//! Reading: an open operation, a latency, and a transfer.

use forebay_model::random::Purpose;
use forebay_report::Cause;
use forebay_scenario::Layout;

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::ids::{StationId, WorkerId};
use super::loaders::Loaders;
use super::tiers::Origin;
use super::worker::{Phase, Waiting};

pub(crate) use mount::{Mount, RequestLatency, Routes, ServiceModel, Striped};
pub(crate) use plain::First;
pub(crate) use queue::IoQueues;
pub(crate) use source::{ShardCursor, Source};

mod mount;
mod one_file;
mod plain;
mod queue;
mod row_groups;
mod service;
mod source;

impl Loaders {
    /// Begins to read the current sample of worker `w`; returns true if the sample is there already.
    #[inline]
    pub(super) fn begin_read(&mut self, env: &mut Env, w: WorkerId) -> bool {
        self.locate(env, w);
        let loader = &self.loaders[self.workers[w].loader];
        if let Some(first) = loader.features.plain {
            return self.fetch_plain(env, w, first);
        }
        if loader.caches.decoded.is_some() && self.is_decoded(env, w) {
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
                    if self.look_up(env, w, epoch) {
                        return self.first_byte(env, w);
                    }
                }
                if tiers {
                    self.find_file(env, w);
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
                    if self.look_up(env, w, epoch) {
                        return self.first_byte(env, w);
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

    fn open(&mut self, env: &mut Env, w: WorkerId, station: StationId) -> bool {
        self.enter(env, w, Phase::Opening, Cause::Open);
        let station = &mut env.stations[station];
        let visit = Waiting { activity: ActivityId::Worker(w), delay: station.service, pace: None };
        if station.queue.arrive(env.now, visit) {
            env.after(visit.delay, Event::Opened(visit.activity));
        }
        false
    }

    pub(super) fn opened(&mut self, env: &mut Env, w: WorkerId) -> bool {
        if let Some(station) = self.mount_of(w).station {
            env.served(station);
        }
        self.ask_again(env, w)
    }

    #[inline]
    pub(super) fn wait_for_first_byte(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Some(delay) = self.first_byte_after(env, w) else { return self.first_byte(env, w) };
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
    pub(super) fn first_byte(&mut self, env: &mut Env, w: WorkerId) -> bool {
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
            true => self.way_in_cache(env, w),
            false => mount.way(worker.location.way),
        };
        let Some(group) = way else { return self.transferred(env, w) };
        let phase = if shard { Phase::Request } else { Phase::Transfer };
        self.enter(env, w, phase, Cause::Transfer);
        env.network.start(env.now, group, bytes, ActivityId::Worker(w));
        false
    }

    /// Handles the arrival of a request's bytes; returns true if the sample is complete.
    pub(super) fn transferred(&mut self, env: &mut Env, w: WorkerId) -> bool {
        if let Some(slots) = self.slots_held(w) {
            env.leave_queue(slots);
        }
        let mount = self.mount_of(w);
        if mount.costs_cpu() { self.receive(env, w) } else { self.received(env, w) }
    }

    /// Begins the CPU work for the bytes that have arrived for worker `w`; returns true if the sample is complete.
    fn receive(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let Mount { cpu, alone, .. } = *self.mount_of(w);
        let worker = &mut self.workers[w];
        let (hit, most) =
            (worker.origin == Origin::PageCache, self.loaders[worker.loader].source.most);
        let ranges = worker.request > most && !hit;
        if alone > 0.0 && !hit && !ranges {
            (worker.work, worker.phase) = (alone * worker.request, Phase::Receiving);
            self.split_cpu_wait(env.now, w);
        }
        let worker = &self.workers[w];
        let requests = if ranges { f64::from(self.fetches.of[w].number) } else { 1.0 };
        let seconds = cpu.fixed * requests + cpu.per_byte * worker.request;
        let stage = worker.stage;
        if seconds <= 0.0 {
            return self.received(env, w);
        }
        let cores = self.stages[stage].cores;
        self.begin_compute(env, w, cores, seconds, Delay::once(seconds), Phase::Receiving)
    }

    /// Hands the received bytes to worker `w`; returns true if the sample is complete.
    #[inline(always)]
    pub(super) fn received(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let loader = &self.loaders[self.workers[w].loader];
        let layout = loader.source.layout;
        if loader.features.keeps {
            self.keep_all(env, w);
        }
        match layout {
            Layout::FilePerSample | Layout::OneFile { .. } => self.file_read(w),
            _ => self.part_read(env, w, layout),
        }
    }

    /// Handles the arrival of the bytes of a request for a part of a file; returns true if the sample is complete.
    fn part_read(&mut self, env: &mut Env, w: WorkerId, layout: Layout) -> bool {
        match layout {
            Layout::RowGroups(groups) => self.chunk_read(env, w, groups),
            _ => self.requested(env, w),
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
            self.keep_decoded(env, w);
        }
    }

    /// Counts the bytes of a sample whose file has been read; returns true because the sample is complete.
    #[inline]
    pub(super) fn file_read(&mut self, w: WorkerId) -> bool {
        let worker = &mut self.workers[w];
        worker.item.bytes += worker.sample.size;
        true
    }

    /// Adds the bytes of a finished request to the shard's buffer, and requests more bytes if the sample needs them; returns
    /// true if the sample is complete.
    pub(super) fn requested(&mut self, env: &mut Env, w: WorkerId) -> bool {
        let (worker, shard) = (&self.workers[w], &mut self.shards[w]);
        // The request may have fetched a whole file into a tier, including bytes that were read before.
        let new = worker.request.min(shard.unread.max(1.0));
        shard.buffered += new;
        shard.unread -= new;
        self.fetch(env, w)
    }
}
