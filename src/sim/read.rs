//! Reading: an open operation, a latency, bytes.

use crate::fluid::GroupId;
use crate::random::{FileOrder, Purpose, Sampler};
use crate::report::Cause;
use crate::scenario::{Dataset, Layout, ReadCpu, Targets};

use super::event::{Clock, Customer, Delay, Event};
use super::tiers::{Found, Origin};
use super::workers::{Phase, Waiting};
use super::world::World;

/// A storage as one node sees it.
#[derive(Debug)]
pub(super) struct Mount {
    /// Operation station, where operations are limited.
    pub(super) station: Option<u32>,
    /// The bytes' way; `None` where nothing limits them.
    pub(super) group: Option<GroupId>,
    pub(super) latency: RequestLatency,
    /// The bytes' ways where files are striped over targets; then `group` is none of them.
    pub(super) striped: Option<Box<Striped>>,
    /// What lets requests through, where they are limited.
    pub(super) limiter: Option<u32>,
    /// What a request costs the node's cores, beside the latency and the bytes' way.
    pub(super) cpu: ReadCpu,
    /// Where the bytes' way is over the node's cores too: time per byte of a request that has it to
    /// itself [s/B]; otherwise 0.
    pub(super) alone: f64,
}

/// The ways of a node to the targets of a parallel file system.
#[derive(Debug)]
pub(super) struct Striped {
    pub(super) targets: Targets,
    /// By first target, then by how many serve together.
    pub(super) ways: Vec<GroupId>,
}

impl Mount {
    /// The bytes' way; number `way` of those to targets.
    #[inline]
    pub(super) fn way(&self, way: u32) -> Option<GroupId> {
        match &self.striped {
            Some(striped) => Some(striped.ways[way as usize]),
            None => self.group,
        }
    }
}

impl Striped {
    /// Which way request number `request` of `file` goes, for so many bytes.
    pub(super) fn way(&self, file: u64, request: u32, bytes: f64) -> u32 {
        let Targets { number, stripe_count, .. } = self.targets;
        let serving = self.targets.serving(bytes);
        let offset = (u64::from(request) * u64::from(serving)) % u64::from(stripe_count);
        let first =
            (file % u64::from(number) * u64::from(stripe_count) + offset) % u64::from(number);
        first as u32 * stripe_count + serving - 1
    }
}

/// Time from request to first byte, network round trip included.
#[derive(Debug)]
pub(super) enum RequestLatency {
    None,
    Constant(Delay),
    Drawn(Box<Sampler>, f64),
}

/// The shard that a worker reads, and how far it is.
#[derive(Debug, Default)]
pub(super) struct ShardCursor {
    /// First sample, in the data set's own numbering.
    next: u64,
    end: u64,
    /// Bytes of the shard not yet requested.
    pub(super) unread: f64,
    /// Bytes that have come and are not yet used.
    buffered: f64,
    opened: bool,
    pub(super) epoch: u64,
    /// Which shard it is, and requests made for it.
    pub(super) file: u64,
    pub(super) requests: u32,
    /// Where its first request was found, where there are tiers.
    pub(super) found: Option<Found>,
}

/// What a loader reads, and how far it is.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Source {
    /// Which data set.
    dataset: u32,
    layout: Layout,
    order: FileOrder,
    next_file: u64,
    pub(super) samples: u64,
}

impl Source {
    /// Data set number `index`.
    pub(super) fn new(dataset: &Dataset, index: usize) -> Source {
        Source {
            dataset: index as u32,
            samples: dataset.samples,
            layout: dataset.layout,
            order: FileOrder::new(dataset),
            next_file: 0,
        }
    }
}

