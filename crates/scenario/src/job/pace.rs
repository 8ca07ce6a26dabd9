//! Estimates, without simulation, how long a loader takes for a sample. Checks use the estimates to refuse scenarios
//! that could not be simulated in reasonable time.

use super::Job;
use crate::storage::{Bandwidth, RequestPath};
use crate::{Cluster, Dataset, Distribution, Operation, Storage};
use forebay_model::law::Throughput;

/// The data set, storage and loader that a sample passes on its way to the trainer.
pub(super) struct SamplePath<'a> {
    pub(super) job: &'a Job,
    pub(super) dataset: &'a Dataset,
    pub(super) storage: &'a Storage,
    pub(super) cluster: &'a Cluster,
}

impl SamplePath<'_> {
    /// Returns the mean time that a sample's bytes take through the slowest part of their path when they are read [s].
    pub(super) fn transfer(&self) -> f64 {
        self.through(self.storage.reads(), slowest(&self.storage.reads().bandwidth))
    }

    /// Returns the mean time that a sample's bytes take through the slowest part of their path when they are written [s].
    pub(super) fn written(&self) -> f64 {
        self.through(&self.storage.path, slowest(&self.storage.path.bandwidth))
    }

    /// Returns the shortest mean time that a sample's bytes take when they are read: in a burst, if the storage has bursts [s].
    fn least_transfer(&self) -> f64 {
        let path = self.storage.reads();
        let together = path.burst.map_or(slowest(&path.bandwidth), |burst| burst.bandwidth);
        self.through(path, together)
    }

    /// Returns the mean time of a sample's bytes if all transfers of the storage share the bandwidth `together` [B/s].
    fn through(&self, path: &RequestPath, together: f64) -> f64 {
        let nic = match path.is_remote() {
            true => self.cluster.data_nic().min(path.per_client),
            false => f64::INFINITY,
        };
        let alone = match path.measured() {
            Some(table) => self.alone(table),
            None => path.most_of_one(self.dataset.mean_request()),
        };
        self.dataset.mean_read() / together.min(alone).min(nic)
    }

    /// Returns the throughput of a request of mean size [B/s]: the lower of its throughput when it is alone and its
    /// throughput when every reader of the loader has a request in progress.
    fn alone(&self, table: &Throughput) -> f64 {
        let readers = self.job.loader.stages.first().map_or(1, |stage| stage.workers.max(1));
        let (size, readers) = (self.dataset.mean_request(), f64::from(readers));
        table.of(size, 1.0).min(table.of(size, readers) / readers)
    }

    /// Returns the mean time that a sample takes in all stages if it never waits [s].
    pub(super) fn total(&self) -> f64 {
        let stages = self.job.loader.stages.iter();
        let work = stages.flat_map(|stage| stage.per_sample.iter().chain(&stage.per_item));
        work.map(|operation| match operation {
            Operation::Read => self.least_read() + self.dataset.unpacking(),
            Operation::Compute(work) | Operation::Delay(work) => mean(work),
            Operation::Decode(law) => {
                let pixels = self.dataset.image.map_or(0.0, |image| image.pixels());
                law.core_seconds(self.dataset.mean_size(), pixels)
            }
            Operation::Kernel(kernel) => kernel.per_sample / self.cluster.node.gpu_speed,
            Operation::CopyStored => self.dataset.mean_size() / self.cluster.node.pcie,
            Operation::Memcpy(per_byte) => per_byte * self.decoded(),
            Operation::Copy => self.decoded() / self.cluster.node.pcie,
        })
        .sum()
    }

    /// Returns the mean size of a decoded sample [B].
    fn decoded(&self) -> f64 {
        self.dataset.decoded_size.unwrap_or_else(|| self.dataset.mean_size())
    }

    /// Returns the shortest mean time to read a sample: the time from the page cache if the storage uses one and it is
    /// faster, otherwise the time from the storage [s].
    fn least_read(&self) -> f64 {
        let read = self.requests() + self.least_transfer();
        match &self.cluster.node.page_cache {
            Some(cache) if self.storage.passes_page_cache() => {
                read.min(self.dataset.mean_read() / cache.bandwidth)
            }
            _ => read,
        }
    }

    /// Returns the mean time that file opens and request latencies take for each sample [s].
    fn requests(&self) -> f64 {
        let path = self.storage.reads();
        if path.measured().is_some() {
            return 0.0;
        }
        let trip = if path.is_remote() { 2.0 * self.cluster.latency } else { 0.0 };
        let latency = mean(&path.latency) + path.seek().unwrap_or(0.0) + trip;
        let dataset = self.dataset;
        let operations = match path.queues.is_some() {
            true => dataset.requests_per_sample(),
            false => dataset.opens_per_sample(),
        };
        operations / path.operations + latency * dataset.latencies_per_sample()
    }
}

/// Returns the lowest total bandwidth over all numbers of transfers [B/s].
fn slowest(bandwidth: &Bandwidth) -> f64 {
    match bandwidth {
        Bandwidth::Fixed(bandwidth) => *bandwidth,
        Bandwidth::ByTransfers(table) => table.iter().copied().fold(f64::INFINITY, f64::min),
    }
}

/// Returns the mean of a distribution. For a normal distribution, returns at least 0.79 standard deviations, because
/// truncation raises the mean at least to this value; the result is therefore zero only if the distribution is always
/// zero.
fn mean(distribution: &Distribution) -> f64 {
    match distribution {
        Distribution::Normal { mean, sd } => mean.max(0.79 * sd),
        other => other.mean(),
    }
}
