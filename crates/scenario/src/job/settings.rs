//! Settings of a `[[job]]` table in scenario files.

mod keys;

use super::accuracy::AccuracySettings;
use super::cpu::InnerSettings;
use super::decoded::DecodedSettings;
use super::failing::FailureSettings;
use super::interval::IntervalSettings;
use super::learners::averaging;
use super::loaders::Loaders;
use super::model::{ModelSettings, ResolvedModel};
use super::parallel::ParallelSettings;
use super::parallel::state::state_bytes;
use super::prefill::Prefill;
use super::recovery::{CheckpointSettings, Of};
use super::rules::Rules;
use super::staging::{Staging, StagingSettings};
use super::workflow::Arrivals;
use super::{
    Checkpoint, Device, Job, OtherSchedules, Parallelism, Pipeline, QueueKind, Split, StepTime,
};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::loader::settings::{LoaderSettings, OnNode, ResolvedLoader};
use crate::number::{Amount, Count, Factor, Positive};
use crate::role::Role;
use crate::run::MOST_STEPS;
use crate::sync::{Framework, Latencies, OfModel, Sync, SyncSettings};
use crate::{Cluster, Dataset, Storage};
use forebay_model::catalogue::Precision;
use forebay_model::device_memory::{Footprint, Spread};
use forebay_model::units::{Bandwidth, Size, Time};
use schemars::JsonSchema;

/// Stands in for a model whose settings are wrong, so that the rest of the job can be checked.
const NO_MODEL: ResolvedModel = ResolvedModel {
    step: StepTime { fixed: 0.0, per_sample: 0.0, floor: 0.0, jitter: None },
    device: Device::Accelerator,
    gpu: None,
    launch: None,
    catalogue: None,
    gradients: Vec::new(),
    measured: false,
    peak: None,
};

/// A training job; `copies` of it run independently, each on nodes of its own unless `cluster.share_nodes` is true.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobSettings {
    /// Name, for reports and for `--set job.NAME.batch=64`.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(crate) name: Field<String>,
    /// Independent copies of this job (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(crate) copies: Field<Count<1, 1_000_000>>,
    /// Nodes of each copy (default: 1).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(crate) nodes: Field<Count<1, 1_000_000>>,
    /// Names of the jobs that must have ended before this job begins (default: none).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) after: Field<List<String>>,
    /// Start time of the first copy; with `after`, the delay after the last job in that list has ended (default: 0 s).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) start: Field<Amount<Time>>,
    /// Time from one copy's start to the next's (default: 0 s).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) stagger: Field<Amount<Time>>,
    /// Whether copies start at "regular" times, or as a "poisson" process, in which `stagger` is the mean time between
    /// starts (default: "regular").
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) arrivals: Field<Arrivals>,
    /// Number of steps after which each copy ends (default: as `[run]` says).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) steps: Field<Count<1, MOST_STEPS>>,
    /// Passes over the data set after which each copy ends; may be a fraction (default: as `[run]` says).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) epochs: Field<Factor>,
    /// Name of the data set.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    dataset: Field<String>,
    /// Name of the storage that the data set is on.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    storage: Field<String>,
    /// How nodes, or ranks with loaders of their own, split the samples of each epoch (default: "strided").
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) sampler: Field<Split>,
    /// Number of nodes that hold each file of the data set, for storage inside the nodes: the other nodes read the file
    /// from these, over both NICs (default: all nodes hold all files).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) replicas: Field<Count<1, 1_000_000>>,
    /// Copy the data set to the nodes first: `{ to = "nvme", streams = 8 }` (default: loaders read it from `storage`).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) copy: Field<StagingSettings>,
    /// Keep samples in memory as they are after decoding: `{ capacity = "100 GB" }` (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) decoded_cache: Field<DecodedSettings>,
    /// Samples per model copy and step; set either this or `global_batch`.
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) batch: Field<Count<1, 1_000_000_000>>,
    /// Samples per step of all model copies of a job copy together; each model copy gets an equal part.
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) global_batch: Field<Count<1, 1_000_000_000>>,
    /// How often a model copy takes a fresh batch: a number of steps, at least 1 and possibly a fraction, or
    /// `{ adaptive = { level = "512 samples", max = 16 } }` (default: 1).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) batch_interval: Field<IntervalSettings>,
    /// What the last buffer does when it is full (default: "bounded").
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) queue: Field<QueueKind>,
    /// Samples in the last buffer at the start: "full" or a number (default: none).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) prefill: Field<Prefill>,
    /// The loader, which reads and prepares samples and fills the queue of the trainer.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) loader: Field<LoaderSettings>,
    /// The model that is trained, with its step time and device.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) model: Field<ModelSettings>,
    /// How the model is copied to GPUs and split over them (default: one copy on each node).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) parallel: Field<ParallelSettings>,
    /// How model copies exchange gradients or parameters after their steps (default: in no time).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) sync: Field<SyncSettings>,
    /// Steps of a model copy whose gradients are accumulated before an update; gradients are exchanged after the last
    /// of these steps (default: 1).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) accumulation: Field<Count<1, 1_000_000>>,
    /// Memory that each worker of the loaders takes. Together with full buffers, it leaves less of the node's memory
    /// for the page cache (default: 0 B).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) worker_memory: Field<Amount<Size>>,
    /// CPU time, in core-seconds, that a loader's worker needs to hand an item on to the next stage or the queue
    /// (default: as the profile says, or 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) hand_off: Field<Amount<Time>>,
    /// Cores that each copy of the job may use on each node, as a control group's quota; may be a fraction (default:
    /// all).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) cpu_quota: Field<Factor>,
    /// Period of `cpu_quota`, as a control group's: threads that have used the core-seconds of a period wait for the next one. With
    /// "0 s" the quota holds at every instant (default: 100 ms).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) cpu_period: Field<Amount<Time>>,
    /// Threads that share a worker's computing for one sample, as OpenMP's or OpenCV's do (default:
    /// none).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) inner_threads: Field<InnerSettings>,
    /// Rate at which a core that works for the loader reads and writes memory (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) memory_traffic: Field<Positive<Bandwidth>>,
    /// Number of epochs that training is assumed to need to reach a target, from which the time to accuracy follows
    /// (default: not set, and no time to accuracy is reported).
    #[schemars(extend("x-role" = Role::Output))]
    pub(super) accuracy: Field<AccuracySettings>,
    /// Checkpoints that the job writes from time to time, and from which it resumes after a failure (default: no
    /// checkpoints).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) checkpoint: Field<CheckpointSettings>,
    /// How the job's nodes fail (default: they do not).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) failures: Field<FailureSettings>,
}

