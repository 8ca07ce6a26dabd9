//! A loader: what it reads, its progress, and the devices that wait for its batches.

use std::collections::VecDeque;

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_metrics::{FirstBatches, Polling, Queue, Rebuilds, Requests, Tuner};

use forebay_scenario::ENDLESS;

use super::lineage::Lineage;
use crate::device::Gpu;
use crate::ids::{DeviceId, GpuId, IdVec, Ids, JobId, RangeVec, StageId, WorkerId};
use crate::storage::{CacheUse, Decoded, First, Mount, Source, Tiers};

/// A device that waits for a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) device: DeviceId,
    pub(super) since: Time,
}

/// Devices that wait for a batch, in order of arrival.
#[derive(Debug)]
pub(crate) struct Waiters {
    all: VecDeque<Waiter>,
    /// Whether the workers' timelines drop old entries when a device begins to wait; only if there are no more workers than
    /// samples in a full batch.
    pub(crate) tells: bool,
}

impl Waiters {
    /// Returns the waiters of a loader for which no device waits.
    pub(crate) fn new(tells: bool) -> Waiters {
        Waiters { all: VecDeque::new(), tells }
    }

    /// Returns the number of devices that wait.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether no device waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the device at `place` in the order of arrival.
    pub(super) fn get(&self, place: usize) -> Option<&Waiter> {
        self.all.get(place)
    }

    /// Adds a device that begins to wait.
    pub(super) fn add(&mut self, waiter: Waiter) {
        self.all.push_back(waiter);
    }

    /// Removes the device that has waited longest and returns it.
    pub(super) fn next(&mut self) -> Option<Waiter> {
        self.all.pop_front()
    }

    /// Removes device `d`; returns whether it waited.
    pub(crate) fn remove(&mut self, d: DeviceId) -> bool {
        let place = self.all.iter().position(|waiter| waiter.device == d);
        place.is_some_and(|place| self.all.remove(place).is_some())
    }

    /// Removes all devices.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }
}

/// A loader's place in its job: the job copy, and the loader's number among all loaders of that copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoaderPlace {
    pub(crate) job: JobId,
    pub(crate) rank: u32,
    /// How many loaders the job copy has.
    pub(crate) loaders: u32,
}

impl LoaderPlace {
    /// Returns the number of the job copy, as a part of random-number keys.
    #[inline]
    pub(crate) fn owner(self) -> u64 {
        u64::from(self.job.number())
    }

    /// Returns the position in the job's reading order of the sample at position `place` of the loader's own order.
    #[inline]
    pub(super) fn in_job(self, place: u64) -> u64 {
        place * u64::from(self.loaders) + u64::from(self.rank)
    }
}

/// Which features a loader uses, so that work on samples can skip the others without a look at their state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Features {
    /// Whether data that the loader reads are kept anywhere: in a page cache, a tier, or a cache of decoded samples.
    pub(crate) keeps: bool,
    /// First step of each read, if the loader's reads are plain. A read is plain if each sample is a file of its own, and a
    /// single request fetches it straight from the storage, without caches, tiers, ranges, a limiter or other special services.
    pub(crate) plain: Option<First>,
    /// Whether workers may have to rest although there is input.
    pub(crate) rests: bool,
    /// Whether `lineage` tracks the loader's samples one by one.
    pub(crate) followed: bool,
}

/// How many samples a loader has read and may still read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoaderProgress {
    /// Number of samples that the first stage may read in the whole run.
    pub(crate) quota: u64,
    pub(crate) started: u64,
    /// Number of samples that have been started and have not reached the queue.
    pub(crate) in_progress: u64,
}

impl LoaderProgress {
    /// Returns the progress of a loader that may read `quota` samples and has read none.
    pub(crate) fn new(quota: u64) -> LoaderProgress {
        LoaderProgress { quota, started: 0, in_progress: 0 }
    }

    /// Returns the number of samples that may still be started.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        self.quota - self.started
    }

    /// Counts that a worker starts `samples` samples; returns the number of samples started before.
    #[inline]
    pub(super) fn start(&mut self, samples: u64) -> u64 {
        let first = self.started;
        self.started += samples;
        self.in_progress += samples;
        first
    }

    /// Lets the loader start no more samples.
    pub(crate) fn stop(&mut self) {
        self.quota = self.started;
    }
}

/// The caches in which a loader looks for data before it reads from the storage.
#[derive(Debug)]
pub(crate) struct Caches {
    /// The node's page cache, if the loader reads through one.
    pub(crate) page_cache: Option<Box<CacheUse>>,
    /// Tiers in which reads look for data before they go to the storage, if there are any.
    pub(crate) tiers: Option<Box<Tiers>>,
    /// The node's cache of decoded samples, if there is one.
    pub(crate) decoded: Option<Box<Decoded>>,
}

impl Caches {
    /// Returns whether the loader has any of these caches.
    pub(crate) fn exist(&self) -> bool {
        self.page_cache.is_some() || self.tiers.is_some() || self.decoded.is_some()
    }
}

/// Sizes of what a loader makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of a decoded sample, if the data set gives them [B].
    pub(crate) decoded: Option<f64>,
    /// Bytes of a batch, if trainers copy their batches to their devices themselves [B].
    pub(crate) copied: Option<f64>,
}

