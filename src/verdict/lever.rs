//! Levers: limits of a scenario that can be relaxed (lifted). Each has a row with its name in words and the key of the scenario
//! that sets its amount.

use crate::scenario::{Every, Job, Operation, Preset, Scenario, Schedule, StageGraph, Storage};

use super::amount;
use super::relax::{FACTOR, decodes_on_gpu};
use super::{faults, transport};

/// A limit that can be relaxed: its kind, and the index of its storage or job if it belongs to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lever {
    pub(super) kind: Kind,
    pub(super) at: usize,
}

/// Row of a lever in the table of levers: its names.
pub(super) struct Row {
    /// Name for programs.
    pub(super) name: &'static str,
    /// Name for people; `{}` stands for the name of the storage or job.
    words: &'static str,
    /// Key of the scenario that sets the amount; `{}` stands for the storage's table or the job's name.
    key: &'static str,
    /// Name of the resource in reports.
    resource: &'static str,
    /// Advice in words, for a lever whose advice is not another number.
    pub(super) instead: Option<&'static str>,
}

impl Row {
    /// Returns whether levers of this kind belong to a job, whose index they have.
    pub(super) fn is_of_job(&self) -> bool {
        self.key.starts_with("job.")
    }
}

const fn row(
    name: &'static str,
    words: &'static str,
    key: &'static str,
    resource: &'static str,
) -> Row {
    Row { name, words, key, resource, instead: None }
}

/// Returns the row of a lever that is switched on or left out, rather than changed in amount.
const fn change(
    name: &'static str,
    words: &'static str,
    (key, instead): (&'static str, &'static str),
    resource: &'static str,
) -> Row {
    Row { name, words, key, resource, instead: Some(instead) }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident => $row:expr,)*) => {
        /// Kinds of limits that can be relaxed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// All kinds.
            pub(super) const ALL: &[Kind] = &[$(Kind::$kind,)*];

            pub(super) fn row(self) -> Row {
                match self { $(Kind::$kind => $row,)* }
            }
        }
    };
}

