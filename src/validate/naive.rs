//! The naive model: a job trains as fast as the slowest of fetching, preparing and computing.
//!
//! This is `min(F, P, G)` of DS-Analyzer (Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021),
//! with the same parameters as the simulation. It has no queues, assumes that the three always overlap, and knows no contention
//! except that jobs split what they share: evenly, or a storage that serves in order of arrival by what their readers ask for at once.

use crate::scenario::storage::Sharing;
use crate::scenario::{BatchInterval, Dataset, Device, Job, Operation, RequestPath, Scenario};
use serde::Serialize;

/// Throughput that each part of the job would have if it were the only limit, for all jobs together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Naive {
    /// Throughput of storage, times the number of steps in which each batch is used [samples/s].
    pub fetch: f64,
    /// Throughput of preparing on cores, times the number of steps in which each batch is used [samples/s].
    pub prepare: f64,
    /// Throughput of the accelerators [samples/s].
    pub compute: f64,
}

impl Naive {
    /// Returns the predicted throughput [samples/s].
    #[must_use]
    pub fn samples_per_second(&self) -> f64 {
        self.fetch.min(self.prepare).min(self.compute)
    }

    /// Returns name and value of the smallest limit, and the value of the second smallest.
    #[must_use]
    pub fn limits(&self) -> ((&'static str, f64), f64) {
        let mut limits =
            [("fetch", self.fetch), ("prepare", self.prepare), ("compute", self.compute)];
        limits.sort_by(|a, b| a.1.total_cmp(&b.1));
        (limits[0], limits[1].1)
    }
}

/// Returns the naive model of a scenario whose jobs all run on one machine; `None` if the batch interval is not fixed.
#[must_use]
pub fn naive(scenario: &Scenario) -> Option<Naive> {
    let jobs: u32 = scenario.jobs.iter().map(|job| job.copies).sum();
    let mut all = Naive { fetch: 0.0, prepare: 0.0, compute: 0.0 };
    for job in &scenario.jobs {
        let BatchInterval::Every(interval) = job.batch_interval else { return None };
        let dataset = &scenario.datasets[job.dataset];
        let copies = f64::from(job.copies);
        let share = f64::from(jobs);
        let path = scenario.storage[job.storage].reads();
        all.fetch += match job.reads_data() {
            true => {
                let shared = shared(scenario, job, share);
                copies * interval * fetch(path, job, dataset, shared)
            }
            false => f64::INFINITY,
        };
        all.prepare += copies * interval * prepare(scenario, job, dataset, share);
        all.compute += copies * compute(scenario, job);
    }
    Some(all)
}

/// Returns the storage's bandwidth ÷ the bandwidth that one copy of `job` gets: `jobs` if the storage is split evenly.
fn shared(scenario: &Scenario, job: &Job, jobs: f64) -> f64 {
    let path = scenario.storage[job.storage].reads();
    if !matches!(path.sharing, Sharing::InOrder { .. }) {
        return jobs;
    }
    // Each reader always has one request in the queue, so that a job's share is that of its readers' requests among all bytes in the queue.
    let asked = |job: &Job| readers(path, job) * scenario.datasets[job.dataset].mean_request();
    let beside =
        scenario.jobs.iter().filter(|other| other.storage == job.storage && other.reads_data());
    let all: f64 = beside.map(|other| f64::from(other.copies) * asked(other)).sum();
    if all > 0.0 { all / asked(job) } else { jobs }
}

/// Returns the number of requests that a job copy has under way at once.
fn readers(path: &RequestPath, job: &Job) -> f64 {
    let readers = job.loader.stages.first().map_or(0.0, |stage| f64::from(stage.workers));
    let slots = path.queues.map_or(f64::INFINITY, |of| f64::from(of.depth) * f64::from(of.number));
    (readers * f64::from(job.loaders_per_node())).min(slots)
}

/// Returns the throughput at which storage serves a job copy that gets one part in `share` of its bandwidth [samples/s].
fn fetch(path: &RequestPath, job: &Job, dataset: &Dataset, share: f64) -> f64 {
    let (size, requests) = (dataset.mean_read(), dataset.requests_per_sample());
    let readers = readers(path, job);
    let request = dataset.mean_request();
    if let Some(table) = path.measured() {
        return table.of(request, readers * share) / size / share;
    }
    let alone =
        dataset.latencies_per_sample() * path.latency.mean() + size / path.most_of_one(request);
    let targets = path.targets.map_or(f64::INFINITY, |of| of.bandwidth * f64::from(of.number));
    let queues = path.queues.map_or(f64::INFINITY, |of| of.bandwidth * f64::from(of.number));
    let limited = path.limit.map_or(f64::INFINITY, |limit| limit.rate);
    let together = path.bandwidth.most().min(targets).min(queues).min(path.per_client) / size;
    let together = together.min(path.operations.min(limited) / requests);
    // A disk head seeks for each request, and other storages spend time on each of those that they serve at once.
    let at_once = path.in_flight(f64::INFINITY).map_or(1.0, |number| f64::from(number.max(1)));
    let before = path.seek().unwrap_or(0.0) + path.overhead / at_once;
    let together = 1.0 / (requests * before + 1.0 / together);
    (readers / alone).min(together / share)
}

/// Returns the throughput at which cores prepare samples for one of `share` job copies [samples/s].
fn prepare(scenario: &Scenario, job: &Job, dataset: &Dataset, share: f64) -> f64 {
    let batch = job.batch as f64;
    let cost = |operation: &Operation| operation.mean_core_seconds(dataset);
    let (mut slowest, mut total) = (f64::INFINITY, 0.0);
    for stage in &job.loader.stages {
        let items: f64 = stage.per_item.iter().map(cost).sum();
        let in_item = if stage.unit == crate::scenario::Unit::Batch { batch } else { 1.0 };
        let each = stage.per_sample.iter().map(cost).sum::<f64>() + items / in_item;
        let workers = f64::from(stage.workers) * f64::from(job.loaders_per_node());
        // A stage without work is no limit, and must be skipped: an empty sum is −0, which would give the rate −∞.
        if each > 0.0 {
            slowest = slowest.min(workers / each);
        }
        total += each;
    }
    slowest.min(scenario.cluster.node.usable_cores / share / total)
}

/// Returns the throughput at which one job copy can train [samples/s].
fn compute(scenario: &Scenario, job: &Job) -> f64 {
    let batch = job.batch as f64;
    let speed = match job.device {
        Device::Accelerator => scenario.cluster.node.gpu_speed,
        Device::Cpu { .. } => 1.0,
    };
    let models = f64::from(job.ranks());
    models * batch * speed / job.step.seconds(batch)
}