/// Objects that the settings of a job refer to: the cluster, storage, data sets and other jobs; `None` where their
/// settings are wrong.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) cluster: Option<&'a Cluster>,
    /// First node of the first copy of the job that is being checked.
    pub(crate) first_node: u32,
    pub(crate) storage_names: &'a [&'a str],
    pub(crate) storage: &'a [Option<Storage>],
    pub(crate) dataset_names: &'a [&'a str],
    pub(crate) datasets: &'a [Option<Dataset>],
    pub(crate) job_names: &'a [Option<&'a str>],
    /// For each storage, whether its settings ask the profile for measurements.
    pub(crate) measured: &'a [bool],
}

impl JobSettings {
    /// Returns the name of the job's data set if the job reads it from the storage named `storage`.
    pub(crate) fn reads_on(&self, storage: &str) -> Option<&str> {
        let staged = self.copy.get().and_then(|copy| copy.to.get());
        let from = staged.or(self.storage.get())?;
        self.dataset.get().filter(|_| from == storage).map(String::as_str)
    }

    /// Returns the document node of `model`, if it is set.
    pub(super) fn model_at(&self) -> Option<NodeId> {
        self.model.at
    }

    /// Returns the document node of `sync`, if it is set.
    pub(super) fn sync_at(&self) -> Option<NodeId> {
        self.sync.at
    }

    /// Returns the document node of `copy`, if it is set.
    pub(crate) fn copy_at(&self) -> Option<NodeId> {
        self.copy.at
    }

    /// Returns the checked job of the table at document node `at`; `None` if it has no valid batch.
    pub(crate) fn resolve(&self, check: Check<'_>, at: NodeId, around: Around<'_>) -> Option<Job> {
        let job = self.resolve_alone(check, at, around)?;
        let other_schedules = self.other_schedules((check, at), around, &job);
        Some(Job { other_schedules, ..job })
    }

