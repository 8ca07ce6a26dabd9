//! Which changes of a key may help, and which stalls they may shorten.
//!
//! Every limit and every choice of a scenario is a lever. Without a rule here, a limit is tried with twice its amount, or half of it
//! if it is a time, and a choice with its other words. The table of rules has the exceptions. The table of reaches only decides which
//! levers are tried first, and which cannot help because nothing waits for what they change.

use forebay_report::{Cause, Part};
use forebay_scenario::Role;
use forebay_scenario::change::Movable;

/// What is tried with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Twice the amount.
    More,
    /// Half the amount.
    Less,
    /// Twice and half the amount, each by itself.
    Both,
    /// Each of the other words, or the other boolean.
    Words,
    /// This word, or boolean.
    Put(&'static str),
    /// The key removed.
    Unset,
    /// Each element of the list removed, and all of them.
    UnsetEach,
    /// Nothing.
    Never,
}

use Rule::{Both, Less, More, Never, Put, Unset, UnsetEach, Words};

/// Rules by the end of a key's path in the schema; the first that fits counts.
const RULES: &[(&str, Rule)] = &[
    // Faults and neighbours go away as a whole.
    ("fault", UnsetEach),
    ("background", UnsetEach),
    ("fault.factor", Never),
    ("background.requests", Never),
    ("background.requests.rate", Never),
    ("background.requests.size", Never),
    ("background.streams", Never),
    ("background.streams.cap", Never),
    ("background.streams.streams", Never),
    ("launch.measured", Never),
    ("job.failures", Unset),
    ("job.model.jitter", Unset),
    // Failures come later; a checkpoint may be too frequent, or too rare if nodes fail.
    ("mtbf", More),
    ("checkpoint.interval", Both),
    ("checkpoint.steps", Both),
    // Work, and what has to be moved or held: less of it is better.
    ("gil", Less),
    ("checkpoint.bytes", Less),
    ("gradients", Less),
    ("parameters", Less),
    ("activations", Less),
    ("keys_values", Less),
    ("dispatched", Less),
    ("imbalance", Less),
    ("ratio", Less),
    ("memory_traffic", Less),
    ("worker_memory", Less),
    ("parquet.read", Less),
    ("occupancy", Less),
    // Numbers that are chosen: either direction may help.
    ("accumulation", Both),
    ("batch_interval", More),
    ("period", More),
    ("micro_batches", More),
    ("chunks", Both),
    ("stripe_count", More),
    ("stripe_size", Both),
    ("readahead", More),
    ("request", Both),
    ("row_group", Both),
    ("row_groups", Both),
    ("allreduce.buckets", Both),
    ("parameter-server.buckets", Both),
    ("fusion.buffer", Both),
    ("fusion.cycle", Both),
    // Threads share the interpreter's lock, which files seldom write; copies to the device and parameter servers are where they are for
    // reasons of their own.
    ("worker_kind", Put("process")),
    ("use_multiprocessing", Put("true")),
    ("to_device", Put("true")),
    ("placement", Never),
    // A larger page cache needs the memory that holds it, which grows along with it.
    ("page_cache.capacity", More),
    ("cluster.node.memory", More),
    ("node.memory", More),
    // Capacity makes nothing faster: what does not fit is refused.
    ("gpu_memory", Never),
    ("storage.NAME.file-server.capacity", Never),
    ("storage.NAME.parallel-fs.capacity", Never),
    ("storage.NAME.object-store.capacity", Never),
    ("storage.NAME.nvme-of.capacity", Never),
    ("storage.NAME.local-disk.capacity", Never),
    ("storage.NAME.memory.capacity", Never),
    // Another machine, another split of the model or another training, rather than more of the same.
    ("gpus", Never),
    ("nics", Never),
    ("gpu", Never),
    ("core_speed", Never),
    ("share_nodes", Never),
    ("scheduling", Never),
    ("threads_per_core", Never),
    ("yield", Never),
    ("smt", Never),
    ("replicas", Never),
    ("servers", Never),
    ("sampler", Never),
    ("queue", Never),
    ("unit", Never),
    ("access", Never),
    ("samples", Never),
    ("precision", Never),
    ("quantised_weights", Never),
    ("compression", Never),
    ("transport", Never),
    ("library", Never),
    ("algorithm", Never),
    ("inner", Never),
    ("outer", Never),
    ("reduce", Never),
    ("broadcast", Never),
    ("ranks", Never),
    ("ranks_per_node", Never),
    ("stages", Never),
    ("stages_per_node", Never),
    ("shares", Never),
    ("learners", Never),
    ("data.loaders", Never),
    ("auto.most", Never),
    ("auto.threshold", Never),
    ("auto.window", Never),
    ("capacity_factor", Never),
    ("layout", Never),
    ("job.start", Never),
    ("stagger", Never),
    ("out_of_core", Never),
    ("inner_threads.efficiency", Never),
    ("failures.node", Never),
    ("failures.resume", Never),
    ("checkpoint.storage", Never),
    ("cache.on", Never),
    ("copy.to", Never),
    ("copy.share", Never),
    ("consistency", Never),
    ("adaptive.level", Never),
    ("adaptive.max", Never),
];

