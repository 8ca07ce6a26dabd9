//! Tables of loaders in a first scenario, and the keys that spread a model over GPUs.

/// Returns the table of the loader with this main name, and the key that sets its parallelism, if it has one.
pub(super) fn loader(
    name: &str,
    workers: u64,
    decode: Option<&str>,
    batch: u64,
) -> (String, Option<&'static str>) {
    let decode = decode.map_or_else(String::new, |time| {
        format!("decode = {{ lognormal = {{ mean = \"{time}\", cv = 0.5 }} }} # of a core, for each sample\n")
    });
    let with = |text: String| format!("{text}{decode}");
    match name {
        "tf-data" => {
            let text = format!(
                "[job.loader.tf-data]\nparallel_calls = {workers} # of map, on each node\nparallel_reads = 16\n\
                 prefetch = 2 # batches\ndeterministic = false\n"
            );
            (with(text), Some("job.loader.tf-data.parallel_calls"))
        }
        "dali" => {
            let text = format!(
                "[job.loader.dali] # a pipeline for each GPU\nthreads = {workers} # num_threads, of each pipeline\n\
                 readers = 1\n"
            );
            (with(text), Some("job.loader.dali.threads"))
        }
        "keras" => {
            let text = format!(
                "[job.loader.keras]\nworkers = {workers} # on each node\nmax_queue_size = {workers} # batches\n\
                 use_multiprocessing = true\n"
            );
            (with(text), Some("job.loader.keras.workers"))
        }
        "tf-queue" => {
            let capacity = format!("\"{} samples\"", 8 * batch);
            let text = format!(
                "[job.loader.tf-queue]\nthreads = {workers} # on each node\ncapacity = {capacity}\n"
            );
            (with(text), Some("job.loader.tf-queue.threads"))
        }
        "in-memory" => ("[job.loader.in-memory] # no input pipeline\n".to_owned(), None),
        _ => {
            let text = format!(
                "[job.loader.pytorch]\nworkers = {workers} # num_workers, of each loader\n\
                 prefetch_factor = 2 # batches, for each worker\npersistent_workers = true\n"
            );
            (with(text), Some("job.loader.pytorch.workers"))
        }
    }
}

/// A way to spread a model over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// Data parallelism: a replica of the model on each GPU.
    Copies,
    /// Data parallelism with optimizer states sharded over the ranks (ZeRO stage 1).
    ZeroOne,
    /// Data parallelism with optimizer states, gradients and parameters sharded over the ranks (ZeRO stage 3, FSDP).
    ZeroThree,
    /// Tensor parallelism: each layer split over GPUs of a node. The nodes are data parallel.
    Tensor,
    /// Tensor parallelism in each node, and the layers divided among `stages` nodes; the rest is data parallel, with optimizer
    /// states sharded over the replicas if `sharded`.
    Pipeline { stages: u64, sharded: bool },
    /// A replica on each GPU; the part of its state that does not fit is kept in the node's memory.
    OutOfCore,
}

/// Parameters up to which FSDP comes before tensor and pipeline parallelism. MosaicML's LLM Foundry trains models of 1 to 30
/// billion parameters so; beyond, Megatron-LM's guidance holds: tensor parallelism up to the GPUs of a node, pipeline parallelism
/// across nodes until the model fits, data parallelism for the rest (Narayanan et al., *Efficient Large-Scale Language Model
/// Training on GPU Clusters Using Megatron-LM*, 2021, takeaways 1 and 2).
const LARGEST_OF_FSDP: u64 = 30_000_000_000;
/// Most GPUs of a node that split a layer: those of a DGX, over whose NVLinks Megatron-LM's guidance keeps them.
const MOST_TENSOR_RANKS: u64 = 8;
/// Micro-batches for each stage of a pipeline. With 4, bubbles are negligible (Huang et al., *GPipe*, 2019, section 3.2); 8 keep
/// them below 12 % of the time of 1F1B.
const MICRO_BATCHES: u64 = 8;

/// Most stages of a pipeline: Megatron-LM's largest published run has 64 (Narayanan et al., 2021, table 1).
const MOST_STAGES: u64 = 64;

/// How a scenario spreads a model.
pub(super) struct Layout {
    /// Keys of `[job]`.
    pub(super) keys: String,
    /// Tables of the job, after its keys.
    pub(super) tables: String,
    /// Model copies on each node.
    pub(super) copies: u64,
    /// Pipeline stages of a model copy; 1 without a pipeline.
    pub(super) stages: u64,
}

impl Spread {
    /// Returns the splits to try for a model with `parameters` parameters on `nodes` nodes of `gpus` GPUs each, the best first.
    pub(super) fn ways(parameters: u64, (gpus, nodes): (u64, u64)) -> Vec<Spread> {
        let stages = (2..=nodes.min(MOST_STAGES)).filter(|stages| nodes.is_multiple_of(*stages));
        let pipelines = stages
            .flat_map(|stages| [false, true].map(|sharded| Spread::Pipeline { stages, sharded }));
        let split = [Spread::Tensor].into_iter().chain(pipelines);
        let replicas = [Spread::Copies, Spread::ZeroOne].into_iter();
        let mut all: Vec<Spread> = match parameters <= LARGEST_OF_FSDP {
            true => replicas.chain([Spread::ZeroThree]).chain(split).collect(),
            false => replicas.chain(split).chain([Spread::ZeroThree]).collect(),
        };
        all.push(Spread::OutOfCore);
        all.retain(|way| way.makes_sense((gpus, nodes)));
        all
    }