    /// Returns the checked job as [`Self::resolve`] does, without other schedules.
    pub(super) fn resolve_alone(
        &self,
        check: Check<'_>,
        at: NodeId,
        around: Around<'_>,
    ) -> Option<Job> {
        check.required(at, &self.name, "name", "write `name = \"lenet\"`");
        check.required(at, &self.dataset, "dataset", "name a data set");
        check.required(at, &self.storage, "storage", "name the storage that the data set is on");
        check.required(at, &self.loader, "loader", "write `[job.loader.tf-queue]`");
        check.required(at, &self.model, "model", "write `[job.model]` with `step = \"3 ms\"`");
        let batch = self.checked_batch(check, at, around);
        // If the batch is wrong, a batch of 1 stands in for it, so that other errors are reported too.
        let some = batch.unwrap_or(1);
        let dataset = check.reference(&self.dataset, "dataset", around.dataset_names);
        let storage = check.reference(&self.storage, "storage", around.storage_names);
        let of = dataset.and_then(|dataset| around.datasets.get(dataset)?.as_ref());
        let loader = self.loader(check, around, some, of);
        let gpu = around.cluster.and_then(|cluster| cluster.node.gpu);
        let model = self.model.given().and_then(|(at, model)| model.resolve(check, at, gpu, some));
        let rules = Rules { settings: self, check, at, around, loader: loader.as_ref() };
        let measured = model.as_ref().is_some_and(|model| model.measured);
        let model = model.unwrap_or_else(|| {
            // The gradients of a model are known even if its step time is wrong.
            let settings = self.model.get();
            let gradients = settings.map_or_else(Vec::new, |model| model.gradients());
            ResolvedModel { gradients, ..NO_MODEL }
        });
        let pipeline = self.pipeline(check);
        let (on_node, ranks) = (self.copies(around).0, self.ranks(around));
        let parallelism = self.parallelism(check, pipeline.as_ref(), some, (on_node, ranks));
        let spread = parallelism.as_ref().map_or(Spread::NONE, |of| of.spread(ranks));
        let split = (pipeline.as_ref(), parallelism.as_ref());
        let footprints = self.footprints(check, some, &model, (split, spread));
        let state = state_bytes(&footprints, parallelism.as_ref(), ranks);
        let sync = self.sync(check, around, some, &model);
        let memory = self.gpu_memory(around);
        let learners = self.learners(footprints.first().copied(), sync.as_ref(), memory);
        let averages = sync.as_ref().is_some_and(|sync| sync.averaging.is_some());
        let (copies_per_node, copies_each) = self.copies(around);
        // Errors have been reported; with stand-ins for wrong values, the rest of the job can be checked.
        let mut job = Job {
            name: self.name.get().cloned().unwrap_or_default(),
            copies: self.copies.get().map_or(1, |copies| copies.small()),
            nodes: self.nodes.get().map_or(1, |nodes| nodes.small()),
            after: self.predecessors(check, around),
            start: self.start.get().map_or(0.0, |start| start.0),
            stagger: self.stagger.get().map_or(0.0, |stagger| stagger.0),
            arrivals: self.arrivals.get().copied().unwrap_or(Arrivals::Regular),
            stop: self.stop(),
            dataset: dataset.unwrap_or(usize::MAX),
            storage: storage.unwrap_or(usize::MAX),
            split: self.sampler.get().copied().unwrap_or(Split::Strided),
            replicas: self.replicas(around),
            staging: self.staging(check, around),
            decoded_cache: self.decoded_cache.given().and_then(|(at, c)| c.resolve(check, at)),
            batch: batch?,
            batch_interval: self.interval(check),
            loader: rules.graph(),
            queue: self.queue.get().copied().unwrap_or(QueueKind::Bounded),
            prefill: rules.prefill(batch?),
            copies_per_node,
            copies_each,
            loader_per_copy: self.loaders() == Loaders::PerRank || self.nodes_per_copy() > 1,
            pipeline,
            parallelism,
            other_schedules: OtherSchedules::default(),
            checkpoint: self.checkpoint(check, around, (storage, sync.as_ref()), state),
            sync,
            accumulation: self.accumulation(),
            footprints: footprints
                .iter()
                .map(|of| of.of_learners(learners.most, averages))
                .collect(),
            kernels: self.kernels(check, &model, batch?, learners),
            learners,
            failures: self.failures.given().and_then(|(at, f)| f.resolve(check, at)),
            step: model.step,
            peak: model.peak,
            device: model.device,
            gpu: model.gpu,
            launch: model.launch,
            catalogue: model.catalogue,
            worker_memory: self.worker_memory.get().map_or(0.0, |memory| memory.0),
            hand_off: self.hand_off(check),
            cpu: self.cpu(check),
            accuracy: self.accuracy.given().and_then(|(at, a)| a.resolve(check, at, averages)),
        };
        job.add_taking();
        self.check_stop(check, at);
        rules.keep_outside(&mut job);
        rules.choose_fidelity(&mut job);
        rules.check_copies(&job);
        rules.check_learners(&job);
        rules.check(&job);
        rules.check_device(&job);
        rules.copy_state_aside(&mut job);
        if !check.lenient {
            rules.remark(&job, measured);
            rules.note_loaders(&job);
            rules.remark_accumulation(&job);
            rules.remark_step_of(&job);
            rules.remark_writers(&job);
            rules.remark_read_back(&job);
            rules.remark_failed_node(&job);
            self.remark_arrivals(check, &job);
        }
        Some(job)
    }

