//! The order in which a loader reads its data set (its reading order), and the progress of the loader and its workers in it.

use forebay_metrics::Intervals;
use forebay_model::random::{FileOrder, Streams};
use forebay_scenario::{Dataset, Layout, Ranges, RowGroups};

use super::caches::Found;
use super::sizes::Sizes;
use crate::ids::DatasetId;

/// The shard that a worker reads, and the worker's progress there.
#[derive(Debug, Default)]
pub(crate) struct ShardCursor {
    /// Number of the next sample to be used, within the data set; the worker reads samples up to `end` from this shard or row
    /// group.
    pub(crate) next: u64,
    pub(crate) end: u64,
    /// Bytes of the shard that have not been requested yet [B].
    pub(crate) unread: f64,
    /// Bytes that have arrived and are not used yet [B].
    pub(crate) buffered: f64,
    pub(crate) opened: bool,
    pub(crate) epoch: u64,
    /// Number of the shard within the data set; `requests` is the number of requests made for the shard.
    pub(crate) file: u64,
    pub(crate) requests: u32,
    /// Position of the shard's first sample in the loader's reading order.
    pub(crate) place: u64,
    /// In data sets of row groups, number of column chunks of the row group that have not arrived yet; `unread` then holds all
    /// bytes of the row group.
    pub(crate) missing: u32,
    /// Source of the data of the shard's first request, if there are tiers.
    pub(crate) found: Option<Found>,
}

impl ShardCursor {
    /// Returns the file of the current request, the request's number within the file, and whether it is the file's last
    /// request. The request asks for `request` bytes; the data set has `samples` samples.
    pub(crate) fn place(&self, request: f64, layout: Layout, samples: u64) -> (u64, u32, bool) {
        let number = self.requests.wrapping_sub(1);
        let Layout::RowGroups(of) = layout else {
            return (self.file, number, self.unread - request < 0.5);
        };
        if of.read < 1.0 {
            // Columns that are not read lie between the column chunks, so no request follows the one before.
            return (self.file, number.wrapping_mul(2), false);
        }
        let n = of.samples_per_file();
        let end = self.file.saturating_mul(n).saturating_add(n).min(samples);
        (self.file, number, self.missing == 1 && self.end == end)
    }
}

/// The order in which a loader reads its data set, and its progress.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Source {
    /// The data set's id.
    pub(crate) dataset: DatasetId,
    pub(crate) layout: Layout,
    /// Position in the reading order from which on all samples are read. Before this position, only the samples left over from
    /// before a restart are read.
    behind: u64,
    pub(crate) order: FileOrder,
    /// Number of the next file in the reading order; for files of one sample each, of the file at turn 0.
    next_file: u64,
    pub(crate) samples: u64,
    /// Maximum size of a request that is not split into ranges [B].
    pub(crate) most: f64,
    /// How larger requests are split into ranges.
    pub(crate) ranges: Option<Ranges>,
    /// What was read before the job restarted. It is boxed to keep it out of the cache lines that every sample needs.
    before: Box<Before>,
}

/// What a loader had read before its job restarted.
#[derive(Debug, Default)]
struct Before {
    /// Positions of the samples left over, in order. The last of them is read just before position `Source::behind`.
    left: Vec<u64>,
    /// For shards: positions of the samples that were trained on and are skipped. `complete` is the number of files at the
    /// beginning of the reading order in which all samples were trained on.
    trained: Intervals,
    complete: u64,
}

impl Source {
    /// Returns a source that reads data set number `index` in the given order, from the beginning.
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

    /// Lets the reading begin after the first `files` files, or samples if each is a file. Only before anything is read.
    pub(crate) fn begin_at(&mut self, files: u64) {
        self.next_file = files;
    }