/// Returns what is tried with a key.
pub(crate) fn rule(of: &Movable) -> Rule {
    let fits = |end: &str| {
        of.class == end || of.class.strip_suffix(end).is_some_and(|above| above.ends_with('.'))
    };
    if let Some((_, rule)) = RULES.iter().find(|(end, _)| fits(end)) {
        return *rule;
    }
    match of.role {
        Role::Limit if of.is_time => Less,
        Role::Limit => More,
        Role::Choice if !of.words.is_empty() => Words,
        Role::Choice | Role::Identity | Role::Output => Never,
    }
}

/// Returns how far a key is from what is bought: faults first, then what a machine has, then loaders, then work and bytes. Of changes that
/// save the same, the first is named.
pub(crate) fn kind(class: &str, rule_is_less: bool) -> u8 {
    match class.split('.').next() {
        Some("fault" | "background") => 0,
        Some("storage" | "cluster") if !rule_is_less => 1,
        Some("job") if !rule_is_less => 2,
        _ => 3,
    }
}

/// Returns whether a key is the size of a loader's buffer.
pub(crate) fn is_buffer(class: &str) -> bool {
    let ends = ["prefetch_factor", "prefetch_queue_depth", "max_queue_size", "prefetch", "buffer"];
    ends.iter().chain(&["tf-queue.capacity", "examples.capacity"]).any(|end| class.ends_with(end))
}

/// Returns whether a key changes what the model learns, and not only how fast: samples are used again, or updates come less often.
pub(crate) fn changes_training(class: &str) -> bool {
    ["batch_interval", "accumulation", "period"].iter().any(|end| class.ends_with(end))
}

/// What of a training step a key acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Stalls with these causes.
    Stalls(&'static [Cause]),
    /// Stalls with all causes, and the time that devices compute.
    All,
    /// The time that devices compute, and the stalls that they cause in others.
    Computing,
}

