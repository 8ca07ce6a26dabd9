//! How samples are packed into files, and what reading one of them asks of a storage.
//!
//! Packing says nothing about whether samples are decoded already: sizes as stored and after decoding
//! are the data set's.

pub(super) mod settings;

use super::Dataset;
use forebay_model::random::Visits;

/// How samples are packed into files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    /// Each sample is a file: one open operation, one request latency and its bytes.
    FilePerSample,
    /// All samples are in one file, and each is a request of its own, at its place in there.
    OneFile {
        /// What a sample takes in the file, and thus its request.
        record: Framing,
        /// Whether each worker opens the file once an epoch; otherwise it is open from the start.
        opened: bool,
    },
    /// Samples lie one behind the other in shards. Opening a shard costs one operation; its bytes
    /// come in requests of `request` bytes (the last of a shard may be shorter), each paying the
    /// latency once. Each worker reads its own shard from beginning to end.
    Shards {
        /// Samples in a shard (the last may have fewer).
        samples_per_shard: u64,
        /// Bytes of one request.
        request: f64,
        /// What surrounds a sample in its shard.
        record: Framing,
    },
    /// Files of row groups, as Parquet's.
    RowGroups(RowGroups),
}

/// Bytes around a record in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Bytes beside the record's own [B].
    pub header: u32,
    /// What records are padded to a multiple of [B]; 0: nothing.
    pub block: u32,
}

impl Framing {
    /// Records one right behind the other.
    pub const NONE: Framing = Framing { header: 0, block: 0 };

    /// Bytes that a record of `size` takes in its file [B].
    #[inline]
    #[must_use]
    pub fn around(self, size: f64) -> f64 {
        if self == Framing::NONE {
            return size;
        }
        let padded = match self.block {
            0 => size,
            block => (size / f64::from(block)).ceil() * f64::from(block),
        };
        f64::from(self.header) + padded
    }

    /// Largest record that takes at most so many bytes in its file, and at least 1 [B].
    #[must_use]
    pub fn inside(self, taken: u64) -> u64 {
        let bytes = taken.saturating_sub(self.header.into());
        let block = u64::from(self.block.max(1));
        (bytes / block * block).max(1)
    }
}

/// Requests in which a sample that is read by itself, and is larger than one, is fetched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranges {
    /// Bytes of one; the last may be shorter.
    pub request: f64,
    /// How many of a reader are in progress at once.
    pub readahead: u32,
}

/// Files of row groups. A worker reads its own file from beginning to end, one row group after the
/// other: all that is read of it, decompressed as a whole, before its first sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowGroups {
    /// Samples in a row group (the last may have fewer).
    pub samples: u64,
    /// Row groups in a file (the last may have fewer).
    pub per_file: u32,
    /// Column chunks that are read of a row group: each is a request, and all are as large.
    pub columns: u32,
    /// Share of a row group's bytes that these are.
    pub read: f64,
    /// Work to decompress what is read [core-s/B].
    pub decompress: f64,
}

impl RowGroups {
    /// Samples in a file.
    #[must_use]
    pub fn samples_per_file(&self) -> u64 {
        self.samples.saturating_mul(u64::from(self.per_file))
    }

    /// Which row group of its file `sample` is in, and the samples of that, in a data set of so many.
    #[must_use]
    pub fn group_of(&self, sample: u64, samples: u64) -> (u64, std::ops::Range<u64>) {
        let of_file = self.samples_per_file();
        let first = sample / of_file * of_file;
        let group = (sample - first) / self.samples;
        let start = first + group * self.samples;
        let end = start.saturating_add(self.samples);
        (group, start..end.min(first.saturating_add(of_file)).min(samples))
    }
}

impl Layout {
    /// Name in a profile's table of reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FilePerSample => "file-per-sample",
            Self::OneFile { .. } | Self::Shards { .. } | Self::RowGroups(_) => "records",
        }
    }

    /// Whether each sample is read by itself, not as a part of a file that a worker goes through.
    #[must_use]
    pub fn is_by_sample(self) -> bool {
        matches!(self, Self::FilePerSample | Self::OneFile { .. })
    }

    /// Samples of what is read as one after the other: a file in which they are one behind the other, or one sample.
    #[must_use]
    pub fn samples_per_place(self) -> u64 {
        match self {
            Self::FilePerSample | Self::OneFile { .. } => 1,
            Self::Shards { samples_per_shard, .. } => samples_per_shard,
            Self::RowGroups(groups) => groups.samples_per_file(),
        }
    }

    /// What surrounds a sample in its file.
    #[must_use]
    pub fn record(self) -> Framing {
        match self {
            Self::OneFile { record, .. } | Self::Shards { record, .. } => record,
            Self::FilePerSample | Self::RowGroups(_) => Framing::NONE,
        }
    }
}

