//! A loader: what it reads, how far it is, and who waits for its batches.

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

/// A loader of a job copy, its node's or one of its ranks'. What every sample needs comes first, in a few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct LoaderRun {
    pub(super) job: JobId,
    /// Which loader of the job copy, of how many.
    pub(super) rank: u32,
    pub(super) nodes: u32,
    /// Whether anything keeps what is read: a page cache, a tier, or samples as decoding leaves them.
    pub(super) keeps: bool,
    /// What reading a sample begins with where each is a file of its own that one request brings from the
    /// storage, past nothing that keeps, divides or delays it in a way of its own.
    pub(super) plain: Option<First>,
    /// Whether workers may have to rest though there is input: how many work is tuned, or they sleep.
    pub(super) rests: bool,
    /// Whether it is known which samples it hands out: there is a lineage.
    pub(super) followed: bool,
    /// Samples that the reading may take in all.
    pub(super) quota: u64,
    pub(super) started: u64,
    pub(super) in_progress: u64,
    /// What it was asked for, if it makes batches on request.
    pub(super) requests: Option<Box<Requests>>,
    pub(super) mount: Mount,
    pub(super) source: Source,
    /// Devices that starve, in order of arrival.
    pub(super) waiters: VecDeque<Waiter>,
    /// The node's page cache, if the loader reads through one.
    pub(super) cached: Option<Box<CacheUse>>,
    pub(super) queue: Queue,
    /// How much longer than on the cluster's first nodes steps take on its accelerators.
    pub(super) slowness: f64,
    /// Tiers that its reads pass, if any.
    pub(super) tiers: Option<Box<Tiers>>,
    /// Decoded samples that its node keeps, if it does.
    pub(super) decoded: Option<Box<Decoded>>,
    /// Who sleeps, where nobody is woken.
    pub(super) polling: Option<Box<Polling>>,
    /// How many of its workers work at once, if that is tuned.
    pub(super) tuner: Option<Box<Tuner>>,
    /// RankRoute between the node's GPUs, where it is limited.
    pub(super) intra: Option<GroupId>,
    /// RankRoute to each GPU, where it is limited.
    pub(super) pcie: Vec<GroupId>,
    /// The GPU of each model copy, where the loader uses it too.
    pub(super) gpus: Vec<Gpu>,
    /// How much longer than on the cluster's first nodes its own kernels take there.
    pub(super) kernel_slowness: f64,
    /// Share of their speed that faults leave these kernels.
    pub(super) kernel_pace: f64,
    pub(super) decoded_size: Option<f64>,
    /// Its stages and workers, as ranges of the world's.
    pub(super) stages: Ids<StageRun>,
    pub(super) workers: Ids<Worker>,
    /// First worker of each stage.
    pub(super) first_worker: Vec<WorkerId>,
    pub(super) level_track: Option<u32>,
    /// Bytes of a batch that its trainers copy to their devices themselves, if they do.
    pub(super) load: Option<f64>,
    /// How its trainers get the node's cores.
    pub(super) trainer: Cores,
    /// Which samples it has handed out, where its job may fail.
    pub(super) lineage: Option<Box<Lineage>>,
    /// Whether its workers, no more than the samples of a full batch, are told of each wait that begins.
    pub(super) tells: bool,
}

const _: () =
    assert!(std::mem::offset_of!(LoaderRun, queue) % 64 == 32, "its second half begins a line");

impl LoaderRun {
    /// The workers of stage `s`.
    pub(super) fn workers_of(&self, s: StageId) -> Ids<Worker> {
        let index = (s - self.stages.start) as usize;
        let end = self.first_worker.get(index + 1).copied().unwrap_or(self.workers.end);
        Ids::new(self.first_worker[index], end)
    }
}