    fn makes_sense(self, (gpus, nodes): (u64, u64)) -> bool {
        match self {
            Spread::Copies | Spread::OutOfCore => true,
            Spread::ZeroOne | Spread::ZeroThree => gpus * nodes > 1,
            Spread::Tensor => tensor_ranks(gpus) > 1,
            Spread::Pipeline { stages, sharded } => stages <= nodes && (!sharded || stages < nodes),
        }
    }

    /// Returns the way in words.
    pub(super) fn said(self, (gpus, _): (u64, u64)) -> String {
        let ranks = tensor_ranks(gpus);
        match self {
            Spread::Copies => "a replica on each GPU".to_owned(),
            Spread::ZeroOne => "a replica on each GPU, with ZeRO 1".to_owned(),
            Spread::ZeroThree => "FSDP over all GPUs".to_owned(),
            Spread::Tensor => format!("layers split over {ranks} GPUs"),
            Spread::Pipeline { stages, sharded } => {
                let zero = if sharded { ", with ZeRO 1" } else { "" };
                format!("layers split over {ranks} GPUs, in {stages} stages{zero}")
            }
            Spread::OutOfCore => {
                "a replica on each GPU, with its state in the node's memory".to_owned()
            }
        }
    }

    /// Returns the part of a GPU's memory that the model may take: CUDA, NCCL and the allocator of the framework need some, which
    /// matters where a model is split until it just fits. `None` if the rest goes into the node's memory.
    pub(super) fn part_of_memory(self) -> Option<f64> {
        match self {
            Spread::Tensor | Spread::Pipeline { .. } | Spread::ZeroThree => Some(0.95),
            Spread::Copies | Spread::ZeroOne => Some(1.0),
            Spread::OutOfCore => None,
        }
    }

    /// Returns the batch sizes to try, the best first, if the usual one is `usual`.
    pub(super) fn batches(self, usual: u64) -> Vec<u64> {
        match self {
            Spread::Pipeline { stages, .. } => vec![MICRO_BATCHES * stages],
            _ => (0..7).map(|power| usual >> power).filter(|batch| *batch > 0).collect(),
        }
    }

    /// Returns the layout of a model on `nodes` nodes with `gpus` GPUs each; `sync` says how replicas exchange gradients.
    pub(super) fn layout(self, (gpus, nodes): (u64, u64), batch: u64, sync: &str) -> Layout {
        let many = gpus * nodes > 1;
        let copies =
            format!("parallel.data.copies_per_node = {gpus} # a copy of the model on each GPU\n");
        let zero = |stage: u64, what: &str| {
            format!("{copies}parallel.zero.stage = {stage} # {what}\nsync.allreduce = {{}}\n")
        };
        let ranks = tensor_ranks(gpus);
        let tensor = match ranks {
            1 => String::new(),
            _ => format!(
                "parallel.tensor.ranks = {ranks} # each layer is split over GPUs of a node: Megatron-LM's guidance\n"
            ),
        };
        let groups = gpus / ranks;
        let groups_of = match groups {
            1 => String::new(),
            _ => format!("parallel.data.copies_per_node = {groups} # copies of the model\n"),
        };
        let mut tables = String::new();
        let (keys, copies) = match self {
            Spread::Copies if many => (format!("{copies}{sync}"), gpus),
            Spread::Copies | Spread::OutOfCore => (copies, gpus),
            Spread::ZeroOne => (zero(1, "each rank has a part of the optimizer's values"), gpus),
            Spread::ZeroThree => {
                (zero(3, "FSDP: each rank has a part of parameters, gradients and optimizer"), gpus)
            }
            Spread::Tensor => {
                let sync = if nodes * groups > 1 { sync } else { "" };
                (format!("{tensor}{groups_of}{sync}"), groups)
            }
            Spread::Pipeline { stages, sharded } => {
                let sync = if nodes > stages { sync } else { "" };
                let zero = match sharded {
                    true => {
                        "parallel.zero.stage = 1 # each replica has a part of the optimizer's values\n"
                    }
                    false => "",
                };
                tables = format!(
                    "[job.parallel.pipeline] # the layers are divided among {stages} nodes; the rest is data \
                     parallel\nstages = {stages}\nstages_per_node = 1\nschedule = \"1f1b\"\nmicro_batches = {batch} # at least 4 \
                     for each stage keep bubbles small: GPipe, 2019\n"
                );
                (format!("{tensor}{zero}{sync}"), 1)
            }
        };
        let stages = if let Spread::Pipeline { stages, .. } = self { stages } else { 1 };
        Layout { keys, tables, copies, stages }
    }
}

/// Returns the number of GPUs that split each layer on nodes of `gpus` GPUs.
fn tensor_ranks(gpus: u64) -> u64 {
    (1..=MOST_TENSOR_RANKS.min(gpus)).rev().find(|ranks| gpus.is_multiple_of(*ranks)).unwrap_or(1)
}

/// Returns the key that gives each model copy of a node a loader of its own, if the loader's framework does so.
pub(super) fn loaders_of(name: &str, copies: u64) -> &'static str {
    match name {
        "pytorch" if copies > 1 => {
            "parallel.data.loaders = \"per-rank\" # as with DDP: each GPU has a loader of its own, and its own workers\n"
        }
        "tf-data" | "keras" if copies > 1 => {
            "# parallel.data.loaders = \"per-rank\" # as with Horovod: each GPU has a loader of its own, and its own workers\n"
        }
        _ => "",
    }
}

/// Returns whether each model copy of a node has a loader of its own.
pub(super) fn is_per_rank(name: &str) -> bool {
    ["pytorch", "dali"].contains(&name)
}
