//! A loader of a job copy: its storage, its stages with their workers, its queue.

use forebay_engine::fluid::Use;
use forebay_metrics::{FirstBatches, Polling, Queue, Rebuilds, Requests, StageBuffer, Tuner};
use forebay_model::random::{FileOrder, Purpose, Sampler};
use forebay_scenario::{Dataset, Distribution, InnerThreads, Job, Layout, Operation, Split, Stage};

use super::Builder;
use super::cores::OnCores;
use super::job::JobCopy;
use super::mount::{Client, Rest, StorageModel, whole};
use crate::env::Cores;
use crate::ids::{LoaderId, RangeVec, StageId};
use crate::loader::{
    Caches, Draw, Features, Lineage, LoaderGpus, LoaderPlace, LoaderProgress, LoaderRun,
    LoaderStages, Pacing, Sizes, StageRun, Team, Waiters, Work, Worker,
};
use crate::storage::{Mount, Routes, ShardCursor, Source, StorageClient};

/// Returns whether each sample is a file of its own that one request fetches as a whole.
fn is_plain(dataset: &Dataset) -> bool {
    matches!(dataset.layout, Layout::FilePerSample) && dataset.ranges.is_none()
}

impl Builder<'_> {
    /// Adds loader number `rank` of a job copy, on the copy's node number `node`; its tracks belong to `process`. Returns how
    /// its threads get the node's cores.
    pub(in crate::run) fn loader(
        &mut self,
        copy: &JobCopy,
        rank: u32,
        node: u32,
        process: Option<u32>,
    ) -> OnCores {
        let job = copy.job;
        let dataset = &self.scenario.datasets[job.dataset];
        let (mount, cores) = self.mount_and_cores(copy);
        let tiers = self.tiers(job, node, &cores);
        let stages = self.stages(copy, &cores, process);
        let order = match job.parts().filter(|_| job.split == Split::Local) {
            Some(of) => FileOrder::local(dataset.visits(), of, rank, job.loaders()),
            None => FileOrder::new(dataset.visits(), job.split, rank, job.loaders()),
        };
        let (page_cache, decoded) = (self.cached(job), self.decoded(copy));
        let caches = Caches { page_cache, tiers, decoded };
        let pacing = Pacing {
            polling: Polling::for_job(job).map(Box::new),
            tuner: Tuner::for_job(job).map(Box::new),
            rebuilds: Rebuilds::for_job(job, dataset).map(Box::new),
        };
        let keeps = caches.exist();
        let loader = LoaderRun {
            place: LoaderPlace { job: copy.number, rank, loaders: job.loaders() },
            features: Features {
                keeps,
                plain: mount.plain().filter(|_| !keeps && is_plain(dataset)),
                rests: pacing.rests(),
                followed: job.failures.is_some(),
            },
            progress: LoaderProgress::new(copy.goal.quota),
            requests: self.requests(copy, rank),
            mount,
            source: Source::new(dataset, job.dataset, order),
            waiters: Waiters::new(stages.workers.len() as u64 <= job.batch),
            queue: queue(copy),
            caches,
            pacing,
            gpus: self.gpus_of_loader(job, rank, node),
            sizes: Sizes { decoded: dataset.decoded_size, copied: copied(job, dataset) },
            stages,
            first_batches: Box::new(FirstBatches::for_job(job, dataset, rank)),
            lineage: job.failures.is_some().then(|| {
                let recorded = self.env.recorder.is_some();
                Box::new(Lineage::new(job, dataset.layout, recorded))
            }),
        };
        self.parts.loaders.loaders.push(loader);
        self.parts.loaders.storages.clients.push(StorageClient { job: copy.number, node });
        let track = self.track(process, || "queue".to_owned());
        self.parts.loaders.level_tracks.push(track);
        cores
    }

    /// Returns the GPUs that loader number `rank` of a job copy feeds, on the copy's node number `node`.
    fn gpus_of_loader(&mut self, job: &Job, rank: u32, node: u32) -> LoaderGpus {
        LoaderGpus {
            pcie: self.pcie(job, rank, node),
            shared: self.gpus(job),
            stages: job.shares().len() as u32,
            slowness: self.slowness(job, self.node),
            // A peak for the steps' precision says nothing about kernels that decode.
            kernel_slowness: self.scenario.cluster.slowness(self.here(), None),
            intra: self.intra(job),
        }
    }

    /// Returns the batch requests of loader number `rank`, if it makes batches on request; their history is recorded for the
    /// first loader if there is a timeline.
    fn requests(&self, copy: &JobCopy, rank: u32) -> Option<Box<Requests>> {
        let dataset = &self.scenario.datasets[copy.job.dataset];
        let mut requests = Requests::for_job(copy.job, dataset, copy.goal.quota)?;
        if rank == 0 && self.env.recorder.is_some() {
            requests.record();
        }
        if copy.job.failures.is_some() && copy.job.checkpoint.is_some() {
            requests.follow();
        }
        Some(Box::new(requests))
    }

    /// Returns the mount of a job's storage on the node being built, and the node's cores.
    fn mount_and_cores(&mut self, copy: &JobCopy) -> (Mount, OnCores) {
        let job = copy.job;
        let request = self.data.requests[job.dataset];
        let (mount, route, rest) = self.mount(job.reads_from(), Client::Node(request), None);
        let mut mount = mount.after(self.files_before(job.dataset));
        if let Some(Routes::Queues(queues)) = mount.routes.as_deref_mut() {
            queues.first =
                self.readers_before(job.loader.stages.first().map_or(0, |stage| stage.workers));
        }
        let on = self.scenario.storage[job.reads_from()].cache.map(|cache| cache.on);
        let tier =
            on.map(|on| StorageModel::new(&self.scenario.storage[on].path).take_cpu(request));
        let coupled = rest.coupled.or(tier.and_then(|tier| tier.coupled));
        let cores = self.on_cores(copy, coupled.is_some());
        (self.couple(mount, route, rest, &cores), cores)
    }

    /// Returns the number of files in the data sets listed before data set `dataset`; these files are created first.
    pub(in crate::run) fn files_before(&self, dataset: usize) -> u64 {
        self.scenario.datasets[..dataset].iter().map(Dataset::files).fold(0, u64::saturating_add)
    }

    /// Returns the mount of storage `index` on the node being built, for threads on `cores`. If `beyond` is set, the bytes also
    /// use this link, after the storage's own route.
    pub(in crate::run) fn loader_mount(
        &mut self,
        index: usize,
        request: f64,
        beyond: Option<Use>,
        cores: &OnCores,
    ) -> Mount {
        let (mount, route, rest) = self.mount(index, Client::Node(request), beyond);
        self.couple(mount, route, rest, cores)
    }

    /// Returns `mount` with routes that also use a core, if the transfer of bytes over `route` keeps a core busy.
    fn couple(&mut self, mount: Mount, route: Vec<Use>, rest: Rest, cores: &OnCores) -> Mount {
        let Some(coupled) = rest.coupled else { return mount };
        let Some(group) = cores.coupled(self, route.clone(), coupled) else { return mount };
        let mut routes = mount.routes;
        if let Some(Routes::Queues(queues)) = routes.as_deref_mut() {
            for (way, link) in queues.routes.iter_mut().zip(&queues.links) {
                let route = route.iter().copied().chain(link.map(whole)).collect();
                *way = cores.coupled(self, route, coupled);
            }
        }
        Mount {
            group: Some(group),
            routes,
            // A thread that has no core for its bytes does not keep others from the storage.
            service: mount.service.without_turns(),
            // If the route is much slower than a core, the time in excess of an undisturbed transfer is waiting for the route.
            alone: if coupled.cpu > coupled.alone / 2.0 { coupled.alone } else { 0.0 },
            ..mount
        }
    }

    /// Adds the stages and workers of the next loader.
    fn stages(&mut self, copy: &JobCopy, cores: &OnCores, process: Option<u32>) -> LoaderStages {
        let job = copy.job;
        let l = self.parts.loaders.loaders.next_id();
        let (first, first_worker) =
            (self.parts.loaders.stages.next_id(), self.parts.loaders.workers.next_id());
        let mut first_workers = Vec::new();
        for (index, stage) in job.loader.stages.iter().enumerate() {
            first_workers.push(self.parts.loaders.workers.next_id());
            let s = first + index as u32;
            let cores = cores.of_stage(self, job, stage);
            let (_, quota) = self.quota_of(copy);
            let run = StageRun { quota, ..self.stage(copy, index, l, first, cores) };
            self.parts.loaders.stages.push(run);
            for i in 0..stage.workers {
                let track = self.track(process, || format!("{} {i}", stage.name));
                self.parts.loaders.tracks.extend(track);
                self.parts.loaders.shards.push(ShardCursor::default());
                self.parts.loaders.workers.push(Worker {
                    stage: s,
                    loader: l,
                    ..Worker::default()
                });
            }
        }
        LoaderStages {
            all: self.parts.loaders.stages.ids_from(first),
            workers: self.parts.loaders.workers.ids_from(first_worker),
            first_worker: RangeVec::new(first, first_workers),
        }
    }

    fn stage(
        &self,
        copy: &JobCopy,
        index: usize,
        l: LoaderId,
        first: StageId,
        cores: Cores,
    ) -> StageRun {
        let job = copy.job;
        let stages = &job.loader.stages;
        let stage = &stages[index];
        StageRun {
            loader: l,
            quota: None,
            previous: (index > 0).then(|| first + index as u32 - 1),
            next: (index + 1 < stages.len()).then_some(first + index as u32 + 1),
            first_operation: self.first_operations[index],
            operations: operations_of(stage, job) as u32,
            per_sample: stage.per_sample.len() as u32,
            cores,
            buffer: StageBuffer::new(job, index, copy.goal.quota),
        }
    }
}