const INPUT: &[Cause] = &[
    Cause::Open,
    Cause::Latency,
    Cause::Transfer,
    Cause::Decode,
    Cause::CpuWait,
    Cause::Throttled,
    Cause::Order,
    Cause::Restart,
    Cause::Copy,
    Cause::FirstBatch,
];
const ORDER: &[Cause] = &[Cause::Order, Cause::Latency, Cause::Decode];
const READS: &[Cause] = &[Cause::Open, Cause::Latency, Cause::Transfer, Cause::FirstBatch];
const CORES: &[Cause] = &[
    Cause::Decode,
    Cause::CpuWait,
    Cause::Throttled,
    Cause::Order,
    Cause::Launch,
    Cause::Copy,
    Cause::Communication,
    Cause::Latency,
    Cause::FirstBatch,
];
const NETWORK: &[Cause] = &[
    Cause::Open,
    Cause::Latency,
    Cause::Transfer,
    Cause::Communication,
    Cause::Bubble,
    Cause::Checkpoint,
    Cause::Fault,
    Cause::Swap,
    Cause::FirstBatch,
];
const STORAGE: &[Cause] = &[
    Cause::Open,
    Cause::Latency,
    Cause::Transfer,
    Cause::Order,
    Cause::Checkpoint,
    Cause::Fault,
    Cause::FirstBatch,
];
const LINKS: &[Cause] = &[
    Cause::Copy,
    Cause::Swap,
    Cause::Communication,
    Cause::Bubble,
    Cause::Checkpoint,
    Cause::Transfer,
    Cause::FirstBatch,
];
const EPOCH_STARTS: &[Cause] = &[Cause::Restart, Cause::FirstBatch];
const EXCHANGES: &[Cause] = &[Cause::Communication, Cause::Bubble, Cause::Swap, Cause::Compute];

/// What keys reach, by the beginning of their path in the schema; the first that fits counts.
const REACHES: &[(&str, Reach)] = &[
    ("fault", Reach::All),
    ("background", Reach::All),
    ("dataset.", Reach::Stalls(INPUT)),
    ("storage.", Reach::Stalls(STORAGE)),
    ("cluster.network", Reach::Stalls(NETWORK)),
    ("cluster.node.page_cache", Reach::Stalls(READS)),
    ("cluster.node.memory_bandwidth", Reach::Stalls(CORES)),
    ("cluster.node.memory", Reach::Stalls(READS)),
    ("cluster.node.pcie", Reach::Stalls(LINKS)),
    ("cluster.node.intra", Reach::Stalls(LINKS)),
    ("cluster.node.gpu_memory_bandwidth", Reach::Stalls(EXCHANGES)),
    ("cluster.node.gpu_speed", Reach::Computing),
    ("cluster.node.core", Reach::Stalls(CORES)),
    ("job.loader.pytorch.in_order", Reach::Stalls(ORDER)),
    ("job.loader.tf-data.deterministic", Reach::Stalls(ORDER)),
    ("job.loader.stages.order", Reach::Stalls(ORDER)),
    ("job.loader.pytorch.to_device", Reach::Stalls(&[Cause::Copy])),
    ("job.loader.pytorch.worker_kind", Reach::Stalls(CORES)),
    ("job.loader.keras.use_multiprocessing", Reach::Stalls(CORES)),
    ("job.loader.pytorch.persistent_workers", Reach::Stalls(EPOCH_STARTS)),
    ("job.loader.pytorch.start", Reach::Stalls(EPOCH_STARTS)),
    ("job.loader.pytorch.take", Reach::All),
    ("job.loader.keras.start", Reach::Stalls(EPOCH_STARTS)),
    ("job.loader.tf-data.start", Reach::Stalls(EPOCH_STARTS)),
    ("job.loader.tf-data.start_per_file", Reach::Stalls(EPOCH_STARTS)),
    ("job.loader", Reach::Stalls(INPUT)),
    ("job.cpu_quota", Reach::Stalls(CORES)),
    (
        "job.model.launch",
        Reach::Stalls(&[Cause::Launch, Cause::CpuWait, Cause::Throttled, Cause::Compute]),
    ),
    ("job.model.jitter", Reach::Stalls(&[Cause::Compute, Cause::Communication, Cause::Bubble])),
    ("job.model.device", Reach::All),
    ("job.model", Reach::Computing),
    ("job.checkpoint", Reach::Stalls(&[Cause::Checkpoint, Cause::Fault])),
    ("job.failures", Reach::Stalls(&[Cause::Fault, Cause::Checkpoint])),
    ("job.sync", Reach::Stalls(EXCHANGES)),
    ("job.parallel", Reach::Stalls(EXCHANGES)),
    ("job.accumulation", Reach::Stalls(EXCHANGES)),
    ("job.batch_interval", Reach::Stalls(INPUT)),
    ("job", Reach::Stalls(INPUT)),
];