kinds! {
    /// Operations per second of a storage, doubled.
    Operations => row("operations", "operations of `{}`", "storage.{}.operations", "{}.operations"),
    /// Bandwidth of a storage, doubled.
    Bandwidth => row("bandwidth", "bandwidth of `{}`", "storage.{}.bandwidth", "{}.bandwidth"),
    /// Largest rate of a single transfer, doubled.
    PerStream => row("per-stream", "the speed of single streams from `{}`", "storage.{}.per_stream", "{}.per_stream"),
    /// Request latency of a storage, halved.
    Latency => row("latency", "request latency of `{}`", "storage.{}.latency", "{}.latency"),
    /// Bandwidth of each storage target, doubled.
    Targets => row("targets", "storage targets of `{}`", "storage.{}.target_bandwidth", "{}.target"),
    /// Number of storage targets that a file is striped over, doubled, up to all of them.
    Stripes => row("stripes", "the stripe count of `{}`", "storage.{}.stripe_count", "{}.target"),
    /// Requests per second that an object store serves, doubled.
    Requests => row("requests", "the request rate of `{}`", "storage.{}.requests", "{}.requests"),
    /// I/O queues of each node, doubled.
    Queues => row("queues", "I/O queues of `{}`", "storage.{}.queues", "{}.queue"),
    /// Depth of each I/O queue, doubled.
    QueueDepth => row("queue-depth", "the depth of I/O queues of `{}`", "storage.{}.queue_depth", "{}.queue-slots"),
    /// Bandwidth of an I/O queue, doubled.
    QueueBandwidth => row("queue-bandwidth", "the bandwidth of I/O queues of `{}`", "storage.{}.queue_bandwidth", "{}.queue"),
    /// Seek time of a disk, halved.
    Seek => row("seek", "the arm of `{}`", "storage.{}.seek", "{}.arm"),
    /// Measured throughput of a storage, doubled.
    Measured => row("measured", "measured throughput of `{}`", "storage.{}.rows", "{}.measured"),
    /// Bandwidth of writes to a tier, doubled.
    TierWrite => row("write-bandwidth", "write bandwidth of `{}`", "storage.{}.write_bandwidth", "{}.write_bandwidth"),
    /// Capacity of the cache in front of a storage, doubled.
    TierCache => row("tier-cache", "the cache in front of `{}`", "storage.{}.cache.capacity", "{}.cache"),
    /// Background loads on a storage, removed.
    Background => change("background", "other loads on `{}`", ("background", "no background load"), "{}.background"),
    /// Bandwidth of NICs, doubled.
    Nic => row("nic", "NICs", "cluster.network.nic", "node.nic"),
    /// Bandwidth of NICs that serve only storage, doubled.
    StorageNic => row("storage-nic", "NICs for storage", "cluster.network.storage_nic", "node.storage-nic"),
    /// Bandwidth of racks' uplinks, doubled.
    Uplink => row("uplink", "rack uplinks", "cluster.network.racks.uplink", "rack.uplink"),
    /// Network latency, halved.
    NetworkLatency => row("network-latency", "network latency", "cluster.network.latency", "network.latency"),
    /// Bandwidth of the links between the GPUs of a node, doubled.
    Intra => row("intra", "links between the GPUs of a node", "cluster.node.intra.bandwidth", "node.intra"),
    /// Host-to-device bandwidth of each GPU, doubled.
    Pcie => row("pcie", "host-to-device links", "cluster.node.pcie", "node.pcie"),
    /// Cores of nodes, doubled.
    Cores => row("cores", "cores", "cluster.node.cores", "node.cores"),
    /// Memory bandwidth of nodes, doubled.
    MemoryBandwidth => row("memory-bandwidth", "memory bandwidth", "cluster.node.memory_bandwidth", "node.memory-bandwidth"),
    /// Bandwidth of GPUs' memory, doubled.
    GpuMemory => row("gpu-memory", "GPU memory bandwidth", "cluster.node.gpu_memory_bandwidth", "node.gpu.memory"),
    /// Capacity of the page cache, doubled, together with the node's memory that contains it.
    PageCache => row("page-cache", "page cache capacity", "cluster.node.page_cache.capacity", "node.page-cache.capacity"),
    /// Bandwidth of the page cache, doubled.
    PageCacheRate => row("page-cache-bandwidth", "page cache bandwidth", "cluster.node.page_cache.bandwidth", "node.page-cache"),
    /// Slow nodes, made like the fastest.
    EqualNodes => change("slow-nodes", "slow nodes", ("cluster.group", "nodes that are all as fast as the fastest"), "node.speed"),
    /// Faults of one part of the cluster, or of all parts, removed.
    Faults => change("faults", "faults", ("fault", "this part as fast as it is without faults"), "faults"),
    /// The interpreter's lock (GIL), avoided by worker processes, which do not share it.
    Lock => change("gil", "the interpreter's lock", ("job.{}.loader.LOCK", "processes as workers, which do not share the lock"), "{}.gil"),
    /// CPU quota of the job, doubled.
    Quota => row("cpu-quota", "the CPU quota", "job.{}.cpu_quota", "{}.cpu-quota"),
    /// Workers of the loader, doubled, and the buffers whose size follows from their number.
    Workers => row("workers", "loader workers", "job.{}.loader.WORKERS", "{}.workers"),
    /// Work of decoding, halved.
    Decode => row("decode", "the work of decoding", "job.{}.loader.DECODE", "{}.decode"),
    /// Work of collating batches, halved.
    Collate => row("collate", "the work of collating", "job.{}.loader.COLLATE", "{}.collate"),
    /// Work of copies in memory, such as those with which worker processes hand batches over, halved.
    HandOver => row("hand-over", "memory copies of the loader", "job.{}.loader.HANDOVER", "{}.hand-over"),
    /// Work of the pinning thread, halved.
    Pinning => row("pinning", "the pinning thread", "job.{}.loader.pytorch.pin_memory", "{}.pinning"),
    /// The loader's own delays, halved.
    Delay => row("delay", "delays of the loader", "job.{}.loader.DELAY", "{}.delay"),
    /// Buffers of the loader, doubled.
    Prefetch => row("prefetch", "prefetch depth", "job.{}.loader.PREFETCH", "{}.prefetch"),
    /// Delivery of batches in order, given up.
    Order => change("order", "delivery in order", ("job.{}.loader.ORDER", "batches that are delivered as they are finished"), "{}.order"),
    /// Restarts of workers at each epoch, avoided by keeping workers alive.
    Restart => change("restart", "restarts of the loader", ("job.{}.loader.RESTART", "workers that live on between epochs"), "{}.loader"),
    /// Frequency with which the loader polls for work, doubled.
    Polling => row("polling", "polling of the loader", "job.{}.loader.keras.generator.wait_time", "{}.polling"),
    /// The trainer's own work on cores, halved.
    Launch => row("launch", "the trainer's own work on cores", "job.{}.model.launch", "{}.launch"),
    /// Jitter of step times, removed.
    Jitter => change("jitter", "jitter of step times", ("job.{}.model.jitter", "step times that do not vary"), "{}.jitter"),
    /// Step time, halved.
    Step => row("compute", "computing", "job.{}.model.step", "accelerators"),
    /// Micro-batches, doubled.
    MicroBatches => row("micro-batches", "pipeline bubbles", "job.{}.parallel.pipeline.micro_batches", "{}.pipeline"),
    /// Order of passes, changed to one in which gradients of weights fill bubbles.
    Schedule => row("schedule", "the pipeline schedule", "job.{}.parallel.pipeline.schedule", "{}.pipeline"),
    /// Chunks of the model on each pipeline stage, doubled, with the schedule that has several.
    Chunks => row("chunks", "chunks of pipeline stages", "job.{}.parallel.pipeline.chunks", "{}.pipeline"),
    /// Pipeline stages, made equal and allowed to overlap.
    Balance => change("stages", "uneven pipeline stages", ("job.{}.parallel.pipeline", "equal stages that overlap"), "{}.stages"),
    /// Time between checkpoints, doubled.
    CheckpointInterval => row("checkpoint-interval", "checkpoints", "job.{}.checkpoint.interval", "{}.checkpoint"),
    /// Time between checkpoints, halved, so that failures destroy less work.
    CheckpointOften => row("checkpoint-often", "work lost since the last checkpoint", "job.{}.checkpoint.interval", "faults"),
    /// Waits for checkpoints, avoided by writing them while the job trains.
    CheckpointAside => change("checkpoint-aside", "checkpoints that training waits for", ("job.{}.checkpoint.asynchronous", "checkpoints that are written while the job trains: `asynchronous = true`"), "{}.checkpoint"),
    /// Checkpoints written by few ranks, written by all ranks instead.
    CheckpointWriters => change("checkpoint-writers", "the number of ranks that write checkpoints", ("job.{}.checkpoint.writers", "a part of each checkpoint from each rank: `writers = \"each\"`"), "{}.checkpoint"),
    /// Checkpoints of job copies that write at the same time, spread over the interval.
    CheckpointStagger => row("checkpoint-stagger", "checkpoints that jobs write at the same time", "job.{}.stagger", "{}.checkpoint"),
    /// Pause in which the state is copied aside, halved.
    CheckpointPause => row("checkpoint-pause", "pauses for checkpoints", "job.{}.checkpoint.pause", "{}.checkpoint"),
    /// Time between failures, doubled.
    Failures => row("failures", "failures", "job.{}.failures.mtbf", "faults"),
    /// Restart time after a failure, halved.
    RestartTime => row("restart-time", "restarts after failures", "job.{}.failures.restart", "faults"),
    /// Latency of gradients' transfers, halved.
    TransportLatency => row("transport-latency", "latency of gradients' transfers", "job.{}.sync.*.transport.*.TRANSPORT", "network"),
    /// Largest rate of a single transfer of gradients, doubled.
    TransportStream => row("transport-stream", "the speed of single transfers of gradients", "job.{}.sync.*.transport.*.TRANSPORT", "network"),
    /// Bytes of gradients, halved.
    Gradients => row("gradients", "bytes of gradients", "job.{}.sync.*.gradients", "network"),
    /// An averaging's own time on a GPU, halved.
    Averaging => row("averaging", "the time of averages on a GPU", "job.{}.sync.model-averaging.latency", "averaging"),
    /// Waits for exchanges, replaced by training that goes on meanwhile.
    Overlap => change("overlap", "exchanges that training waits for", ("job.{}.sync.*.overlap", "training that goes on during exchanges"), "network"),
    /// States sharded over nodes, sharded inside nodes instead.
    ShardGroups => change("shard-groups", "sharding over several nodes", ("job.{}.parallel.zero.groups", "states sharded inside each node and replicated across nodes: `groups = \"node\"`"), "network"),
    /// Steps between exchanges of model copies, doubled.
    Period => row("period", "exchanges between model copies", "job.{}.sync.*.period", "network"),
    /// NIC bandwidth of parameter servers, doubled.
    ServerNic => row("server-nic", "NICs of the parameter servers", "job.{}.sync.*.server.nic", "server.nic"),
    /// Cores of parameter servers, and the update rate of each server, doubled.
    ServerCores => row("server-cores", "updates at the parameter servers", "job.{}.sync.*.server.cores", "server.cores"),
    /// Core time for messages, halved.
    MessageCpu => row("message-cpu", "work of cores for messages", "job.{}.sync.*.transport.*.TRANSPORT", "node.cores"),
    /// Time of the update at the root of reduce and broadcast, halved.
    RootUpdate => row("root-update", "the root's update", "job.{}.sync.*.update", "{}.root"),
}

