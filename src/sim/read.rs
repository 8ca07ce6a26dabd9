//! Reading: an open operation, a latency, bytes.

use crate::fluid::GroupId;
use crate::random::{Permutation, Purpose, Sampler};
use crate::report::Cause;
use crate::scenario::{Dataset, Layout, ReadCpu, SampleOrder, SampleSizes};

use super::event::{Clock, Customer, Delay, Event};
use super::workers::{Phase, Waiting};
use super::world::World;

/// A storage as one node sees it.
#[derive(Debug)]
pub(super) struct Mount {
    /// Operation station, where operations are limited.
    pub(super) station: Option<u32>,
    pub(super) latency: RequestLatency,
    /// The bytes' way; `None` where nothing limits them.
    pub(super) group: Option<GroupId>,
    /// What a request costs the node's cores, beside the latency and the bytes' way.
    pub(super) cpu: ReadCpu,
    /// Where the bytes' way is over the node's cores too: time per byte of a request that has it to
    /// itself [s/B]; otherwise 0.
    pub(super) alone: f64,
}

/// Time from request to first byte, network round trip included.
#[derive(Debug)]
pub(super) enum RequestLatency {
    None,
    Constant(Delay),
    Drawn(Sampler, f64),
}

/// The shard that a worker reads, and how far it is.
#[derive(Debug, Default)]
pub(super) struct ShardCursor {
    /// First sample, in the data set's own numbering.
    next: u64,
    end: u64,
    /// Bytes of the shard not yet requested.
    unread: f64,
    /// Bytes that have come and are not yet used.
    buffered: f64,
    opened: bool,
    epoch: u64,
}

/// What a loader reads, and how far it is.
#[derive(Debug)]
pub(super) struct Source {
    samples: u64,
    sizes: Sizes,
    layout: Layout,
    shuffled: bool,
    /// Files of an epoch: samples or shards.
    files: u64,
    /// Order of the current epoch's files.
    permutation: Option<(u64, Permutation)>,
    next_file: u64,
}

#[derive(Debug)]
enum Sizes {
    Constant(f64),
    Drawn(Sampler, u64),
    Table { table: std::sync::Arc<[f64]>, offset: u64, stride: u64 },
}

impl Source {
    /// Data set number `id` as job copy `copy` reads it.
    pub(super) fn new(dataset: &Dataset, id: u64, copy: u64) -> Source {
        let sizes = match &dataset.sizes {
            SampleSizes::Drawn(distribution) => {
                let sampler = Sampler::new(distribution);
                sampler.is_constant().map_or(Sizes::Drawn(sampler, id), Sizes::Constant)
            }
            SampleSizes::Table { table, job_stride, sample_stride } => Sizes::Table {
                table: table.clone(),
                offset: copy.wrapping_mul(*job_stride),
                stride: *sample_stride,
            },
        };
        let files = match dataset.layout {
            Layout::FilePerSample => dataset.samples,
            Layout::Shards { samples_per_shard, .. } => dataset.samples.div_ceil(samples_per_shard),
        };
        Source {
            samples: dataset.samples,
            sizes,
            layout: dataset.layout,
            shuffled: dataset.order == SampleOrder::Shuffled,
            files,
            permutation: None,
            next_file: 0,
        }
    }
}