/// Returns what a key reaches. A key of a group of nodes reaches what the same key of all nodes does.
pub(crate) fn reach(class: &str) -> Reach {
    let of_all_nodes = match class.strip_prefix("cluster.group.NAME.") {
        Some(of_node) if of_node.starts_with("node.") => &format!("cluster.{of_node}"),
        Some(of_network) => &format!("cluster.network.{of_network}"),
        None => class,
    };
    let found = REACHES.iter().find(|(begin, _)| of_all_nodes.starts_with(begin));
    found.map_or(Reach::All, |(_, reach)| *reach)
}

/// Whether a key enlarges a part of a resource.
type Enlarges = fn(Part) -> bool;

/// Parts of resources that a key enlarges, by the end of its path in the schema.
const PARTS: &[(&str, Enlarges)] = &[
    ("storage.NAME.nvme-of.queue_bandwidth", |part| part == Part::Queue),
    ("queues", |part| matches!(part, Part::Queue | Part::QueueSlots)),
    ("queue_depth", |part| part == Part::QueueSlots),
    ("write_per_client", |part| part == Part::ClientWrites),
    ("per_client", |part| part == Part::Client),
    ("target_bandwidth", |part| part == Part::Target),
    ("targets", |part| part == Part::Target),
    ("stripe_count", |part| part == Part::Target),
    ("operations", |part| part == Part::Operations),
    ("object-store.requests", |part| part == Part::Requests),
    ("seek", |part| part == Part::Arm),
    ("write_bandwidth", |part| part == Part::WriteBandwidth),
    ("throughput", |part| part == Part::Measured),
    ("memory_bandwidth", |part| part == Part::MemoryBandwidth),
    ("page_cache.bandwidth", |part| part == Part::PageCache),
    ("gpu_memory_bandwidth", |part| part == Part::GpuMemory),
    ("intra.bandwidth", |part| matches!(part, Part::Intra(_))),
    ("storage_nic", |part| matches!(part, Part::StorageNic(_))),
    ("nic", |part| matches!(part, Part::Nic(_))),
    ("uplink", |part| matches!(part, Part::Uplink(_))),
    ("pcie", |part| matches!(part, Part::Pcie(_))),
    ("cores", |part| part == Part::Cores),
    ("cpu_quota", |part| part == Part::CpuQuota),
    ("loader.pytorch.gil", |part| part == Part::Gil),
    ("loader.keras.gil", |part| part == Part::Gil),
    ("file-server.bandwidth", |part| part == Part::Bandwidth),
    ("parallel-fs.bandwidth", |part| part == Part::Bandwidth),
    ("object-store.bandwidth", |part| part == Part::Bandwidth),
    ("nvme-of.bandwidth", |part| part == Part::Bandwidth),
    ("local-disk.bandwidth", |part| matches!(part, Part::Bandwidth | Part::Arm)),
    ("storage.NAME.memory.bandwidth", |part| part == Part::Bandwidth),
];

/// Returns which parts of resources a key enlarges; `None` if it enlarges none whose use reports list.
pub(crate) fn part(class: &str) -> Option<Enlarges> {
    let fits = |end: &str| {
        class == end || class.strip_suffix(end).is_some_and(|above| above.ends_with('.'))
    };
    PARTS.iter().find(|(end, _)| fits(end)).map(|(_, of)| *of)
}

