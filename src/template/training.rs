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
            let text =
                format!("[job.loader.dali]\nthreads = {workers} # on each node\nreaders = 8\n");
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
                "[job.loader.pytorch]\nworkers = {workers} # num_workers, all loaders of a node together\n\
                 prefetch_factor = 2 # batches, for each worker\npersistent_workers = true\n"
            );
            (with(text), Some("job.loader.pytorch.workers"))
        }
    }
}

/// Ways to spread a model over GPUs, from the simplest one to the one that fits if no other does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    /// Data parallelism: a replica of the model on each GPU.
    Copies,
    /// Data parallelism with optimizer states sharded over the ranks (ZeRO stage 1).
    ZeroOne,
    /// Data parallelism with optimizer states, gradients and parameters sharded over the ranks (ZeRO stage 3).
    ZeroThree,
    /// Tensor parallelism: each layer split over the GPUs of a node.
    Tensor,
    /// Tensor and pipeline parallelism: each layer split over the GPUs of a node, and the layers divided among the nodes.
    Pipeline,
    /// A replica on each GPU; the part of its state that does not fit is kept in the node's memory.
    OutOfCore,
}

impl Spread {
    pub(super) const ALL: [Spread; 6] = [
        Spread::Copies,
        Spread::ZeroOne,
        Spread::ZeroThree,
        Spread::Tensor,
        Spread::Pipeline,
        Spread::OutOfCore,
    ];

    /// Returns the keys of `[job]` that spread the model in this way over `nodes` nodes with `gpus` GPUs each; `sync` says how
    /// replicas exchange gradients. `None` if this way makes no sense for that number of GPUs and nodes.
    pub(super) fn text(self, (gpus, nodes): (u64, u64), batch: u64, sync: &str) -> Option<String> {
        let many = gpus * nodes > 1;
        let loaders = match gpus {
            1 => "",
            _ => {
                "# parallel.data.loaders = \"per-rank\" # as with DDP: each GPU has a loader of its own, and its own workers\n"
            }
        };
        let copies = format!(
            "parallel.data.copies_per_node = {gpus} # a copy of the model on each GPU\n{loaders}"
        );
        let zero = |stage: u64, what: &str| {
            format!("{copies}parallel.zero.stage = {stage} # {what}\nsync.allreduce = {{}}\n")
        };
        match self {
            Spread::Copies if many => Some(format!("{copies}{sync}")),
            Spread::Copies | Spread::OutOfCore => Some(copies),
            Spread::ZeroOne => many.then(|| zero(1, "each rank has a part of the optimizer's values")),
            Spread::ZeroThree => many.then(|| zero(3, "each rank has a part of parameters, gradients and optimizer")),
            Spread::Tensor => (gpus > 1).then(|| {
                let own = format!("parallel.tensor.ranks = {gpus} # each layer is split over the GPUs of a node\n");
                if nodes > 1 { format!("{own}{sync}") } else { own }
            }),
            Spread::Pipeline => (nodes > 1).then(|| {
                let tensor = format!("parallel.tensor.ranks = {gpus} # each layer is split over the GPUs of a node\n");
                let tensor = if gpus > 1 { tensor } else { String::new() };
                format!(
                    "{tensor}[job.parallel.pipeline] # and the model over the nodes\nstages = {nodes}\nstages_per_node = \
                     1\nschedule = \"1f1b\"\nmicro_batches = {batch}\n"
                )
            }),
        }
    }
}