impl Lever {
    /// Returns the name of the limit in words.
    pub(super) fn words(self, scenario: &Scenario) -> String {
        if self.kind == Kind::Faults {
            return faults::words(scenario, self.at);
        }
        self.kind.row().words.replace("{}", self.owner(scenario))
    }

    /// Returns the name of the resource in reports.
    pub(super) fn resource(self, scenario: &Scenario) -> String {
        if self.kind == Kind::Faults {
            return faults::resource(scenario, self.at);
        }
        self.kind.row().resource.replace("{}", self.owner(scenario))
    }

    /// Returns the key of the scenario that sets the amount.
    pub(super) fn key(self, scenario: &Scenario) -> String {
        if self.is_of_the_gpu(scenario) {
            return "cluster.node.gpu".to_owned();
        }
        let (storage, job) = (self.storage(scenario), self.job(scenario));
        let key = of_sync(
            &of_loader(&of_pipeline(self.kind.row().key, self.kind, job), self.kind, job),
            self.kind,
            job,
        );
        let key = match job {
            Some(job) if job.copies == 1 => key.replace(".stagger", ".start"),
            _ => key,
        };
        let key = match job.and_then(|job| job.checkpoint.as_ref()).map(|of| of.every) {
            Some(Every::Steps(_)) => key.replace("checkpoint.interval", "checkpoint.steps"),
            Some(Every::Seconds(_)) | None => key,
        };
        // Names come last: nothing is looked for in them.
        match storage {
            Some(storage) => {
                let table = format!("{}.{}", storage.name, storage.kind);
                // An object store has `per_connection` in place of `per_stream`.
                let key = match storage.kind {
                    "object-store" => key.replace("per_stream", "per_connection"),
                    _ => key,
                };
                key.replace("{}", &table)
            }
            None => key.replace("{}", job.map_or("", |job| &job.name)),
        }
    }

