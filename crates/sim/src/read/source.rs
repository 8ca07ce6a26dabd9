//! What a loader reads, and how far it and its workers are.

use crate::env::Env;
use crate::index::{DatasetId, WorkerId};
use crate::loaders::Loaders;
use crate::tiers::Found;
use forebay_metrics::Intervals;
use forebay_model::random::{FileOrder, Streams};
use forebay_scenario::{Dataset, Layout, Ranges};

use super::mount::ServiceModel;

/// The shard that a worker reads, and how far it is.
#[derive(Debug, Default)]
pub(crate) struct ShardCursor {
    /// First sample, in the data set's own numbering.
    pub(super) next: u64,
    pub(super) end: u64,
    /// Bytes of the shard not yet requested.
    pub(crate) unread: f64,
    /// Bytes that have come and are not yet used.
    pub(super) buffered: f64,
    pub(super) opened: bool,
    pub(crate) epoch: u64,
    /// Which shard it is, and requests made for it.
    pub(crate) file: u64,
    pub(crate) requests: u32,
    /// Place in the loader's reading of the file's first sample.
    pub(crate) place: u64,
    /// Requests of its row group that are still to come, where it has such; then `unread` are all of
    /// that one's bytes.
    pub(super) missing: u32,
    /// Where its first request was found, where there are tiers.
    pub(crate) found: Option<Found>,
}

