//! How samples are packed into files, and which requests a storage gets when samples are read.
//!
//! A layout does not say whether samples are stored decoded: the data set has the sizes as stored and after decoding.

pub(super) mod settings;

use super::Dataset;
use forebay_model::random::Visits;

/// Each sample is a file of its own. Reading it costs one open operation, one request latency and the transfer of its
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    /// Each sample is a file: one open operation, one request latency and its bytes.
    FilePerSample,
    /// All samples are in one file; each sample is read by a request of its own, at its offset in the file.
    OneFile {
        /// Framing of a sample in the file, which is read along with the sample.
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
        /// Framing of a sample in its shard.
        record: Framing,
    },
    /// Files of row groups, as in Parquet.
    RowGroups(RowGroups),
}

/// Framing of a record in its file: a header before the record, and padding after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Bytes that the framing adds to each record, padding not included [B].
    pub header: u32,
    /// Block size [B]; records are padded to a multiple of it. 0 means no padding.
    pub block: u32,
}

impl Framing {
    /// No framing: each record begins where the one before ends.
    pub const NONE: Framing = Framing { header: 0, block: 0 };

    /// Returns the bytes that a record of `size` bytes takes in its file [B].
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

    /// Returns the size of the largest record that takes at most `taken` bytes in its file with its framing, but at
    /// least 1 [B].
    #[must_use]
    pub fn inside(self, taken: u64) -> u64 {
        let bytes = taken.saturating_sub(self.header.into());
        let block = u64::from(self.block.max(1));
        (bytes / block * block).max(1)
    }
}

/// Requests that fetch a sample in pieces, if samples are read one by one and are larger than a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranges {
    /// Bytes of one request; the last may be shorter [B].
    pub request: f64,
    /// Number of requests that a reader has in progress at once.
    pub readahead: u32,
}

/// Files of row groups. A worker reads its own file from beginning to end, one row group after the other. The
/// column chunks of a row group are read and decompressed as a whole, before its first sample is available.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowGroups {
    /// Samples in a row group (the last may have fewer).
    pub samples: u64,
    /// Row groups in a file (the last may have fewer).
    pub per_file: u32,
    /// Column chunks that are read from each row group: each is a request, and all are of the same size.
    pub columns: u32,
    /// Share of a row group's bytes that is read.
    pub read: f64,
    /// Core time to decompress each byte that is read [core-s/B].
    pub decompress: f64,
}

impl RowGroups {
    /// Returns the number of samples in a file.
    #[must_use]
    pub fn samples_per_file(&self) -> u64 {
        self.samples.saturating_mul(u64::from(self.per_file))
    }

    /// Returns the index of the row group of `sample` within its file, and the range of samples in this row group.
    /// The data set has `samples` samples.
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
    /// Returns the name of this layout in a profile's tables of reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FilePerSample => "file-per-sample",
            Self::OneFile { .. } | Self::Shards { .. } | Self::RowGroups(_) => "records",
        }
    }

    /// Returns whether each sample is read by itself, and not as a part of a file that a worker reads from
    /// beginning to end.
    #[must_use]
    pub fn is_by_sample(self) -> bool {
        matches!(self, Self::FilePerSample | Self::OneFile { .. })
    }

    /// Returns the number of samples in one entry of an epoch's order: all samples of a file that is read from
    /// beginning to end, or 1 if samples are read one by one.
    #[must_use]
    pub fn samples_per_place(self) -> u64 {
        match self {
            Self::FilePerSample | Self::OneFile { .. } => 1,
            Self::Shards { samples_per_shard, .. } => samples_per_shard,
            Self::RowGroups(groups) => groups.samples_per_file(),
        }
    }

    /// Returns the framing of a sample in its file.
    #[must_use]
    pub fn record(self) -> Framing {
        match self {
            Self::OneFile { record, .. } | Self::Shards { record, .. } => record,
            Self::FilePerSample | Self::RowGroups(_) => Framing::NONE,
        }
    }
}

impl Dataset {
    /// Returns the number of entries in an epoch's order: samples if they are read one by one, otherwise files.
    #[must_use]
    pub fn places(&self) -> u64 {
        self.samples.div_ceil(self.layout.samples_per_place())
    }

    /// Returns what the ranks that read the data set visit in an epoch: how many samples or files, and in which
    /// order.
    #[must_use]
    pub fn visits(&self) -> Visits {
        let by_sample = self.layout.is_by_sample();
        Visits { files: self.places(), by_sample, order: self.order }
    }

    /// Returns the number of files of the data set.
    #[must_use]
    pub fn files(&self) -> u64 {
        match self.layout {
            Layout::OneFile { .. } => 1,
            _ => self.places(),
        }
    }

    /// Returns the number of samples in a file (the last file may have fewer).
    #[must_use]
    pub fn samples_per_file(&self) -> u64 {
        match self.layout {
            Layout::FilePerSample => 1,
            Layout::OneFile { .. } => self.samples,
            Layout::Shards { samples_per_shard, .. } => samples_per_shard,
            Layout::RowGroups(groups) => groups.samples_per_file(),
        }
    }

    /// Returns the maximum number of page-cache units in one entry of an epoch's order; each unit is one request. For
    /// shards this is an estimate with a margin, because a shard may be larger than the mean shard.
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

    /// Returns the mean number of bytes that are read from the storage for each sample, framing included [B].
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

    /// Returns the mean size of one request to the storage [B].
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

    /// Returns the mean number of requests for a sample.
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

    /// Returns the mean number of request latencies that a reader waits for, one after the other, while it reads a
    /// sample.
    #[must_use]
    pub fn latencies_per_sample(&self) -> f64 {
        let ahead = self.ranges.map_or(1.0, |ranges| f64::from(ranges.readahead));
        let requests = self.requests_per_sample();
        requests / ahead.min(requests.max(1.0))
    }

    /// Returns the mean number of opens for each sample; 0 if all samples are in one file.
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

    /// Returns the mean work to decompress a row group before its first sample is available [core-s]; 0 for other
    /// layouts.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn unpacking_at_once(&self) -> f64 {
        match self.layout {
            Layout::RowGroups(groups) => groups.samples.min(self.samples) as f64 * self.unpacking(),
            _ => 0.0,
        }
    }

    /// Returns the mean work to unpack a sample before it can be decoded [core-s].
    #[must_use]
    pub fn unpacking(&self) -> f64 {
        match self.layout {
            Layout::RowGroups(groups) => groups.decompress * self.mean_read(),
            _ => 0.0,
        }
    }
}