    /// Returns the storage that the lever belongs to.
    fn storage(self, scenario: &Scenario) -> Option<&Storage> {
        scenario.storage.get(self.at).filter(|_| self.kind.is_of_storage())
    }

    /// Returns the job that the lever belongs to.
    fn job(self, scenario: &Scenario) -> Option<&Job> {
        scenario.jobs.get(self.at).filter(|_| !self.kind.is_of_storage())
    }

    /// Returns whether the limit is a step time that follows from the peak performance of the GPU.
    fn is_of_the_gpu(self, scenario: &Scenario) -> bool {
        let peak = scenario.jobs.get(self.at).and_then(|job| job.peak);
        self.kind == Kind::Step && peak.is_some()
    }

    /// Returns the weight of the lever's gain when levers are ranked. Levers that reduce work have a lower weight than the
    /// resource that does the work, because the resource is the bottleneck.
    pub(super) fn weight(self) -> f64 {
        match self.kind {
            Kind::Decode
            | Kind::Collate
            | Kind::HandOver
            | Kind::Gradients
            | Kind::Period
            | Kind::CheckpointInterval
            | Kind::Failures
            | Kind::MessageCpu => 0.5,
            // More workers hide these latencies, so the number of workers should rank first.
            Kind::Latency | Kind::PerStream | Kind::NetworkLatency | Kind::Delay => 0.9,
            _ => 1.0,
        }
    }