    fn loader(
        &self,
        check: Check<'_>,
        around: Around<'_>,
        batch: u64,
        dataset: Option<&Dataset>,
    ) -> Option<ResolvedLoader> {
        let (at, loader) = self.loader.given()?;
        let devices = match self.loaders() {
            Loaders::PerRank => 1,
            Loaders::PerNode => self.copies(around).0,
        };
        let cores = around.cluster.map_or(1, |cluster| cluster.node_at(around.first_node).cores);
        loader.resolve(check, at, batch, OnNode { cores, devices }, dataset)
    }

    fn staging(&self, check: Check<'_>, around: Around<'_>) -> Option<Staging> {
        let (at, copy) = self.copy.given()?;
        copy.resolve(check, at, around)
    }

    fn sync(
        &self,
        check: Check<'_>,
        around: Around<'_>,
        batch: u64,
        model: &ResolvedModel,
    ) -> Option<Sync> {
        let (at, sync) = self.sync.given()?;
        let cluster = around.cluster?.weakest(self.nodes_of(around));
        let latencies = Latencies { inside: cluster.node.intra.latency, across: cluster.latency };
        let all = around.cluster?;
        let step = model.step.seconds(batch as f64)
            * all.step_factor(self.nodes_of(around), model.device, model.peak);
        let precision = self.model.get().map_or(Precision::Fp32, ModelSettings::precision);
        let gradients = model.gradients.clone();
        let parameters = self.model.get().and_then(ModelSettings::parameter_bytes);
        let ranks = self.ranks(around);
        let (nic, cores, accumulation) = (all.nic, all.node.cores, self.accumulation());
        // The profile's trials averaged whole models: they do not say how long an average takes if each GPU has a part of a model.
        let averaging = averaging(check, model, batch).filter(|_| !self.splits_models());
        let framework =
            self.loader.get().map_or_else(Framework::default, LoaderSettings::framework);
        let of = OfModel {
            gradients,
            parameters,
            precision,
            step,
            averaging,
            real_gpu: model.gpu.is_some(),
            latencies,
            ranks,
            accumulation,
            shards_gradients: self.shards_gradients(),
            framework,
            nic,
            cores,
        };
        sync.resolve(check, at, &of)
    }

    fn footprints(
        &self,
        check: Check<'_>,
        batch: u64,
        model: &ResolvedModel,
        spread: ((Option<&Pipeline>, Option<&Parallelism>), Spread),
    ) -> Vec<Footprint> {
        let Some(settings) = self.model.get() else { return Vec::new() };
        settings.footprints(check, model.device, batch, spread)
    }

    fn checkpoint(
        &self,
        check: Check<'_>,
        around: Around<'_>,
        (storage, sync): (Option<usize>, Option<&Sync>),
        state: f64,
    ) -> Option<Checkpoint> {
        let (at, checkpoint) = self.checkpoint.given()?;
        let servers = sync.and_then(|sync| sync.servers.as_ref());
        checkpoint.resolve(check, at, around, Of { storage, servers, state })
    }
}