impl World<'_> {
    /// Begins to read the worker's current sample; true if it is there already.
    #[inline]
    pub(super) fn begin_read(&mut self, clock: &mut Clock, w: u32) -> bool {
        self.locate(w);
        let loader = self.workers[w as usize].loader;
        if self.loaders[loader as usize].decoded.is_some() && self.is_decoded(w) {
            return true;
        }
        self.fetch(clock, w)
    }

    /// Asks for the next bytes of the current sample; true if none are missing.
    #[inline]
    fn fetch(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &mut self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        let (cached, tiers) = (loader.cached.as_ref(), loader.tiers.is_some());
        let open = match loader.source.layout {
            Layout::FilePerSample => {
                worker.request = worker.size;
                if cached.is_some() {
                    let epoch = worker.position / loader.source.samples;
                    if self.look_up(w, epoch) {
                        return self.first_byte(clock, w);
                    }
                }
                if tiers {
                    self.find_file(w);
                }
                self.stripe(w, 0);
                true
            }
            Layout::Shards { request, .. } => {
                let shard = &mut self.shards[w as usize];
                // A byte's worth of slack: sums of sizes are rounded.
                if shard.buffered + 0.5 >= worker.size {
                    shard.buffered = (shard.buffered - worker.size).max(0.0);
                    worker.item.bytes += worker.size;
                    return true;
                }
                worker.request = request.min(shard.unread.max(1.0));
                let open = !std::mem::replace(&mut shard.opened, true);
                let number = shard.requests;
                shard.requests += 1;
                if let Some(used) = cached {
                    worker.unit = used.units.of(shard.file, number);
                    let epoch = shard.epoch;
                    if self.look_up(w, epoch) {
                        return self.first_byte(clock, w);
                    }
                }
                if tiers {
                    self.find_request(w, number);
                }
                self.stripe(w, number);
                open
            }
        };
        if open && let Some(station) = self.mount_of(w).station {
            return self.open(clock, w, station);
        }
        self.ask_again(clock, w)
    }

    /// Asks for the current request, which may be refused; true if the sample is complete.
    #[inline]
    pub(super) fn ask_again(&mut self, clock: &mut Clock, w: u32) -> bool {
        match self.mount_of(w).limiter {
            None => self.wait_for_first_byte(clock, w),
            Some(limiter) => self.request(clock, w, limiter),
        }
    }

    /// Which targets serve request number `number` of worker `w`, if files are striped over some.
    #[inline]
    fn stripe(&mut self, w: u32, number: u32) {
        let worker = &mut self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        if let Some(striped) = &loader.mount.striped
            && worker.origin.is_storage()
        {
            let file = match loader.source.layout {
                Layout::FilePerSample => worker.file,
                Layout::Shards { .. } => self.shards[w as usize].file,
            };
            worker.way = striped.way(file, number, worker.request);
        }
    }

    fn open(&mut self, clock: &mut Clock, w: u32, station: u32) -> bool {
        self.enter(clock.now, w, Phase::Opening, Cause::Open);
        let station = &mut self.stations[station as usize];
        let visit = Waiting { customer: Customer::Worker(w), delay: station.service };
        if station.queue.arrive(clock.now, visit) {
            clock.after(visit.delay, Event::Opened(visit.customer));
        }
        false
    }

    /// A station has served `customer`, and takes up the next.
    pub(super) fn served(&mut self, clock: &mut Clock, station: u32) {
        if let Some(next) = self.stations[station as usize].queue.leave(clock.now) {
            clock.after(next.delay, Event::Opened(next.customer));
        }
    }

    pub(super) fn opened(&mut self, clock: &mut Clock, w: u32) -> bool {
        if let Some(station) = self.mount_of(w).station {
            self.served(clock, station);
        }
        self.wait_for_first_byte(clock, w)
    }

    #[inline]
    pub(super) fn wait_for_first_byte(&mut self, clock: &mut Clock, w: u32) -> bool {
        let delay = match &self.mount_of(w).latency {
            RequestLatency::None => return self.first_byte(clock, w),
            RequestLatency::Constant(delay) => *delay,
            RequestLatency::Drawn(sampler, round_trip) => {
                let worker = &self.workers[w as usize];
                let loader = &self.loaders[worker.loader as usize];
                let (owner, request) = (loader.job as u64, worker.requests as u64);
                let mut generator =
                    self.streams.at(Purpose::Latency, owner, worker.position, request);
                Delay::once((sampler.draw(&mut generator) + round_trip).max(0.0))
            }
        };
        self.workers[w as usize].requests += 1;
        self.enter(clock.now, w, Phase::Latency, Cause::Latency);
        clock.after(delay, Event::Waited(Customer::Worker(w)));
        false
    }

    #[inline]
    pub(super) fn first_byte(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        let (bytes, file) = (worker.request, loader.source.layout == Layout::FilePerSample);
        let way = match worker.origin {
            Origin::PageCache => self.way_in_cache(w),
            _ => self.mount_of(w).way(worker.way),
        };
        let Some(group) = way else { return self.transferred(clock, w) };
        let phase = if file { Phase::Transfer } else { Phase::Request };
        self.enter(clock.now, w, phase, Cause::Transfer);
        self.network.start(clock.now, group, bytes, Customer::Worker(w));
        false
    }

    /// The bytes of a request have come; true if the sample is complete.
    #[inline]
    pub(super) fn transferred(&mut self, clock: &mut Clock, w: u32) -> bool {
        let mount = self.mount_of(w);
        if mount.cpu == ReadCpu::default() && mount.alone == 0.0 {
            return self.received(clock, w);
        }
        self.receive(clock, w)
    }

    /// The bytes of a request that costs time of a core have come; true if the sample is complete.
    fn receive(&mut self, clock: &mut Clock, w: u32) -> bool {
        let Mount { cpu, alone, .. } = *self.mount_of(w);
        let worker = &mut self.workers[w as usize];
        if alone > 0.0 && worker.origin != Origin::PageCache {
            (worker.work, worker.phase) = (alone * worker.request, Phase::Receiving);
            self.split_cpu_wait(clock.now, w);
        }
        let worker = &self.workers[w as usize];
        let (seconds, stage) = (cpu.fixed + cpu.per_byte * worker.request, worker.stage);
        if seconds <= 0.0 {
            return self.received(clock, w);
        }
        let cores = self.stages[stage as usize].cores;
        self.begin_compute(clock, w, cores, seconds, Delay::once(seconds), Phase::Receiving)
    }

    /// The bytes of a request are the worker's; true if the sample is complete.
    #[inline]
    pub(super) fn received(&mut self, clock: &mut Clock, w: u32) -> bool {
        let loader = &self.loaders[self.workers[w as usize].loader as usize];
        let (layout, cached) = (loader.source.layout, loader.cached.is_some());
        let decoded = loader.decoded.is_some();
        if loader.tiers.is_some() {
            self.fill(w);
        }
        if cached {
            self.keep(w);
        }
        if decoded {
            self.keep_decoded(w);
        }
        match layout {
            Layout::FilePerSample => self.file_read(w),
            Layout::Shards { .. } => self.requested(clock, w),
        }
    }

    /// The bytes of a sample's file have come: that is all of it.
    #[inline]
    pub(super) fn file_read(&mut self, w: u32) -> bool {
        let worker = &mut self.workers[w as usize];
        worker.item.bytes += worker.size;
        true
    }

    /// The bytes of a request have come; true if the sample is complete.
    pub(super) fn requested(&mut self, clock: &mut Clock, w: u32) -> bool {
        let (worker, shard) = (&self.workers[w as usize], &mut self.shards[w as usize]);
        shard.buffered += worker.request;
        shard.unread -= worker.request;
        self.fetch(clock, w)
    }

    /// Finds out which sample is next for worker `w`, and how large it is.
    #[inline]
    fn locate(&mut self, w: u32) {
        let worker = &mut self.workers[w as usize];
        let loader = &mut self.loaders[worker.loader as usize];
        let source = &mut loader.source;
        let sizes = &mut self.sizes[source.dataset as usize];
        let (nodes, rank, job) = (loader.nodes as u64, loader.rank as u64, loader.job as u64);
        worker.requests = 0;
        let sample = match source.layout {
            Layout::FilePerSample => {
                worker.position = (worker.item.first + worker.sample as u64) * nodes + rank;
                let placed = loader.cached.is_some()
                    || loader.tiers.is_some()
                    || loader.decoded.is_some()
                    || loader.mount.striped.is_some();
                if sizes.need_order() || placed {
                    let file = source.order.at(worker.position, job, &self.streams);
                    worker.unit = loader.cached.as_ref().map_or(0, |used| used.units.of(file, 0));
                    worker.file = file;
                    file
                } else {
                    0
                }
            }
            Layout::Shards { samples_per_shard, .. } => {
                let current = &mut self.shards[w as usize];
                if current.next == current.end {
                    let place = source.next_file * nodes + rank;
                    source.next_file += 1;
                    let shard = source.order.at(place, job, &self.streams);
                    *current = source.shard(shard, samples_per_shard);
                    let base = current.epoch * source.samples;
                    let samples = current.next..current.end;
                    current.unread = sizes.sum(job, base, samples, &self.streams);
                }
                let sample = current.next;
                current.next += 1;
                worker.position = current.epoch * source.samples + sample;
                sample
            }
        };
        worker.size = sizes.at(job, worker.position, sample, &self.streams);
    }
}

impl Source {
    /// Number `shard` of the current epoch, of which nothing has been read.
    fn shard(&self, shard: u64, samples_per_shard: u64) -> ShardCursor {
        let next = shard * samples_per_shard;
        let end = (next + samples_per_shard).min(self.samples);
        let epoch = self.order.epoch();
        ShardCursor { next, end, epoch, file: shard, ..ShardCursor::default() }
    }
}