    /// Returns whether the limit takes effect only at times, so that only a run of full length shows it.
    pub(super) fn is_rare(self, scenario: &Scenario) -> bool {
        match self.kind {
            Kind::Faults => faults::are_temporary(scenario, self.at),
            kind => matches!(kind, Kind::Restart | Kind::PageCache | Kind::TierCache),
        }
    }

    /// Returns whether the lever is one against failures and the work that they destroy.
    pub(super) fn is_of_failures(self) -> bool {
        matches!(self.kind, Kind::Failures | Kind::RestartTime | Kind::CheckpointOften)
    }

    /// Returns whether the lever is one against waits for checkpoints.
    pub(super) fn is_of_checkpoints(self) -> bool {
        matches!(
            self.kind,
            Kind::CheckpointInterval
                | Kind::CheckpointAside
                | Kind::CheckpointWriters
                | Kind::CheckpointStagger
                | Kind::CheckpointPause
        )
    }

    /// Returns whether the lever multiplies an amount of `scenario` by [`FACTOR`].
    pub(super) fn multiplies(self, scenario: &Scenario) -> bool {
        let (storage, job) = (scenario.storage.get(self.at), scenario.jobs.get(self.at));
        match self.kind {
            Kind::Schedule | Kind::Chunks | Kind::CheckpointStagger => false,
            // There are no more targets than all, and from no workers on, one is added.
            Kind::Stripes => storage
                .and_then(|storage| storage.path.targets)
                .is_some_and(|of| f64::from(of.stripe_count) * FACTOR <= f64::from(of.number)),
            Kind::Workers => {
                job.and_then(|job| job.loader.requests).is_none_or(|requests| requests.ahead > 0)
            }
            kind => kind.row().instead.is_none(),
        }
    }

    /// Returns the name of the storage or job that the lever belongs to.
    fn owner(self, scenario: &Scenario) -> &str {
        let storage = self.storage(scenario).map(|storage| storage.name.as_str());
        storage.or_else(|| Some(self.job(scenario)?.name.as_str())).unwrap_or_default()
    }

    /// Returns the advice as words to follow "with": a new amount (`80 k/s in place of 40 k/s`) or another change.
    pub(super) fn advice(self, now: &Scenario, then: &Scenario) -> String {
        if self.is_of_the_gpu(now) {
            return format!("GPUs {} times as fast", FACTOR);
        }
        if self.kind == Kind::Faults {
            return faults::words(now, self.at).replacen("the fault", "no fault", 1);
        }
        let schedule = |of: &Scenario| Some(of.jobs.get(self.at)?.parallelism.as_ref()?.schedule);
        let amount = |of: &Scenario| match self.kind {
            Kind::Chunks if !has_chunks(schedule(now)) => {
                Some(format!("{:?} and {}", schedule(of)?.name(), amount::of(self, of)?))
            }
            _ => amount::of(self, of),
        };
        match (self.kind.row().instead, amount(now), amount(then)) {
            (Some(instead), ..) => instead.to_owned(),
            (None, Some(now), Some(then)) => format!("{then} in place of {now}"),
            (None, ..) => "twice as much".to_owned(),
        }
    }
}

/// Returns the key of a lever on the chunks of pipeline stages, which only one schedule has: without it, the keys of both.
fn of_pipeline(key: &str, kind: Kind, job: Option<&Job>) -> String {
    let schedule = job.and_then(|job| job.parallelism.as_ref()).map(|of| of.schedule);
    match (kind, schedule) {
        (Kind::Chunks, schedule) if !has_chunks(schedule) => {
            format!("{} and {key}", Kind::Schedule.row().key)
        }
        _ => key.to_owned(),
    }
}