impl Dataset {
    /// Places in an epoch's order: samples where each is read by itself, else the files that they
    /// are in.
    #[must_use]
    pub fn places(&self) -> u64 {
        self.samples.div_ceil(self.layout.samples_per_place())
    }

    /// What the ranks that read it visit in an epoch.
    #[must_use]
    pub fn visits(&self) -> Visits {
        let by_sample = self.layout.is_by_sample();
        Visits { files: self.places(), by_sample, order: self.order }
    }

    /// Files that it is in.
    #[must_use]
    pub fn files(&self) -> u64 {
        match self.layout {
            Layout::OneFile { .. } => 1,
            _ => self.places(),
        }
    }

    /// Samples in a file (the last may have fewer).
    #[must_use]
    pub fn samples_per_file(&self) -> u64 {
        match self.layout {
            Layout::FilePerSample => 1,
            Layout::OneFile { .. } => self.samples,
            Layout::Shards { samples_per_shard, .. } => samples_per_shard,
            Layout::RowGroups(groups) => groups.samples_per_file(),
        }
    }

    /// Units of a page cache that a place of the order is cut into: requests, with room for shards
    /// larger than the mean one.
    #[must_use]
    pub fn units_per_place(&self) -> u64 {
        match self.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => 1,
            #[expect(clippy::cast_precision_loss, reason = "sizes of shards are estimates")]
            Layout::Shards { samples_per_shard, request, .. } => {
                let mean = samples_per_shard as f64 * self.mean_read() / request;
                ((1.5 * mean).ceil() as u64).saturating_add(8)
            }
            Layout::RowGroups(of) => u64::from(of.per_file) * u64::from(of.columns),
        }
    }

    /// Mean bytes that come from the storage for each sample, with those around it [B].
    #[must_use]
    pub fn mean_read(&self) -> f64 {
        match self.layout {
            Layout::FilePerSample => self.mean_size(),
            Layout::OneFile { record, .. } | Layout::Shards { record, .. } => {
                record.around(self.mean_size())
            }
            Layout::RowGroups(groups) => groups.read * self.mean_size(),
        }
    }

    /// Mean size of one request to the storage [B].
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sizes of files are estimates")]
    pub fn mean_request(&self) -> f64 {
        let mean = self.mean_read();
        match self.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => {
                mean.min(self.ranges.map_or(mean, |ranges| ranges.request))
            }
            Layout::Shards { samples_per_shard, request, .. } => {
                request.min(samples_per_shard as f64 * mean)
            }
            Layout::RowGroups(of) => {
                of.samples.min(self.samples) as f64 * mean / f64::from(of.columns)
            }
        }
    }

    /// Mean number of requests for a sample.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn requests_per_sample(&self) -> f64 {
        match self.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => {
                self.ranges.map_or(1.0, |ranges| (self.mean_read() / ranges.request).ceil())
            }
            Layout::Shards { samples_per_shard, request, .. } => {
                (self.mean_read() / request).max(1.0 / samples_per_shard as f64)
            }
            Layout::RowGroups(of) => f64::from(of.columns) / of.samples.min(self.samples) as f64,
        }
    }

    /// Mean number of latencies for a sample, one after the other.
    #[must_use]
    pub fn latencies_per_sample(&self) -> f64 {
        let ahead = self.ranges.map_or(1.0, |ranges| f64::from(ranges.readahead));
        let requests = self.requests_per_sample();
        requests / ahead.min(requests.max(1.0))
    }

    /// Mean number of opens for a sample; 0 where a file serves an epoch.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn opens_per_sample(&self) -> f64 {
        match self.layout {
            Layout::FilePerSample => 1.0,
            Layout::OneFile { .. } => 0.0,
            Layout::Shards { samples_per_shard, .. } => 1.0 / samples_per_shard as f64,
            Layout::RowGroups(groups) => 1.0 / groups.samples_per_file() as f64,
        }
    }

    /// Mean work that comes before the first sample of a row group [core-s].
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn unpacking_at_once(&self) -> f64 {
        match self.layout {
            Layout::RowGroups(groups) => groups.samples.min(self.samples) as f64 * self.unpacking(),
            _ => 0.0,
        }
    }

    /// Mean work to unpack a sample before it can be decoded [core-s].
    #[must_use]
    pub fn unpacking(&self) -> f64 {
        match self.layout {
            Layout::RowGroups(groups) => groups.decompress * self.mean_read(),
            _ => 0.0,
        }
    }
}