/// Returns the bytes of a batch that a trainer of `job` copies to its device itself [B]; `None` if the trainers copy nothing.
fn copied(job: &Job, dataset: &Dataset) -> Option<f64> {
    job.loader.requests.filter(|requests| requests.to_device)?;
    let sample = dataset.decoded_size.unwrap_or_else(|| dataset.mean_size());
    Some(sample * job.batch as f64)
}

/// Returns the queue between the loader's last stage and the devices; its history is recorded if reports show the job copy.
fn queue(copy: &JobCopy) -> Queue {
    let mut queue = Queue::for_job(copy.job, copy.goal.quota, copy.start);
    if let Some(least) = copy.recorded {
        queue.record(copy.start, least);
    }
    queue
}

/// Maximum number of operations in each list of a stage. The random-number key of an operation consists of stage, list and
/// position in the list; this limit keeps the keys of different operations distinct.
const LIST: usize = 128;

impl Builder<'_> {
    /// Adds the operations of the stages of `job`, for all of its copies.
    pub(in crate::run) fn operations(&mut self, job: &Job) {
        let image = self.scenario.datasets[job.dataset].image;
        let pixels = image.map_or(0.0, |image| image.pixels());
        self.first_operations.clear();
        for (index, stage) in job.loader.stages.iter().enumerate() {
            let salt = index * 2 * LIST;
            self.first_operations.push(self.parts.loaders.works.next_id());
            for (list, base) in [(&stage.per_sample, 0), (&stage.per_item, LIST)] {
                for (operation, salt) in list.iter().zip((salt + base) as u64..) {
                    let work = self.work(operation, salt, pixels);
                    // Inner threads work on single samples only.
                    let team = job.cpu.inner.filter(|_| base == 0);
                    self.parts.loaders.works.push(in_team(work, team));
                }
            }
            if job.hand_off > 0.0 {
                let salt = (salt + 2 * LIST - 1) as u64;
                let work = Work::constant(job.hand_off, |seconds| self.recurring(seconds), salt);
                self.parts.loaders.works.push(work);
            }
        }
    }

    fn work(&mut self, operation: &Operation, salt: u64, pixels: f64) -> Work {
        let mut draw = |distribution: &Distribution, purpose| {
            Draw::new(Sampler::new(distribution), |seconds| self.recurring(seconds), purpose, salt)
        };
        match operation {
            Operation::Read => Work::Read,
            Operation::Decode(law) => Work::Decode(*law, pixels),
            Operation::Compute(distribution) => Work::Compute(draw(distribution, Purpose::Compute)),
            Operation::Delay(distribution) => Work::Delay(draw(distribution, Purpose::Delay)),
            Operation::Copy => Work::Copy,
            Operation::CopyStored => Work::CopyStored,
            Operation::Kernel(kernel) => {
                Work::Kernel(kernel.per_sample / self.scenario.cluster.node.gpu_speed)
            }
            Operation::Memcpy(per_byte) => Work::Memcpy(*per_byte),
        }
    }
}

/// Returns the computation as work that the threads of `team` share, if there is a team; work other than computations is
/// returned unchanged.
fn in_team(work: Work, team: Option<InnerThreads>) -> Work {
    match (work, team) {
        (work @ (Work::Compute(_) | Work::Decode(..)), Some(team)) => {
            let InnerThreads { threads, efficiency } = team;
            Work::Team(Box::new(Team { work, threads, speed: f64::from(threads) * efficiency }))
        }
        (work, _) => work,
    }
}

/// Returns the number of operations on an item of the stage, including the hand-over to the next stage.
pub(in crate::run) fn operations_of(stage: &Stage, job: &Job) -> usize {
    stage.per_sample.len() + stage.per_item.len() + usize::from(job.hand_off > 0.0)
}