/// What makes workers and devices rest although there is something to do.
#[derive(Debug)]
pub(crate) struct Pacing {
    /// Devices that sleep between polls, if devices and workers poll instead of being woken.
    pub(crate) polling: Option<Box<Polling>>,
    /// Tuner of the number of workers that work at the same time, if that number is tuned.
    pub(crate) tuner: Option<Box<Tuner>>,
    /// Epochs of the pipeline, if each epoch builds it anew.
    pub(crate) rebuilds: Option<Box<Rebuilds>>,
}

impl Pacing {
    /// Returns whether workers may have to rest: because the number of active workers is tuned, because workers poll the queue, or
    /// because the pipeline is built anew.
    pub(crate) fn rests(&self) -> bool {
        self.polling.is_some() || self.tuner.is_some() || self.rebuilds.is_some()
    }
}

/// The GPUs that a loader feeds: their speed, and the routes to and between them.
#[derive(Debug)]
pub(crate) struct LoaderGpus {
    /// Factor by which steps take longer on these GPUs than on the cluster's first nodes.
    pub(crate) slowness: f64,
    /// Route between the node's GPUs, if its bandwidth is limited.
    pub(crate) intra: Option<GroupId>,
    /// Route to the GPU of each model copy; empty if its bandwidth is not limited.
    pub(crate) pcie: IdVec<GpuId, GroupId>,
    /// The GPU of each stage of each model copy, in this order, if GPUs are simulated as shared; `stages` is the number of
    /// stages. Where several GPUs work on a stage, they are one entry.
    pub(crate) shared: IdVec<GpuId, Gpu>,
    pub(crate) stages: u32,
    /// Factor by which the loader's own kernels take longer on these GPUs than on the GPUs of the cluster's first nodes.
    pub(crate) kernel_slowness: f64,
}

impl LoaderGpus {
    /// Returns the route to the GPU of item or model copy number `number`, which take turns; `None` if bytes to GPUs take no
    /// time.
    pub(crate) fn route(&self, number: u64) -> Option<GroupId> {
        self.pcie.in_turn(number).map(|gpu| self.pcie[gpu])
    }

    /// Returns the GPU of stage number `stage` of item or model copy number `number`, which take turns; `None` if GPUs are not
    /// simulated as shared.
    pub(crate) fn shared(&mut self, number: u64, stage: u32) -> Option<&mut Gpu> {
        let copies = self.shared.len() as u64 / u64::from(self.stages);
        let copy = number.checked_rem(copies)? as u32;
        self.shared.get_mut(GpuId::new(copy * self.stages + stage))
    }

    /// Returns the time of a kernel of the loader on `samples` samples that takes `per_sample` for each of them on the
    /// cluster's first nodes, without faults [s].
    pub(super) fn kernel_seconds(&self, per_sample: f64, samples: u32) -> f64 {
        per_sample * self.kernel_slowness * f64::from(samples)
    }
}

/// The stages of a loader and the workers of all its stages: ranges of ids in the tables of `Loaders`.
#[derive(Debug)]
pub(crate) struct LoaderStages {
    pub(crate) all: Ids<StageId>,
    pub(crate) workers: Ids<WorkerId>,
    /// First worker of each stage.
    pub(crate) first_worker: RangeVec<StageId, WorkerId>,
}

impl LoaderStages {
    /// Returns the stage that reads.
    pub(crate) fn first(&self) -> StageId {
        self.all.start
    }

    /// Returns the stage that fills the queue.
    pub(crate) fn last(&self) -> StageId {
        self.all.end - 1
    }

    /// Returns the workers of stage `s`.
    pub(crate) fn workers_of(&self, s: StageId) -> Ids<WorkerId> {
        let next = s + 1;
        let end = if next < self.all.end { self.first_worker[next] } else { self.workers.end };
        Ids::new(self.first_worker[s], end)
    }
}

/// A loader of a job copy, for one node or for one rank. The fields needed for every sample come first, in a few cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct LoaderRun {
    pub(crate) place: LoaderPlace,
    pub(crate) features: Features,
    pub(crate) progress: LoaderProgress,
    /// Requested batches, if the loader makes batches on request.
    pub(crate) requests: Option<Box<Requests>>,
    pub(crate) mount: Mount,
    pub(crate) source: Source,
    pub(crate) waiters: Waiters,
    pub(crate) queue: Queue,
    pub(crate) caches: Caches,
    pub(crate) pacing: Pacing,
    pub(crate) gpus: LoaderGpus,
    pub(crate) sizes: Sizes,
    pub(crate) stages: LoaderStages,
    /// The first batch of each epoch.
    pub(crate) first_batches: Box<FirstBatches>,
    /// Record of the samples that the loader has handed out, if its job may fail.
    pub(crate) lineage: Option<Box<Lineage>>,
}

impl LoaderRun {
    /// Returns the number of samples that have been started, including those of steps that were not simulated.
    pub(super) fn started(&self) -> u64 {
        // As many as were put into the queue.
        self.progress.started + self.queue.left_out_samples()
    }

    /// Leaves out `samples` samples, which the loader would have started in repeated steps.
    pub(super) fn leave_out(&mut self, samples: u64) {
        self.queue.shorten(samples);
        if self.progress.quota != ENDLESS {
            self.progress.quota -= samples;
        }
    }
}

const _: () =
    assert!(std::mem::offset_of!(LoaderRun, queue) % 64 == 32, "its second half begins a line");
