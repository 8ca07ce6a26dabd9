//! Keys of scenarios that only the simulated world supports.

/// Keys, and tables of keys, that `forebay live` refuses because this machine does not have such hardware and `live` does not
/// emulate it. `*` matches any single part of the path. All other keys work in both worlds.
pub const SIMULATED_ONLY: [&str; 37] = [
    "background",
    "cluster.group",
    "cluster.node.memory_bandwidth",
    "cluster.node.smt",
    "dataset.NAME.layout.*.readahead",
    "dataset.NAME.layout.file-per-sample.request",
    "dataset.NAME.layout.lmdb",
    "dataset.NAME.layout.parquet",
    "fault",
    "job.after",
    "job.arrivals",
    "job.checkpoint",
    "job.cpu_period",
    "job.cpu_quota",
    "job.decoded_cache",
    "job.failures",
    "job.inner_threads",
    "job.loader.*.gil",
    "job.loader.dali.gpu",
    "job.model.launch.gil",
    "job.model.out_of_core",
    "job.parallel.context",
    "job.parallel.data.learners.auto",
    "job.parallel.expert",
    "job.parallel.pipeline",
    "job.parallel.tensor",
    "job.parallel.zero",
    "job.copy",
    "job.sync.allreduce",
    "job.sync.elastic-averaging",
    "job.sync.parameter-server",
    "job.sync.reduce-broadcast",
    "storage.NAME.*.cache",
    "storage.NAME.local-disk.seek",
    "storage.NAME.measured",
    "storage.NAME.object-store.requests",
    "storage.NAME.parallel-fs",
];

/// Returns whether `forebay live` refuses the key, or the table with all its keys, at this dotted path.
#[must_use]
pub fn is_simulated_only(path: &str) -> bool {
    SIMULATED_ONLY.iter().any(|of| {
        let mut parts = path.split('.');
        of.split('.').all(|wanted| parts.next().is_some_and(|part| wanted == "*" || part == wanted))
    })
}
