//! What a loader reads, and how far it and its workers are.

use crate::random::{FileOrder, Streams};
use crate::scenario::{Dataset, Layout, Ranges};
use crate::sim::tiers::Found;
use crate::sim::world::World;

use super::mount::Own;

/// The shard that a worker reads, and how far it is.
#[derive(Debug, Default)]
pub(in crate::sim) struct ShardCursor {
    /// First sample, in the data set's own numbering.
    pub(super) next: u64,
    pub(super) end: u64,
    /// Bytes of the shard not yet requested.
    pub(in crate::sim) unread: f64,
    /// Bytes that have come and are not yet used.
    pub(super) buffered: f64,
    pub(super) opened: bool,
    pub(in crate::sim) epoch: u64,
    /// Which shard it is, and requests made for it.
    pub(in crate::sim) file: u64,
    pub(in crate::sim) requests: u32,
    /// Requests of its row group that are still to come, where it has such; then `unread` are all of
    /// that one's bytes.
    pub(super) missing: u32,
    /// Where its first request was found, where there are tiers.
    pub(in crate::sim) found: Option<Found>,
}

impl ShardCursor {
    /// Which file the request for so many bytes that is being made is of, which request of it, and
    /// whether the last; in a data set of so many samples.
    pub(in crate::sim) fn place(
        &self,
        request: f64,
        layout: Layout,
        samples: u64,
    ) -> (u64, u32, bool) {
        let number = self.requests.wrapping_sub(1);
        let Layout::RowGroups(of) = layout else {
            return (self.file, number, self.unread - request < 0.5);
        };
        if of.read < 1.0 {
            // What is not read lies between.
            return (self.file, number.wrapping_mul(2), false);
        }
        let n = of.samples_per_file();
        let end = self.file.saturating_mul(n).saturating_add(n).min(samples);
        (self.file, number, self.missing == 1 && self.end == end)
    }
}

/// What a loader reads, and how far it is.
#[derive(Debug)]
#[repr(C)]
pub(in crate::sim) struct Source {
    /// Which data set.
    pub(in crate::sim) dataset: u32,
    pub(in crate::sim) layout: Layout,
    pub(in crate::sim) order: FileOrder,
    next_file: u64,
    /// Samples from the next file on that are left out, because they were read before.
    skipped: u64,
    pub(in crate::sim) samples: u64,
    /// Largest request that is made as one [B].
    pub(super) most: f64,
    /// How what is larger is fetched.
    pub(in crate::sim) ranges: Option<Ranges>,
}

impl Source {
    /// Data set number `index`, in the order of a loader.
    pub(in crate::sim) fn new(dataset: &Dataset, index: usize, order: FileOrder) -> Source {
        Source {
            dataset: index as u32,
            samples: dataset.samples,
            layout: dataset.layout,
            order,
            next_file: 0,
            skipped: 0,
            most: dataset.ranges.map_or(f64::INFINITY, |ranges| ranges.request),
            ranges: dataset.ranges,
        }
    }

    /// As if so many samples had been read.
    pub(in crate::sim) fn restart(&mut self, position: u64, ranks: u64) {
        let per_file = match self.layout {
            Layout::Shards { samples_per_shard, .. } => Some(samples_per_shard),
            Layout::RowGroups(of) => Some(of.samples_per_file()),
            Layout::FilePerSample | Layout::OneFile { .. } => None,
        };
        if let Some(per_file) = per_file {
            // Which files hold them follows from their order, and whose turn the smaller one is.
            let epochs = if ranks == 1 { position / self.samples } else { 0 };
            self.next_file = epochs * self.samples.div_ceil(per_file);
            self.skipped = position - epochs * self.samples;
        }
    }

    /// The next file of job copy `job`, behind what is left out.
    fn next_shard(&mut self, job: u64, streams: &Streams) -> ShardCursor {
        loop {
            let file = self.order.at(self.next_file, job, streams);
            self.next_file += 1;
            let mut shard = self.shard(file);
            let samples = self.samples_of(file);
            if self.skipped < samples {
                shard.next += std::mem::take(&mut self.skipped);
                if let Layout::RowGroups(of) = self.layout {
                    let (group, samples) = of.group_of(shard.next, self.samples);
                    shard.end = samples.end;
                    shard.requests = group as u32 * of.columns;
                }
                return shard;
            }
            self.skipped -= samples;
        }
    }