/// Names of limits in words, by the end of their path in the schema. `{}` stands for the name of the storage or group.
const WORDS: &[(&str, &str)] = &[
    ("network.nic", "NICs"),
    ("storage_nic", "NICs for storage"),
    ("racks.uplink", "rack uplinks"),
    ("cluster.network.latency", "network latency"),
    ("page_cache.capacity", "page cache capacity"),
    ("page_cache.bandwidth", "page cache bandwidth"),
    ("node.memory", "page cache capacity"),
    ("memory_bandwidth", "memory bandwidth"),
    ("gpu_memory_bandwidth", "GPU memory bandwidth"),
    ("node.pcie", "host-to-device links"),
    ("intra.bandwidth", "links between the GPUs of a node"),
    ("intra.latency", "latency between the GPUs of a node"),
    ("intra.uplink", "uplinks between the GPUs of a node"),
    ("intra.root", "the root between the GPUs of a node"),
    ("gpu_speed", "computing"),
    ("file-server.bandwidth", "bandwidth of {}"),
    ("parallel-fs.bandwidth", "bandwidth of {}"),
    ("object-store.bandwidth", "bandwidth of {}"),
    ("nvme-of.bandwidth", "bandwidth of {}"),
    ("local-disk.bandwidth", "bandwidth of {}"),
    ("storage.NAME.memory.bandwidth", "bandwidth of {}"),
    ("write_bandwidth", "write bandwidth of {}"),
    ("write_per_client", "what one node can write to {}"),
    ("write_per_stream", "what one writer can write to {}"),
    ("checkpoint.per_writer", "the speed of each writer of checkpoints"),
    ("per_client", "what {} gives one node"),
    ("per_stream", "the speed of single streams from {}"),
    ("per_connection", "the speed of single streams from {}"),
    ("target_bandwidth", "storage targets of {}"),
    ("targets", "storage targets of {}"),
    ("stripe_count", "the stripe count of {}"),
    ("stripe_size", "the stripe size of {}"),
    ("stripe_offset", "the targets of files of {}"),
    ("object-store.requests", "the request rate of {}"),
    ("queues", "I/O queues of {}"),
    ("queue_depth", "the depth of I/O queues of {}"),
    ("queue_bandwidth", "the bandwidth of I/O queues of {}"),
    ("seek", "the arm of {}"),
    ("throughput", "measured throughput of {}"),
    ("cache.capacity", "the cache in front of {}"),
    ("operations", "operations of {}"),
    ("file-server.latency", "request latency of {}"),
    ("parallel-fs.latency", "request latency of {}"),
    ("object-store.latency", "request latency of {}"),
    ("nvme-of.latency", "request latency of {}"),
    ("local-disk.latency", "request latency of {}"),
    ("background", "other loads"),
    ("fault", "faults"),
    ("pytorch.workers", "loader workers"),
    ("keras.workers", "loader workers"),
    ("stages.workers", "loader workers"),
    ("tf-queue.threads", "loader workers"),
    ("parallel_calls", "parallel calls of the loader"),
    ("parallel_reads", "parallel reads of the loader"),
    ("dali.threads", "loader workers"),
    ("dali.readers", "readers of the loader"),
    ("examples.readers", "readers of the loader"),
    ("prefetch_factor", "prefetch depth"),
    ("prefetch_queue_depth", "prefetch depth"),
    ("max_queue_size", "prefetch depth"),
    ("tf-data.prefetch", "prefetch depth"),
    ("tf-queue.capacity", "prefetch depth"),
    ("stages.buffer", "prefetch depth"),
    ("examples.capacity", "prefetch depth"),
    ("decode", "the work of decoding"),
    ("collate", "the work of collating"),
    ("delay", "delays of the loader"),
    ("ipc", "memory copies of the loader"),
    ("pin_memory", "the pinning thread"),
    ("pin_memory.work", "the pinning thread"),
    ("pin_memory.bandwidth", "the pinning thread"),
    ("worker_kind", "the interpreter's lock"),
    ("use_multiprocessing", "the interpreter's lock"),
    ("gil", "the interpreter's lock"),
    ("in_order", "delivery in order"),
    ("deterministic", "delivery in order"),
    ("stages.order", "delivery in order"),
    ("persistent_workers", "restarts of the loader"),
    ("loader.pytorch.start", "the start of workers"),
    ("loader.keras.start", "the start of workers"),
    ("loader.tf-data.start", "the start of the pipeline"),
    ("loader.tf-data.start_per_file", "the start of the pipeline"),
    ("loader.pytorch.take", "the work of taking batches"),
    ("wait_time", "polling of the loader"),
    ("cpu_quota", "the CPU quota"),
    ("model.step", "computing"),
    ("model.efficiency", "computing"),
    ("model.jitter", "jitter of step times"),
    ("model.launch", "the trainer's own work"),
    ("launch.work", "the trainer's own work"),
    ("launch.overlap", "the trainer's own work"),
    ("launch.varying", "the trainer's own work"),
    ("launch.serial", "work that the trainers of a node do one after the other"),
    ("data.loaders", "the number of loaders"),
    ("to_device", "copies to devices"),
    ("micro_batches", "pipeline bubbles"),
    ("schedule", "the pipeline schedule"),
    ("pipeline.chunks", "chunks of pipeline stages"),
    ("checkpoint.interval", "checkpoints"),
    ("checkpoint.steps", "checkpoints"),
    ("checkpoint.asynchronous", "checkpoints that training waits for"),
    ("checkpoint.writers", "the number of ranks that write checkpoints"),
    ("checkpoint.pause", "pauses for checkpoints"),
    ("checkpoint.bytes", "bytes of checkpoints"),
    ("when_busy", "checkpoints that wait for the previous one"),
    ("job.stagger", "checkpoints that jobs write at the same time"),
    ("job.start", "checkpoints that jobs write at the same time"),
    ("mtbf", "failures"),
    ("job.failures", "failures"),
    ("failures.restart", "restarts after failures"),
    ("read_back", "reading checkpoints back"),
    ("gradients", "bytes of gradients"),
    ("parameters", "bytes of parameters"),
    ("period", "exchanges between model copies"),
    ("accumulation", "accumulation of gradients"),
    ("batch_interval", "the batch interval"),
    ("overlap", "exchanges that training waits for"),
    ("zero.groups", "sharding over several nodes"),
    ("server.nic", "NICs of the parameter servers"),
    ("server.cores", "updates at the parameter servers"),
    ("server.update", "updates at the parameter servers"),
    ("reduce-broadcast.update", "the root's update"),
    ("model-averaging.latency", "the time of averages on a GPU"),
    ("per_stream_inside", "the speed of single transfers of gradients"),
];

