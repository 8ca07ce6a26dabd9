//! What is read.

use super::Distribution;
use std::sync::Arc;

/// A data set: samples, their sizes, how they are packed into files and in which order they are
/// read.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Name, for reports.
    pub name: String,
    /// Samples in one epoch.
    pub samples: u64,
    /// Size of each as stored.
    pub sizes: SampleSizes,
    /// Bytes of one sample after decoding, for copies to the device; `None`: as stored.
    pub decoded_size: Option<f64>,
    /// How samples are packed into files.
    pub layout: Layout,
    /// Order in which an epoch visits them.
    pub order: SampleOrder,
}

/// Size of each sample as stored [B].
#[derive(Debug, Clone, PartialEq)]
pub enum SampleSizes {
    /// Drawn once per sample: a sample has the same size in every epoch, job and replication.
    Drawn(Distribution),
    /// Looked up: the `i`-th sample that job copy `j` reads has size
    /// `table[(j·job_stride + i·sample_stride) mod table.len()]`. Only the library offers this, to
    /// feed one engine the same sizes as another.
    Table {
        /// Sizes [B]; not empty.
        table: Arc<[f64]>,
        /// Steps in the table from one job copy to the next.
        job_stride: u64,
        /// Steps in the table from one sample to the next.
        sample_stride: u64,
    },
}

/// How samples are packed into files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    /// Each sample is a file: one open operation, one request latency and its bytes.
    FilePerSample,
    /// Samples lie one behind the other in shards. Opening a shard costs one operation; its bytes
    /// come in requests of `request` bytes (the last of a shard may be shorter), each paying the
    /// latency once. Each worker reads its own shard from beginning to end.
    Shards {
        /// Samples in a shard (the last may have fewer).
        samples_per_shard: u64,
        /// Bytes of one request.
        request: f64,
    },
}

/// Order in which an epoch visits samples (file per sample) or shards (shards).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleOrder {
    /// A new seeded permutation each epoch, different for each job copy.
    Shuffled,
    /// As stored.
    Sequential,
}