    /// Returns the number of requests that fetch `file` in an epoch of job copy `job`.
    pub(crate) fn requests_of(
        &self,
        (file, epoch): (u64, u64),
        job: u64,
        sizes: &mut Sizes,
        streams: &Streams,
    ) -> u32 {
        match self.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => 1,
            Layout::RowGroups(of) => of.per_file * of.columns,
            Layout::Shards { request, record, .. } => {
                let first = file * self.per_file();
                let samples = first..first + self.samples_of(file);
                let bytes = sizes.sum(job, epoch * self.samples, samples, record, streams);
                ((bytes - 0.5) / request).ceil().max(1.0) as u32
            }
        }
    }

    /// Returns the number of samples of a file, or of a group of samples that the order treats as a file.
    #[inline]
    pub(crate) fn per_file(&self) -> u64 {
        self.layout.samples_per_place().min(self.samples)
    }

    /// Restarts the reading as if the samples at the positions `trained` had been read.
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

    /// Returns the position in the reading order before which only samples left over from before a restart are read.
    pub(crate) fn left_until(&self) -> u64 {
        self.behind
    }

    /// Returns the position in the reading order of the sample that is read at turn number `turn`, for files of one sample
    /// each.
    #[inline]
    pub(crate) fn place(&self, turn: u64) -> u64 {
        self.next_file + if turn < self.behind { self.place_left(turn) } else { turn }
    }

    #[cold]
    fn place_left(&self, turn: u64) -> u64 {
        let first = self.behind - self.before.left.len() as u64;
        let left = turn.checked_sub(first).and_then(|n| self.before.left.get(n as usize));
        left.copied().unwrap_or(turn)
    }

    /// Returns the epoch and the number in the data set of the sample at position `place` of the reading order.
    pub(crate) fn sample(&mut self, place: u64, job: u64, streams: &Streams) -> (u64, u64) {
        let per_file = self.per_file();
        let file = self.order.at(place / per_file, job, streams);
        (self.order.epoch(), file * per_file + place % per_file)
    }

    /// Moves a worker's cursor `current` to what the worker reads next: the next row group of its shard, or the next shard of
    /// job copy `job`.
    pub(crate) fn advance(&mut self, current: &mut ShardCursor, job: u64, streams: &Streams) {
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
            // All samples of the row group were skipped.
            current.requests += current.missing;
        }
    }

    /// Moves the cursor past samples that were trained on before the restart.
    #[inline]
    pub(crate) fn pass(&self, current: &mut ShardCursor) {
        if self.behind > 0 {
            let first = current.file * self.per_file();
            let next = self.before.trained.next_gap(current.place + current.next - first);
            current.next = (next - current.place + first).min(current.end);
        }
    }

    /// Returns a cursor at the next file of job copy `job` with samples that were not trained on.
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

    /// Returns the number of samples in file number `file`.
    fn samples_of(&self, file: u64) -> u64 {
        let of_file = self.per_file();
        of_file.min(self.samples - file * of_file)
    }

    /// Returns a cursor at the start of file number `file` of the current epoch.
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

impl ShardCursor {
    /// Moves on to the next row group of the file in a data set of `samples` samples; returns false if the file has no more.
    pub(super) fn next_group(&mut self, groups: RowGroups, samples: u64) -> bool {
        let of_file = groups.samples_per_file();
        let end = self.file.saturating_mul(of_file).saturating_add(of_file).min(samples);
        if !self.opened || self.next >= end {
            return false;
        }
        self.end = self.next.saturating_add(groups.samples).min(end);
        self.missing = groups.columns;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_scenario::{Dataset, Framing, RowGroups, Split};

    /// Returns the samples that a worker reads, each as its position in the reading order, its epoch and its number in the data
    /// set.
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
    fn after_a_restart_reads_of_shards_continue_with_samples_not_yet_trained_on() {
        // System: 9 files of 10 samples, or of three row groups of 4 samples, and a smaller file, shuffled, so that the
        // smaller one comes at any position; for one rank and for three. Expectation: whichever of the first samples were
        // trained on (a run of them, or a run and every third one of the next 30), the other samples come next, over three
        // epochs.
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
                        // After repeated restarts, the samples left over from earlier ones still come.
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
    fn after_a_restart_files_not_yet_trained_on_are_read_first() {
        // System: ten files, of which some were trained on before others that precede them in the order. Expectation: the
        // files left over come first, in their order, then the next ones.
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