/// Returns the name of a limit in words; `owner` is the name of the storage or group that has it.
pub(crate) fn words(class: &str, owner: Option<&str>) -> String {
    let fits = |end: &str| {
        class == end || class.strip_suffix(end).is_some_and(|above| above.ends_with('.'))
    };
    let owner = owner.map(|name| format!("`{name}`"));
    let of_owner = || owner.as_ref().map_or(String::new(), |owner| format!(" of {owner}"));
    match WORDS.iter().find(|(end, _)| fits(end)) {
        Some((_, words)) if words.contains("{}") => {
            words.replace("{}", owner.as_deref().unwrap_or(""))
        }
        Some((_, words)) => format!("{words}{}", of_owner()),
        None if class.contains("transport.") => {
            let last = class.rsplit('.').next().unwrap_or(class).replace('_', " ");
            format!("{last} of gradients' transfers")
        }
        None => {
            let last = class.rsplit('.').next().unwrap_or(class).replace('_', " ");
            format!("{last}{}", of_owner())
        }
    }
}

/// Returns the ends of paths in the tables.
#[cfg(test)]
pub(crate) fn ends() -> Vec<&'static str> {
    let rules = RULES.iter().map(|row| row.0);
    rules.chain(PARTS.iter().map(|row| row.0)).chain(WORDS.iter().map(|row| row.0)).collect()
}

/// Returns the beginnings of paths in the tables.
#[cfg(test)]
pub(crate) fn begins() -> Vec<&'static str> {
    REACHES.iter().map(|row| row.0).collect()
}