impl ShardCursor {
    /// Which file the request for so many bytes that is being made is of, which request of it, and
    /// whether the last; in a data set of so many samples.
    pub(crate) fn place(&self, request: f64, layout: Layout, samples: u64) -> (u64, u32, bool) {
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
pub(crate) struct Source {
    /// Which data set.
    pub(crate) dataset: DatasetId,
    pub(crate) layout: Layout,
    /// All samples from here on are read, and before it those that are left.
    behind: u64,
    pub(crate) order: FileOrder,
    next_file: u64,
    pub(crate) samples: u64,
    /// Largest request that is made as one [B].
    pub(super) most: f64,
    /// How what is larger is fetched.
    pub(crate) ranges: Option<Ranges>,
    /// What was read before the job began again. Apart, because every sample fetches what is beside it.
    before: Box<Before>,
}

/// What a loader had read before its job began again.
#[derive(Debug, Default)]
struct Before {
    /// Samples that are left, the first of which has the turn at which reading began again.
    left: Vec<u64>,
    /// Of shards instead, places of samples that are passed over, and files at the start that have no others.
    trained: Intervals,
    complete: u64,
}

impl Source {
    /// Data set number `index`, in the order of a loader.
    pub(crate) fn new(dataset: &Dataset, index: usize, order: FileOrder) -> Source {
        Source {
            dataset: DatasetId::new(index as u32),
            samples: dataset.samples,
            layout: dataset.layout,
            order,
            next_file: 0,
            behind: 0,
            most: dataset.ranges.map_or(f64::INFINITY, |ranges| ranges.request),
            ranges: dataset.ranges,
            before: Box::default(),
        }
    }

    /// Samples of a file, or of what takes turns as one.
    #[inline]
    fn per_file(&self) -> u64 {
        self.layout.samples_per_place().min(self.samples)
    }

    /// As if these had been read, by their places.
    pub(crate) fn restart(&mut self, trained: Intervals) {
        let per_file = self.per_file();
        self.next_file = self.before.complete.min(trained.end() / per_file);
        self.before.complete = self.next_file;
        self.behind = trained.end();
        if self.layout.is_by_sample() {
            self.before.left = trained.gaps();
        } else {
            self.before.trained = trained;
        }
    }

    /// From this turn on, samples are read in order.
    pub(crate) fn left_until(&self) -> u64 {
        self.behind
    }

    /// Which sample is read at this turn, of files of one each.
    #[inline]
    pub(crate) fn place(&self, turn: u64) -> u64 {
        if turn < self.behind { self.place_left(turn) } else { turn }
    }

    #[cold]
    fn place_left(&self, turn: u64) -> u64 {
        let first = self.behind - self.before.left.len() as u64;
        let left = turn.checked_sub(first).and_then(|n| self.before.left.get(n as usize));
        left.copied().unwrap_or(turn)
    }

    /// Epoch and number of the sample at `place`.
    pub(crate) fn sample(&mut self, place: u64, job: u64, streams: &Streams) -> (u64, u64) {
        let per_file = self.per_file();
        let file = self.order.at(place / per_file, job, streams);
        (self.order.epoch(), file * per_file + place % per_file)
    }

    /// Goes on to what worker with `current` reads next, a shard of job copy `job` or a group of rows in it.
    fn advance(&mut self, current: &mut ShardCursor, job: u64, streams: &Streams) {
        loop {
            let in_file = match self.layout {
                Layout::RowGroups(groups) => current.next_group(groups, self.samples),
                _ => false,
            };
            if !in_file {
                *current = self.next_shard(job, streams);
                return;
            }
            self.pass(current);
            if current.next < current.end {
                return;
            }
            // All of the group was passed over.
            current.requests += current.missing;
        }
    }

    /// Passes over samples that are left out.
    #[inline]
    fn pass(&self, current: &mut ShardCursor) {
        if self.behind > 0 {
            let first = current.file * self.per_file();
            let next = self.before.trained.next_gap(current.place + current.next - first);
            current.next = (next - current.place + first).min(current.end);
        }
    }

    /// The next file of job copy `job` of which not all is left out.
    fn next_shard(&mut self, job: u64, streams: &Streams) -> ShardCursor {
        loop {
            let file = self.order.at(self.next_file, job, streams);
            let per_file = self.per_file();
            let place = self.next_file * per_file;
            let passed = self.before.trained.next_gap(place) - place;
            self.next_file += 1;
            if passed >= self.samples_of(file) {
                self.before.complete += u64::from(self.before.complete + 1 == self.next_file);
                continue;
            }
            let mut shard = ShardCursor { place, ..self.shard(file) };
            shard.next += passed;
            if let (Layout::RowGroups(of), true) = (self.layout, passed > 0) {
                let (group, samples) = of.group_of(shard.next, self.samples);
                shard.end = samples.end;
                shard.requests = group as u32 * of.columns;
            }
            return shard;
        }
    }

    /// Samples of file number `file`.
    fn samples_of(&self, file: u64) -> u64 {
        let of_file = self.per_file();
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

impl Loaders {
    /// Finds out which sample is next for worker `w`, and how large it is.
    #[inline]
    pub(super) fn locate(&mut self, env: &mut Env, w: WorkerId) {
        let Self { workers, loaders, shards, .. } = self;
        let (sizes, streams) = (&mut env.storages.sizes, &env.streams);
        let worker = &mut workers[w];
        let loader = &mut loaders[worker.loader];
        let source = &mut loader.source;
        let sizes = &mut sizes[source.dataset];
        let (nodes, rank, job) =
            (loader.nodes as u64, loader.rank as u64, loader.job.number() as u64);
        worker.requests = 0;
        let sample = match source.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => {
                let place = source.place(worker.item.first + worker.sample as u64);
                worker.position = place * nodes + rank;
                // Where its flow goes among others depends on it: the next one should not wait for it.
                sizes.prefetch(job, worker.position + nodes);
                let placed = loader.plain.is_none()
                    && (loader.keeps
                        || loader.mount.routes.is_some()
                        || matches!(loader.mount.service, ServiceModel::DiskHead(_))
                        || !matches!(source.layout, Layout::FilePerSample));
                if placed || sizes.need_order() {
                    let file = source.order.at(place, job, streams);
                    worker.unit = loader.cached.as_ref().map_or(0, |used| used.units.of(file, 0));
                    worker.file = file;
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
                    // A row group is read as a whole, whatever of it was used before.
                    let from = match source.layout {
                        Layout::RowGroups(of) => of.group_of(current.next, source.samples).1.start,
                        _ => current.next,
                    };
                    let (samples, record) = (from..current.end, source.layout.record());
                    current.unread = sizes.sum(job, base, samples, record, streams);
                }
                let sample = current.next;
                if loader.followed
                    && let Some(lineage) = &mut loader.lineage
                {
                    let first = current.file * source.per_file();
                    let turn = worker.item.first + u64::from(worker.sample);
                    lineage.locate(turn, current.place + sample - first);
                }
                current.next += 1;
                source.pass(current);
                worker.position = current.epoch * source.samples + sample;
                sample
            }
        };
        worker.size = sizes.at(job, worker.position, sample, streams);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_scenario::{Dataset, Framing, RowGroups, Split};

    /// The samples that a worker reads: place in the reading, epoch and number of each.
    fn read(source: &mut Source, samples: usize) -> Vec<(u64, u64, u64)> {
        let (streams, mut current, mut read) =
            (Streams::new(1, 0), ShardCursor::default(), Vec::new());
        while read.len() < samples {
            if current.next == current.end {
                source.advance(&mut current, 0, &streams);
                current.opened = true;
            }
            let place = current.place + current.next - current.file * source.per_file();
            read.push((place, current.epoch, current.next));
            current.next += 1;
            source.pass(&mut current);
        }
        read
    }

    #[test]
    fn shards_go_on_with_what_is_left() {
        // System: 9 files of 10 samples, or of three groups of 4 rows, and one that is smaller, shuffled, so that this
        // comes at any place; for one rank and for three. Expectation: whatever of the first samples was trained on, up
        // to any of them or every third one behind it too, the others come next, in all of three epochs.
        let shards = Layout::Shards { samples_per_shard: 10, request: 1e6, record: Framing::NONE };
        let groups = RowGroups { samples: 4, per_file: 3, columns: 2, read: 1.0, decompress: 0.0 };
        for (layout, samples) in [(shards, 93), (Layout::RowGroups(groups), 9 * 12 + 5)] {
            let dataset = Dataset { samples, layout, ..Dataset::of_files(1, 10.0) };
            for (rank, ranks) in [(0, 1), (0, 3), (1, 3), (2, 3)] {
                for split in [Split::Strided, Split::Contiguous] {
                    let order = || FileOrder::new(dataset.visits(), split, rank, ranks);
                    let whole = 3 * samples as usize / ranks as usize;
                    let all = read(&mut Source::new(&dataset, 0, order()), whole + 80);
                    let mut again = Source::new(&dataset, 0, order());
                    for (upto, every) in (0..whole).flat_map(|n| [(n, 0), (n, 3)]) {
                        let is_trained = |n: usize| {
                            n < upto || (every > 0 && n < upto + 30 && n.is_multiple_of(every))
                        };
                        let mut trained = Intervals::default();
                        let before = (0..upto + 30).filter(|n| is_trained(*n)).map(|n| all[n].0);
                        before.for_each(|place| trained.insert(place..place + 1));
                        let mut anew = Source::new(&dataset, 0, order());
                        // What is left of a file before is left of it later too.
                        let sources = if every == 0 {
                            [Some(&mut again), Some(&mut anew)]
                        } else {
                            [None, Some(&mut anew)]
                        };
                        for source in sources.into_iter().flatten() {
                            source.restart(trained.clone());
                            let next = read(source, 20);
                            let left = (0..all.len()).filter(|n| !is_trained(*n)).map(|n| all[n]);
                            let expected: Vec<_> = left.take(20).collect();
                            assert_eq!(
                                next, expected,
                                "{rank} of {ranks}, {split:?}, {upto}, {every}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn samples_that_were_left_out_come_first() {
        // System: of ten files read two or three ahead were trained on. Expectation: the others, in their order, then on.
        let dataset = Dataset::of_files(100, 10.0);
        let mut source =
            Source::new(&dataset, 0, FileOrder::new(dataset.visits(), Split::Strided, 0, 1));
        let mut trained = Intervals::default();
        [0..3, 5..6, 8..10].into_iter().for_each(|run| trained.insert(run));
        source.restart(trained);
        let places: Vec<u64> = (6..13).map(|turn| source.place(turn)).collect();
        assert_eq!(places, [3, 4, 6, 7, 10, 11, 12]);
    }
}
