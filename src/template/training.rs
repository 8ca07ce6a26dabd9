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

/// GPUs over which a model is spread, and what limits how its layers can be split.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// GPUs of each node.
    pub(super) gpus: u64,
    pub(super) nodes: u64,
    /// Heads of keys and values of the model's attention; 0 for a model without attention, whose layers are not split.
    pub(super) heads: u64,
}

impl Room {
    /// Returns the GPUs that split each layer: a power of two that divides the GPUs of a node, and the heads, as Megatron-LM
    /// demands (`num_attention_heads` and `num_query_groups` "must be a multiple of tensor_model_parallel_size").
    fn tensor_ranks(self) -> u64 {
        let divides = |ranks: &u64| {
            [self.gpus, self.heads].iter().all(|of| *of > 0 && of.is_multiple_of(*ranks))
        };
        std::iter::successors(Some(MOST_TENSOR_RANKS), |ranks| Some(ranks / 2))
            .take_while(|ranks| *ranks > 1)
            .find(divides)
            .unwrap_or(1)
    }

    /// Returns the groups of GPUs on a node, each of which splits a layer.
    fn groups(self) -> u64 {
        self.gpus / self.tensor_ranks()
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
    /// Tensor parallelism: each layer split over GPUs of a node. The groups of GPUs are data parallel.
    Tensor,
    /// Tensor parallelism in each node, and the layers divided among all groups of GPUs on `nodes` nodes; the rest is data parallel,
    /// with optimizer states sharded over the replicas if `sharded`.
    Pipeline { nodes: u64, sharded: bool },
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
/// Micro-batches for each stage of a pipeline: 8 keep bubbles below 12 % of the time of 1F1B.
const MICRO_BATCHES: u64 = 8;
/// Micro-batches for each stage with which bubbles are negligible (Huang et al., *GPipe*, 2019, section 3.2).
const FEWEST_MICRO_BATCHES: u64 = 4;

/// Most stages of a pipeline: Megatron-LM's largest published run has 64 (Narayanan et al., 2021, table 1).
const MOST_STAGES: u64 = 64;

/// Part of a GPU's memory that a model may take: CUDA's context, NCCL's buffers and the blocks that the framework's allocator cannot
/// use need some.
pub(super) const PART_OF_MEMORY: f64 = 0.95;

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
    /// Returns the splits to try for a model with `parameters` parameters, the best first: those to try with samples of any length,
    /// then pipelines for which the batch that the user names has too few micro-batches, then what keeps states out of GPUs.
    pub(super) fn ways(parameters: u64, room: Room, batch: Option<u64>) -> [Vec<Spread>; 3] {
        let nodes = (1..=room.nodes).filter(|nodes| room.nodes.is_multiple_of(*nodes));
        let pipelines = nodes
            .flat_map(|nodes| [false, true].map(|sharded| Spread::Pipeline { nodes, sharded }));
        let split = [Spread::Tensor].into_iter().chain(pipelines);
        let replicas = [Spread::Copies, Spread::ZeroOne].into_iter();
        let mut all: Vec<Spread> = match parameters <= LARGEST_OF_FSDP {
            true => replicas.chain([Spread::ZeroThree]).chain(split).collect(),
            false => replicas.chain(split).chain([Spread::ZeroThree]).collect(),
        };
        all.retain(|way| way.makes_sense(room));
        let waits = |way: &Spread| {
            let few = batch.is_some_and(|batch| batch < FEWEST_MICRO_BATCHES * way.stages(room));
            few && matches!(way, Spread::Pipeline { .. })
        };
        let (waiting, good) = all.into_iter().partition(waits);
        [good, waiting, vec![Spread::OutOfCore]]
    }

    fn makes_sense(self, room: Room) -> bool {
        match self {
            Spread::Copies | Spread::OutOfCore => true,
            Spread::ZeroOne | Spread::ZeroThree => room.gpus * room.nodes > 1,
            Spread::Tensor => room.tensor_ranks() > 1,
            Spread::Pipeline { nodes, sharded } => {
                (2..=MOST_STAGES).contains(&self.stages(room)) && (!sharded || nodes < room.nodes)
            }
        }
    }

    /// Returns the stages of a pipeline; 1 without one.
    fn stages(self, room: Room) -> u64 {
        if let Spread::Pipeline { nodes, .. } = self { nodes * room.groups() } else { 1 }
    }

    /// Returns the way in words.
    pub(super) fn said(self, room: Room) -> String {
        let ranks = room.tensor_ranks();
        match self {
            Spread::Copies => "a replica on each GPU".to_owned(),
            Spread::ZeroOne => "a replica on each GPU, with ZeRO 1".to_owned(),
            Spread::ZeroThree => "FSDP over all GPUs".to_owned(),
            Spread::Tensor => format!("layers split over {ranks} GPUs"),
            Spread::Pipeline { sharded, .. } => {
                let split = match ranks {
                    1 => String::new(),
                    _ => format!("layers split over {ranks} GPUs, in "),
                };
                let zero = if sharded { ", with ZeRO 1" } else { "" };
                format!("{split}{} stages{zero}", self.stages(room))
            }
            Spread::OutOfCore => {
                "a replica on each GPU, with its state in the node's memory".to_owned()
            }
        }
    }

    /// Returns the part of a GPU's memory that the model may take; `None` if the rest goes into the node's memory.
    pub(super) fn part_of_memory(self) -> Option<f64> {
        match self {
            Spread::OutOfCore => None,
            Spread::Copies
            | Spread::ZeroOne
            | Spread::ZeroThree
            | Spread::Tensor
            | Spread::Pipeline { .. } => Some(PART_OF_MEMORY),
        }
    }

    /// Returns the batch sizes to try, the best first, if the usual one is `usual`.
    pub(super) fn batches(self, usual: u64, room: Room) -> Vec<u64> {
        match self {
            Spread::Pipeline { .. } => vec![MICRO_BATCHES * self.stages(room)],
            _ => (0..7).map(|power| usual >> power).filter(|batch| *batch > 0).collect(),
        }
    }

    /// Returns the layout of a model whose copies train on `batch` samples; `sync` says how replicas exchange gradients.
    pub(super) fn layout(self, room: Room, batch: u64, sync: &str) -> Layout {
        let Room { gpus, nodes, .. } = room;
        let many = gpus * nodes > 1;
        let copies =
            format!("parallel.data.copies_per_node = {gpus} # a copy of the model on each GPU\n");
        let zero = |stage: u64, what: &str| {
            format!(
                "{copies}parallel.zero.stage = {stage} # {what}\nsync.allreduce.transport.nccl = {{}} # by RDMA\n"
            )
        };
        let tensor = match room.tensor_ranks() {
            1 => String::new(),
            ranks => format!(
                "parallel.tensor.ranks = {ranks} # each layer is split over GPUs of a node: Megatron-LM's guidance\n"
            ),
        };
        let groups = room.groups();
        let groups_of = match groups {
            1 => String::new(),
            _ => format!("parallel.data.copies_per_node = {groups} # copies of the model\n"),
        };
        let mut tables = String::new();
        let (keys, copies) = match self {
            Spread::Copies | Spread::OutOfCore if many => (format!("{copies}{sync}"), gpus),
            Spread::Copies | Spread::OutOfCore => (copies, gpus),
            Spread::ZeroOne => (zero(1, "each rank has a part of the optimizer's values"), gpus),
            Spread::ZeroThree => {
                (zero(3, "FSDP: each rank has a part of parameters, gradients and optimizer"), gpus)
            }
            Spread::Tensor => {
                let sync = if nodes * groups > 1 { sync } else { "" };
                (format!("{tensor}{groups_of}{sync}"), groups)
            }
            Spread::Pipeline { nodes: of_copy, sharded } => {
                let sync = if nodes > of_copy { sync } else { "" };
                let zero = match sharded {
                    true => {
                        "parallel.zero.stage = 1 # each replica has a part of the optimizer's values\n"
                    }
                    false => "",
                };
                tables = pipeline(self.stages(room), groups, of_copy, batch);
                (format!("{tensor}{zero}{sync}"), 1)
            }
        };
        Layout { keys, tables, copies, stages: self.stages(room) }
    }
}

/// Returns the table of a pipeline whose copy of the model has `on_node` stages on each of `nodes` nodes.
fn pipeline(stages: u64, on_node: u64, nodes: u64, batch: u64) -> String {
    let bubbles = match batch / stages {
        0..FEWEST_MICRO_BATCHES => "fewer than 4 for each stage: GPUs wait in bubbles",
        FEWEST_MICRO_BATCHES..MICRO_BATCHES => {
            "at least 4 for each stage keep bubbles small: GPipe, 2019"
        }
        MICRO_BATCHES.. => "8 or more for each stage: bubbles take less than 12 % of the time",
    };
    let over = match nodes {
        1 => "the GPUs of a node".to_owned(),
        _ => format!("{nodes} nodes"),
    };
    format!(
        "[job.parallel.pipeline] # the layers are divided among {over}; the rest is data parallel\nstages = {stages}\n\
         stages_per_node = {on_node}\nschedule = \"1f1b\"\nmicro_batches = {batch} # {bubbles}\n"
    )
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
