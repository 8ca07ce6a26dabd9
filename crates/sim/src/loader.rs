//! A loader: what it reads, its progress, and the devices that wait for its batches.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_metrics::{Polling, Queue, Requests, Tuner};

use super::cached::CacheUse;
use super::decoded::Decoded;
use super::gpus::Gpu;
use super::index::{DeviceId, Ids, JobId, StageId, WorkerId};
use super::lineage::Lineage;
use super::read::{First, Mount, Source};
use super::stages::StageRun;
use super::tiers::Tiers;
use super::worker::{Cores, Worker};

/// A device that waits for a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) device: DeviceId,
    pub(super) since: Time,
}

/// A loader of a job copy, for one node or for one rank. The fields needed for every sample come first, in a few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct LoaderRun {
    pub(super) job: JobId,
    /// Number of this loader within the job copy; `nodes` is the number of the job copy's loaders.
    pub(super) rank: u32,
    pub(super) nodes: u32,
    /// Whether data that the loader reads are kept anywhere: in a page cache, a tier, or a cache of decoded samples.
    pub(super) keeps: bool,
    /// First step of each read, if the loader's reads are plain. A read is plain if each sample is a file of its own, and a
    /// single request fetches it straight from the storage, without caches, tiers, ranges, a limiter or other special services.
    pub(super) plain: Option<First>,
    /// Whether workers may have to rest although there is input: because the number of active workers is tuned, or because
    /// workers poll the queue.
    pub(super) rests: bool,
    /// Whether `lineage` tracks the loader's samples one by one.
    pub(super) followed: bool,
    /// Number of samples that the first stage may read in the whole run.
    pub(super) quota: u64,
    pub(super) started: u64,
    pub(super) in_progress: u64,
    /// Requested batches, if the loader makes batches on request.
    pub(super) requests: Option<Box<Requests>>,
    pub(super) mount: Mount,
    pub(super) source: Source,
    /// Devices that wait for a batch, in order of arrival.
    pub(super) waiters: VecDeque<Waiter>,
    /// The node's page cache, if the loader reads through one.
    pub(super) cached: Option<Box<CacheUse>>,
    pub(super) queue: Queue,
    /// Factor by which steps take longer on this loader's accelerators than on the cluster's first nodes.
    pub(super) slowness: f64,
    /// Tiers in which reads look for data before they go to the storage, if there are any.
    pub(super) tiers: Option<Box<Tiers>>,
    /// The node's cache of decoded samples, if there is one.
    pub(super) decoded: Option<Box<Decoded>>,
    /// Devices that sleep between polls, if devices and workers poll instead of being woken.
    pub(super) polling: Option<Box<Polling>>,
    /// Tuner of the number of workers that work at the same time, if that number is tuned.
    pub(super) tuner: Option<Box<Tuner>>,
    /// Route between the node's GPUs, if its bandwidth is limited.
    pub(super) intra: Option<GroupId>,
    /// Route to the GPU of each model copy; empty if its bandwidth is not limited.
    pub(super) pcie: Vec<GroupId>,
    /// The GPU of each model copy, if GPUs are simulated as shared.
    pub(super) gpus: Vec<Gpu>,
    /// Factor by which the loader's own kernels take longer on this loader's GPUs than on the GPUs of the cluster's first nodes.
    pub(super) kernel_slowness: f64,
    /// Speed of the loader's GPU kernels relative to their speed without faults.
    pub(super) kernel_pace: f64,
    pub(super) decoded_size: Option<f64>,
    /// The loader's stages, as a range of the world's table; `workers` is the range of its workers.
    pub(super) stages: Ids<StageRun>,
    pub(super) workers: Ids<Worker>,
    /// First worker of each stage.
    pub(super) first_worker: Vec<WorkerId>,
    pub(super) level_track: Option<u32>,
    /// Bytes of a batch, if trainers copy their batches to their devices themselves [B].
    pub(super) load: Option<f64>,
    /// How the trainers that the loader feeds get the node's cores.
    pub(super) trainer: Cores,
    /// Record of the samples that the loader has handed out, if its job may fail.
    pub(super) lineage: Option<Box<Lineage>>,
    /// Whether the workers' timelines drop old entries when a device begins to wait; only if there are no more workers than
    /// samples in a full batch.
    pub(super) tells: bool,
}

const _: () =
    assert!(std::mem::offset_of!(LoaderRun, queue) % 64 == 32, "its second half begins a line");

impl LoaderRun {
    /// Returns the workers of stage `s`.
    pub(super) fn workers_of(&self, s: StageId) -> Ids<Worker> {
        let index = (s - self.stages.start) as usize;
        let end = self.first_worker.get(index + 1).copied().unwrap_or(self.workers.end);
        Ids::new(self.first_worker[index], end)
    }
}