/// Returns whether the scenario file sets the number of chunks of this schedule.
fn has_chunks(schedule: Option<Schedule>) -> bool {
    matches!(schedule, Some(Schedule::Interleaved { .. }))
}

/// Returns the key of a lever on what model copies exchange, as the job's kind of `sync` names it.
fn of_sync(key: &str, kind: Kind, job: Option<&Job>) -> String {
    let Some((job, sync)) = job.and_then(|job| Some((job, job.sync.as_ref()?))) else {
        return key.to_owned();
    };
    let gradients = sync.root.is_none() && sync.servers.is_none() && sync.averaging.is_none();
    let each_update = sync.root.is_some() || sync.servers.is_some() && !job.averages_parameters();
    match kind {
        Kind::Gradients if !gradients => key.replace("gradients", "parameters"),
        Kind::Period if each_update => "job.{}.accumulation".to_owned(),
        _ if transport::is_cost(kind) => {
            let keys: Vec<&str> =
                transport::parts(job, kind).into_iter().map(|(key, _)| key).collect();
            key.replace("TRANSPORT", &keys.join(" and "))
        }
        _ => key.to_owned(),
    }
}

/// Returns the keys of the stages of a loader that a lever on all of them changes; `None` for a lever on one stage.
fn of_stages(loader: &StageGraph, kind: Kind) -> Option<Vec<String>> {
    let is_changed = |of: &Operation| match kind {
        Kind::HandOver => matches!(of, Operation::Memcpy(_)),
        _ => matches!(of, Operation::Compute(_) | Operation::Decode(_)),
    };
    let mut keys = Vec::new();
    for stage in &loader.stages {
        let lists = [("per_sample", &stage.per_sample), ("per_item", &stage.per_item)];
        let lists = lists.into_iter().filter(|(_, list)| list.iter().any(is_changed));
        match kind {
            Kind::Workers => keys.push(format!("stages.{}.workers", stage.name)),
            Kind::Decode | Kind::HandOver => {
                keys.extend(lists.map(|(key, _)| format!("stages.{}.{key}", stage.name)));
            }
            _ => return None,
        }
    }
    Some(keys)
}

/// Completes a key of a loader with the names that the job's loader uses.
fn of_loader(key: &str, kind: Kind, job: Option<&Job>) -> String {
    let Some(loader) = job.map(|job| &job.loader) else { return key.to_owned() };
    let (what, of) = match kind {
        Kind::Workers => ("WORKERS", loader.preset.workers_key()),
        Kind::Decode if decodes_on_gpu(loader) => ("DECODE", "gpu.decode"),
        Kind::Decode => ("DECODE", loader.preset.decode_key()),
        Kind::Delay => ("DELAY", loader.preset.delay_key()),
        Kind::Prefetch => ("PREFETCH", loader.preset.prefetch_key()),
        // Without such a key, there is no lever.
        Kind::Order => ("ORDER", loader.preset.order_key().unwrap_or_default()),
        Kind::Restart => ("RESTART", "persistent_workers"),
        Kind::Lock => ("LOCK", loader.preset.lock_key()),
        Kind::Collate => ("COLLATE", "collate"),
        Kind::HandOver => ("HANDOVER", "ipc"),
        _ => return key.to_owned(),
    };
    if loader.preset == Preset::Stages
        && let Some(keys) = of_stages(loader, kind)
    {
        return key.replace(what, &keys.join(" and "));
    }
    // The first stage reads, and the buffer of the last one holds prefetched samples. Presets have no names of stages.
    let stage = if kind == Kind::Prefetch { loader.stages.last() } else { loader.stages.first() };
    let table = match (loader.preset, stage) {
        (Preset::Stages, Some(stage)) => format!("stages.{}", stage.name),
        (preset, _) => preset.name().to_owned(),
    };
    key.replace(what, &format!("{table}.{of}"))
}
