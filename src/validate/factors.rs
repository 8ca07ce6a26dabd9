//! Changes of what a scenario and a profile say, to be fitted to measured rows of training jobs.

use crate::law::DecodeLaw;
use crate::scenario::storage::Bandwidth;
use crate::scenario::{Distribution, Job, Node, Operation, ReadCpu, RequestPath, Scenario};
use serde::Serialize;

/// Changes of what scenario and profile say; the same for all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Factors {
    /// Factor on the step time.
    pub step: f64,
    /// Factor on the time that a loader's worker needs for a sample: latency and transfer of a request that is alone, decoding,
    /// delays, handing over. Resources that workers share (bandwidth, operations, cores) are unchanged.
    pub sample: f64,
    /// Time that a trainer needs for each batch besides its step [s].
    pub batch: f64,
    /// Share of each node's cores that the jobs' threads get.
    pub cores: f64,
    /// Slowdown of a node's computing threads by each other: with n of them, each takes 1 + crowd × n (n − 1) times as long (the
    /// coherency of the universal scalability law, N. J. Gunther, 1993).
    pub crowd: f64,
    /// Most that each storage gives all readers together [B/s].
    pub server: f64,
    /// Share of their work during which the workers of a loader hold a lock that they have in common.
    pub lock: f64,
}

impl Default for Factors {
    fn default() -> Factors {
        Factors {
            step: 1.0,
            sample: 1.0,
            batch: 0.0,
            cores: 1.0,
            crowd: 0.0,
            server: f64::INFINITY,
            lock: 0.0,
        }
    }
}

impl Factors {
    /// Returns these changes where the trainer also needs `seconds` for each batch besides its step.
    #[must_use]
    pub fn with_batch(self, seconds: f64) -> Factors {
        Factors { batch: self.batch + seconds, ..self }
    }

    /// Returns the scenario with these changes.
    #[must_use]
    pub fn applied(self, mut scenario: Scenario) -> Scenario {
        if self == Factors::default() {
            return scenario;
        }
        scenario.jobs.iter_mut().for_each(|job| self.change_job(job));
        let storages = scenario.storage.iter_mut();
        for path in storages.flat_map(|of| [&mut of.path].into_iter().chain(&mut of.warm)) {
            self.change_bandwidth(&mut path.bandwidth);
            let RequestPath { per_stream, latency, cpu, .. } = path;
            *per_stream /= self.sample;
            *latency = latency.scaled(self.sample);
            *cpu = ReadCpu { fixed: cpu.fixed * self.sample, per_byte: cpu.per_byte * self.sample };
        }
        let threads = threads(&scenario.jobs);
        let cluster = &mut scenario.cluster;
        let groups = cluster.groups.iter_mut().map(|group| &mut group.node);
        for node in [&mut cluster.node].into_iter().chain(groups) {
            self.change_cores(node);
            self.crowd(node, threads);
        }
        scenario
    }

    fn change_bandwidth(self, bandwidth: &mut Bandwidth) {
        let limited = |rate: &f64| rate.min(self.server);
        *bandwidth = match &*bandwidth {
            Bandwidth::Fixed(rate) => Bandwidth::Fixed(limited(rate)),
            Bandwidth::ByTransfers(table) => {
                Bandwidth::ByTransfers(table.iter().map(limited).collect())
            }
        };
    }

    /// Leaves the job's threads a share of the cores, together; each thread still runs on a whole core.
    fn change_cores(self, node: &mut Node) {
        if self.cores < 1.0 {
            node.usable_cores *= self.cores;
            node.cores = node.cores.min(node.usable_cores.ceil() as u32).max(1);
        }
    }

    /// Slows each of a node's cores by the number of threads, up to `threads`, that compute.
    fn crowd(self, node: &mut Node, threads: u32) {
        if self.crowd > 0.0 {
            let last = node.core_speed.last().copied().unwrap_or(1.0);
            let speed = |number: u32| {
                let known = node.core_speed.get(number as usize - 1).copied().unwrap_or(last);
                known / (1.0 + self.crowd * f64::from(number) * f64::from(number - 1))
            };
            node.core_speed = (1..=threads).map(speed).collect();
        }
    }

    fn change_job(self, job: &mut Job) {
        let step = &mut job.step;
        step.fixed *= self.step;
        step.per_sample *= self.step;
        step.floor *= self.step;
        step.fixed += self.batch;
        job.hand_off *= self.sample;
        for stage in &mut job.loader.stages {
            stage.lock = stage.lock.max(self.lock);
            stage.per_sample.iter_mut().chain(&mut stage.per_item).for_each(|work| {
                *work = self.changed(work);
            });
        }
    }

    fn changed(self, work: &Operation) -> Operation {
        let longer = |of: &Distribution| of.scaled(self.sample);
        match work {
            Operation::Compute(time) => Operation::Compute(longer(time)),
            Operation::Delay(time) => Operation::Delay(longer(time)),
            Operation::Decode(DecodeLaw { fixed, per_byte, per_pixel }) => {
                Operation::Decode(DecodeLaw {
                    fixed: fixed * self.sample,
                    per_byte: per_byte * self.sample,
                    per_pixel: per_pixel * self.sample,
                })
            }
            Operation::Memcpy(per_byte) => Operation::Memcpy(per_byte * self.sample),
            Operation::Kernel(kernel) => Operation::Kernel(crate::scenario::Kernel {
                per_sample: kernel.per_sample * self.sample,
                ..*kernel
            }),
            Operation::Read | Operation::Copy | Operation::CopyStored => work.clone(),
        }
    }
}

/// Returns the largest number of threads that the jobs' loaders and trainers have on a node.
fn threads(jobs: &[Job]) -> u32 {
    /// Largest number of threads for which speeds are tabulated; more threads are as slow as so many.
    const MOST: u32 = 1024;
    let of = |job: &Job| {
        let workers = job.loader.stages.iter().map(|stage| stage.workers);
        let loaders = job.loaders_per_node().max(job.copies_per_node);
        workers.fold(1, u32::saturating_add).saturating_mul(loaders)
    };
    jobs.iter().map(of).fold(0, u32::saturating_add).min(MOST)
}
