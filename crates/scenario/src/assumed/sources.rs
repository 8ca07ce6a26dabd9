//! Sources of defaults.

/// Sources of defaults that come from frameworks and libraries. The keys here leave out the names that users give
/// to tables.
const FRAMEWORKS: [(&str, &str); 34] = [
    ("job.accumulation", "each step updates"),
    ("job.loader.dali.prefetch_queue_depth", "DALI: Pipeline(prefetch_queue_depth=2)"),
    (
        "job.loader.dali.readers",
        "DALI: a pipeline has one reader, which reads ahead in a thread of its own",
    ),
    ("job.loader.keras.max_queue_size", "Keras: fit(max_queue_size=10)"),
    ("job.loader.keras.use_multiprocessing", "Keras: fit(use_multiprocessing=False)"),
    ("job.loader.keras.workers", "Keras: fit(workers=1)"),
    ("job.loader.pytorch.drop_last", "PyTorch: DataLoader(drop_last=False)"),
    ("job.loader.pytorch.in_order", "PyTorch: DataLoader(in_order=True)"),
    ("job.loader.pytorch.iterable", "PyTorch: a map-style Dataset"),
    ("job.loader.pytorch.persistent_workers", "PyTorch: DataLoader(persistent_workers=False)"),
    ("job.loader.pytorch.pin_memory", "PyTorch: DataLoader(pin_memory=False)"),
    ("job.loader.pytorch.prefetch_factor", "PyTorch: DataLoader(prefetch_factor=2)"),
    ("job.loader.pytorch.worker_kind", "PyTorch: DataLoader starts processes"),
    ("job.loader.tf-data.deterministic", "tf.data: Options.deterministic"),
    ("job.loader.tf-data.parallel_calls", "tf.data: Dataset.map(num_parallel_calls=None)"),
    ("job.loader.tf-data.parallel_reads", "tf.data: Dataset.interleave(num_parallel_calls=None)"),
    ("job.loader.tf-data.prefetch", "tf.data: Dataset.prefetch"),
    ("job.model.optimizer", "SGD with momentum, as the models of the catalogue were published"),
    ("job.model.precision", "PyTorch and TensorFlow: float32 is the default type"),
    (
        "job.parallel.pipeline.weight_gradients",
        "linear layers: one of two equal products; Qi et al., 2024, table 1",
    ),
    ("job.sampler", "PyTorch: DistributedSampler"),
    ("job.sync.allreduce.backward", "backward takes two products where forward takes one"),
    ("job.sync.allreduce.fusion", "Horovod only"),
    ("job.sync.allreduce.fusion.buffer", "Horovod 0.21: HOROVOD_FUSION_THRESHOLD"),
    ("job.sync.allreduce.fusion.cycle", "Horovod 0.21: HOROVOD_CYCLE_TIME"),
    ("job.sync.allreduce.inner", "NCCL: rings"),
    ("job.sync.allreduce.outer", "NCCL: rings"),
    ("job.sync.allreduce.overlap", "PyTorch and Horovod: reduced while backward goes on"),
    ("job.sync.allreduce.precision", "gradients are reduced as they are made"),
    (
        "job.sync.model-averaging.overlap",
        "Crossbow: A. Koliousis et al., 2019; on a real GPU: live runs of forebay",
    ),
    ("run.warm_up", "MSER-5: K. P. White, 1997"),
    ("storage.nvme-of.queue_depth", "Linux: NVMF_DEF_QUEUE_SIZE"),
    ("storage.object-store.retry.first", "SDKs of S3: exponential back-off with full jitter"),
    ("storage.object-store.retry.most", "SDKs of S3: exponential back-off with full jitter"),
];

/// Returns the source of the default `value` of a key.
pub(super) fn source(class: &str, value: &str) -> &'static str {
    if let Some((_, source)) = FRAMEWORKS.iter().find(|(key, _)| *key == class) {
        return source;
    }
    if value.starts_with("as the profile says") {
        return "the profile; without one, what comes after \"or\"";
    }
    if value.starts_with("as the catalogue says") || value.starts_with("those of the catalogue") {
        return "the catalogue of models";
    }
    if value.starts_with("that of `gpu`") {
        return "the catalogue of GPUs";
    }
    if is_neutral(value) {
        return "not simulated unless it is written";
    }
    "forebay"
}

/// Returns whether a default means that something is absent, so that it takes no time and no space.
fn is_neutral(value: &str) -> bool {
    const NOTHING: [&str; 9] = [
        "infinite",
        "in no time",
        "none",
        "not set",
        "nothing",
        "not split",
        "no ",
        "they do not",
        "all",
    ];
    let zero = ["0 s", "0 B", "0"].contains(&value);
    zero || NOTHING.iter().any(|nothing| value.starts_with(nothing))
}