    /// Samples of file number `file`.
    fn samples_of(&self, file: u64) -> u64 {
        let of_file = match self.layout {
            Layout::Shards { samples_per_shard, .. } => samples_per_shard,
            Layout::RowGroups(of) => of.samples_per_file(),
            Layout::FilePerSample | Layout::OneFile { .. } => 1,
        };
        of_file.min(self.samples - file * of_file)
    }

    /// File number `file` of the current epoch, of which nothing has been read.
    fn shard(&self, file: u64) -> ShardCursor {
        let (of_file, at_once, missing) = match self.layout {
            Layout::Shards { samples_per_shard: n, .. } => (n, n, 0),
            Layout::RowGroups(of) => (of.samples_per_file(), of.samples, of.columns),
            Layout::FilePerSample | Layout::OneFile { .. } => (1, 1, 0),
        };
        let next = file * of_file;
        let end = next.saturating_add(at_once).min(self.samples);
        let epoch = self.order.epoch();
        ShardCursor { next, end, epoch, file, missing, ..ShardCursor::default() }
    }
}

impl World<'_> {
    /// Finds out which sample is next for worker `w`, and how large it is.
    #[inline]
    pub(super) fn locate(&mut self, w: u32) {
        let worker = &mut self.workers[w as usize];
        let loader = &mut self.loaders[worker.loader as usize];
        let source = &mut loader.source;
        let sizes = &mut self.sizes[source.dataset as usize];
        let (nodes, rank, job) = (loader.nodes as u64, loader.rank as u64, loader.job as u64);
        worker.requests = 0;
        let sample = match source.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => {
                let place = worker.item.first + worker.sample as u64;
                worker.position = place * nodes + rank;
                let placed = !loader.plain
                    && (loader.keeps
                        || loader.mount.striped.is_some()
                        || matches!(loader.mount.own, Own::Arm(_))
                        || !matches!(source.layout, Layout::FilePerSample));
                if placed || sizes.need_order() {
                    let file = source.order.at(place, job, &self.streams);
                    worker.unit = loader.cached.as_ref().map_or(0, |used| used.units.of(file, 0));
                    worker.file = file;
                    file
                } else {
                    0
                }
            }
            Layout::Shards { .. } | Layout::RowGroups(_) => {
                let current = &mut self.shards[w as usize];
                if current.next == current.end {
                    let in_file = match source.layout {
                        Layout::RowGroups(groups) => current.next_group(groups, source.samples),
                        _ => false,
                    };
                    if !in_file {
                        *current = source.next_shard(job, &self.streams);
                    }
                    let base = current.epoch * source.samples;
                    // A row group is read as a whole, whatever of it was used before.
                    let from = match source.layout {
                        Layout::RowGroups(of) => of.group_of(current.next, source.samples).1.start,
                        _ => current.next,
                    };
                    let (samples, record) = (from..current.end, source.layout.record());
                    current.unread = sizes.sum(job, base, samples, record, &self.streams);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Dataset, Framing, Split, fixture};

    /// The samples that a rank reads: epoch, shard and number of each.
    fn read(source: &mut Source, samples: usize) -> Vec<(u64, u64, u64)> {
        let (streams, mut read) = (Streams::new(1, 0), Vec::new());
        while read.len() < samples {
            let shard = source.next_shard(0, &streams);
            read.extend((shard.next..shard.end).map(|sample| (shard.epoch, shard.file, sample)));
        }
        read.truncate(samples);
        read
    }

    #[test]
    fn shards_go_on_where_reading_was() {
        // System: 9 shards of 10 samples and one of 3, shuffled, so that the smaller one comes at any place,
        // for one rank and for three. Expectation: behind any number of samples the next ones are those that
        // would have come, in all of three epochs.
        let shards = Layout::Shards { samples_per_shard: 10, request: 1e6, record: Framing::NONE };
        let dataset = Dataset { samples: 93, layout: shards, ..fixture::dataset() };
        for (rank, ranks) in [(0, 1), (0, 3), (1, 3), (2, 3)] {
            for split in [Split::Strided, Split::Contiguous] {
                let order = FileOrder::new(&dataset, split, rank, ranks);
                let mut source = Source::new(&dataset, 0, order);
                let whole = 3 * 93 / ranks as usize;
                let all = read(&mut source, whole + 20);
                for position in 0..whole {
                    source.restart(position as u64, ranks.into());
                    let next = read(&mut source, 20);
                    let expected = &all[position..position + 20];
                    assert_eq!(next, expected, "{rank} of {ranks}, {split:?}: behind {position}");
                }
            }
        }
    }
}