impl World<'_> {
    /// Begins to read the worker's current sample; true if it is there already.
    pub(super) fn begin_read(&mut self, clock: &mut Clock, w: u32) -> bool {
        self.locate(w);
        self.fetch(clock, w)
    }

    /// Asks for the next bytes of the current sample; true if none are missing.
    fn fetch(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &mut self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        let open = match loader.source.layout {
            Layout::FilePerSample => {
                worker.request = worker.size;
                true
            }
            Layout::Shards { request, .. } => {
                let shard = &mut worker.shard;
                // A byte's worth of slack: sums of sizes are rounded.
                if shard.buffered + 0.5 >= worker.size {
                    shard.buffered = (shard.buffered - worker.size).max(0.0);
                    worker.item.bytes += worker.size;
                    return true;
                }
                worker.request = request.min(shard.unread.max(1.0));
                !std::mem::replace(&mut shard.opened, true)
            }
        };
        if open && let Some(station) = loader.mount.station {
            return self.open(clock, w, station);
        }
        self.wait_for_first_byte(clock, w)
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
        let loader = self.workers[w as usize].loader;
        if let Some(station) = self.loaders[loader as usize].mount.station {
            self.served(clock, station);
        }
        self.wait_for_first_byte(clock, w)
    }

    fn wait_for_first_byte(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &mut self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        let delay = match &loader.mount.latency {
            RequestLatency::None => return self.first_byte(clock, w),
            RequestLatency::Constant(delay) => *delay,
            RequestLatency::Drawn(sampler, round_trip) => {
                let (owner, request) = (loader.job as u64, worker.requests as u64);
                let mut generator =
                    self.streams.at(Purpose::Latency, owner, worker.position, request);
                Delay::once((sampler.draw(&mut generator) + round_trip).max(0.0))
            }
        };
        worker.requests += 1;
        self.enter(clock.now, w, Phase::Latency, Cause::Latency);
        clock.after(delay, Event::Waited(Customer::Worker(w)));
        false
    }

    pub(super) fn first_byte(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        let Some(group) = loader.mount.group else { return self.transferred(clock, w) };
        let bytes = worker.request;
        self.enter(clock.now, w, Phase::Transfer, Cause::Transfer);
        self.network.start(clock.now, group, bytes, Customer::Worker(w));
        false
    }

    /// The bytes of a request have come; true if the sample is complete.
    pub(super) fn transferred(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &mut self.workers[w as usize];
        let Mount { cpu, alone, .. } = self.loaders[worker.loader as usize].mount;
        if alone > 0.0 {
            (worker.work, worker.phase) = (alone * worker.request, Phase::Receiving);
            self.split_cpu_wait(clock.now, w);
        }
        let worker = &self.workers[w as usize];
        let seconds = cpu.fixed + cpu.per_byte * worker.request;
        if seconds > 0.0 {
            self.begin_compute(clock, w, seconds, Delay::once(seconds), Phase::Receiving)
        } else {
            self.received(clock, w)
        }
    }

    /// The bytes of a request are the worker's; true if the sample is complete.
    pub(super) fn received(&mut self, clock: &mut Clock, w: u32) -> bool {
        let worker = &mut self.workers[w as usize];
        let loader = &self.loaders[worker.loader as usize];
        match loader.source.layout {
            Layout::FilePerSample => {
                worker.item.bytes += worker.size;
                true
            }
            Layout::Shards { .. } => {
                worker.shard.buffered += worker.request;
                worker.shard.unread -= worker.request;
                self.fetch(clock, w)
            }
        }
    }

    /// Finds out which sample is next for worker `w`, and how large it is.
    fn locate(&mut self, w: u32) {
        let worker = &mut self.workers[w as usize];
        let loader = &mut self.loaders[worker.loader as usize];
        let source = &mut loader.source;
        let (nodes, rank, job) = (loader.nodes as u64, loader.rank as u64, loader.job as u64);
        worker.requests = 0;
        let sample = match source.layout {
            Layout::FilePerSample => {
                let position = (worker.item.first + worker.sample as u64) * nodes + rank;
                worker.position = position;
                if !source.needs_order() {
                    worker.size = source.size_at(position, 0, &self.streams);
                    return;
                }
                source.file_at(position, job, &self.streams)
            }
            Layout::Shards { samples_per_shard, .. } => {
                if worker.shard.next == worker.shard.end {
                    let place = source.next_file * nodes + rank;
                    source.next_file += 1;
                    let shard = source.file_at(place, job, &self.streams);
                    worker.shard = source.shard(shard, samples_per_shard, place, &self.streams);
                }
                let sample = worker.shard.next;
                worker.shard.next += 1;
                worker.position = worker.shard.epoch * source.samples + sample;
                sample
            }
        };
        worker.size = source.size_at(worker.position, sample, &self.streams);
    }
}

impl Source {
    /// Whether it matters which sample comes when.
    fn needs_order(&self) -> bool {
        matches!(self.sizes, Sizes::Drawn(..))
    }

    /// The file at `place` of a job copy's reading, epoch after epoch.
    fn file_at(&mut self, place: u64, job: u64, streams: &crate::random::Streams) -> u64 {
        let (epoch, index) = (place / self.files, place % self.files);
        if !self.shuffled {
            return index;
        }
        if self.permutation.as_ref().is_none_or(|(of, _)| *of != epoch) {
            let key = streams.at(Purpose::Order, job, epoch, 0);
            self.permutation = Some((epoch, Permutation::new(key, self.files)));
        }
        self.permutation.as_ref().map_or(index, |(_, permutation)| permutation.at(index))
    }

    fn shard(
        &self,
        shard: u64,
        samples_per_shard: u64,
        place: u64,
        streams: &crate::random::Streams,
    ) -> ShardCursor {
        let next = shard * samples_per_shard;
        let end = (next + samples_per_shard).min(self.samples);
        let epoch = place / self.files;
        let unread = match &self.sizes {
            Sizes::Constant(size) => size * (end - next) as f64,
            _ => {
                let base = epoch * self.samples;
                (next..end).map(|sample| self.size_at(base + sample, sample, streams)).sum()
            }
        };
        ShardCursor { next, end, unread, buffered: 0.0, opened: false, epoch }
    }

    fn size_at(&self, position: u64, sample: u64, streams: &crate::random::Streams) -> f64 {
        match &self.sizes {
            Sizes::Constant(size) => *size,
            Sizes::Drawn(sampler, dataset) => {
                sampler.draw(&mut streams.at(Purpose::SampleSize, *dataset, sample, 0))
            }
            Sizes::Table { table, offset, stride } => {
                let at = offset.wrapping_add(position.wrapping_mul(*stride));
                let length = table.len() as u64;
                // A division costs as much as all else that happens to a sample here.
                let place = if length.is_power_of_two() { at & (length - 1) } else { at % length };
                table[place as usize]
            }
        }
    }
}
