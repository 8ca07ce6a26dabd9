//! Scenarios with one bottleneck.

use super::{broken, is, judged};
use crate::runs::Case;

/// A job on one GPU whose loader could deliver three times its throughput.
const INPUT: &str = r#"
name = "input"
[run]
steps = 300
warm_up = 30
replications = 1
[cluster]
nodes = 1
[cluster.node]
cores = 64
gpus = 1
[cluster.network]
nic = "10 GB/s"
[storage.s.file-server]
bandwidth = "20 GB/s"
latency = { exponential = { mean = "500 us" } }
[dataset.d]
samples = 1000000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 16
model.step = "4 ms"
[job.loader.pytorch]
workers = 8
decode = { gamma = { mean = "200 us", cv = 0.3 } }
"#;

/// Four ranks on two nodes with data in memory.
pub(super) const RANKS: &str = r#"
name = "ranks"
[run]
steps = 200
warm_up = 20
replications = 1
[cluster]
nodes = 2
[cluster.node]
cores = 16
gpus = 2
intra = { kind = "switch", bandwidth = "50 GB/s" }
[cluster.network]
nic = "10 GB/s"
[storage.m.memory]
[dataset.d]
samples = 1000000
sample_size = "1 kB"
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "m"
batch = 8
model.step = "20 ms"
parallel.data.copies_per_node = 2
loader.in-memory = {}
"#;

/// Name, base, changes, and the ends of the keys that count as the bottleneck.
type Row =
    (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const ROWS: &[Row] = &[
    ("computing", INPUT, &[], &["model.step"]),
    (
        "server bandwidth",
        INPUT,
        &[("storage.s.file-server.bandwidth", "\"200 MB/s\"")],
        &["file-server.bandwidth"],
    ),
    (
        "server operations",
        INPUT,
        &[("storage.s.file-server.operations", "\"2000 /s\"")],
        &["operations"],
    ),
    ("latency × workers", INPUT, &[("job.loader.pytorch.workers", "2")], &["workers"]),
    (
        "long latency",
        INPUT,
        &[("storage.s.file-server.latency", "{ exponential = { mean = \"5 ms\" } }")],
        &["workers", "file-server.latency"],
    ),
    (
        "single streams",
        INPUT,
        &[("storage.s.file-server.per_stream", "\"20 MB/s\"")],
        &["workers", "per_stream"],
    ),
    ("NIC", INPUT, &[("cluster.network.nic", "\"200 MB/s\"")], &["nic"]),
    (
        "NIC for storage",
        INPUT,
        &[("cluster.network.storage_nic", "\"200 MB/s\"")],
        &["storage_nic"],
    ),
    (
        "PCIe",
        INPUT,
        &[("cluster.node.pcie", "\"400 MB/s\""), ("job.loader.pytorch.to_device", "true")],
        &["pcie"],
    ),
    (
        "cores",
        INPUT,
        &[
            ("cluster.node.cores", "2"),
            ("job.loader.pytorch.decode", "{ gamma = { mean = \"2 ms\", cv = 0.3 } }"),
        ],
        &["cores", "decode"],
    ),
    (
        "interpreter's lock",
        INPUT,
        &[
            ("job.loader.pytorch.worker_kind", "\"thread\""),
            ("job.loader.pytorch.gil", "1.0"),
            ("job.loader.pytorch.decode", "{ gamma = { mean = \"600 us\", cv = 0.3 } }"),
        ],
        &["gil", "worker_kind"],
    ),
    (
        "CPU quota",
        INPUT,
        &[
            ("job.cpu_quota", "1"),
            ("job.loader.pytorch.decode", "{ gamma = { mean = \"600 us\", cv = 0.3 } }"),
        ],
        &["cpu_quota", "decode"],
    ),
    (
        "memory bandwidth",
        INPUT,
        &[
            ("cluster.node.memory_bandwidth", "\"1 GB/s\""),
            ("job.memory_traffic", "\"5 GB/s\""),
            ("job.loader.pytorch.decode", "{ gamma = { mean = \"2 ms\", cv = 0.3 } }"),
        ],
        &["memory_bandwidth", "memory_traffic", "decode"],
    ),
    (
        "page cache too small",
        INPUT,
        &[
            ("run.steps", "500"),
            ("dataset.d.samples", "2000"),
            ("cluster.node.page_cache", "{ capacity = \"140 MB\" }"),
            ("storage.s.file-server.bandwidth", "\"40 MB/s\""),
        ],
        &["page_cache.capacity"],
    ),
    (
        "storage targets",
        INPUT,
        &[(
            "storage.s",
            "{ parallel-fs = { targets = 4, target_bandwidth = \"50 MB/s\", latency = { exponential = { mean = \"500 us\" } } } }",
        )],
        &["targets", "target_bandwidth"],
    ),
    (
        "request rate",
        INPUT,
        &[
            (
                "storage.s",
                "{ object-store = { requests = \"2000 /s\", burst = 50, latency = { exponential = { mean = \"500 us\" } } } }",
            ),
            (
                "job.loader",
                "{ tf-queue = { threads = 64, capacity = \"128 samples\", decode = \"200 us\" } }",
            ),
        ],
        &["object-store.requests"],
    ),
    (
        "disk arm",
        INPUT,
        &[("storage.s", "{ local-disk = { bandwidth = \"2 GB/s\", seek = \"1 ms\" } }")],
        &["seek"],
    ),
    (
        "measured table",
        INPUT,
        &[(
            "storage.s",
            "{ measured = { sizes = [\"10 kB\", \"1 MB\"], requests = [1, 4], throughput = [[\"50 MB/s\", \"100 MB/s\"], [\"100 MB/s\", \"200 MB/s\"]] } }",
        )],
        &["throughput"],
    ),
    (
        "decode workers",
        INPUT,
        &[
            ("job.loader.pytorch.workers", "2"),
            ("job.loader.pytorch.decode", "{ gamma = { mean = \"2 ms\", cv = 0.3 } }"),
        ],
        &["workers"],
    ),
    (
        "launch",
        INPUT,
        &[("job.model.launch", "{ work = { gamma = { mean = \"8 ms\", cv = 0.2 } } }")],
        &["launch.work"],
    ),
    (
        "restart",
        INPUT,
        &[
            ("dataset.d.samples", "800"),
            ("job.loader.pytorch.start", "\"20 ms\""),
            ("run.steps", "500"),
        ],
        &["persistent_workers"],
    ),
    (
        "background load",
        INPUT,
        &[
            ("storage.s.file-server.bandwidth", "\"600 MB/s\""),
            ("background", "[{ name = \"b\", storage = \"s\", streams = { streams = 16 } }]"),
        ],
        &["file-server.bandwidth", "background"],
    ),
    (
        "head-of-line blocking",
        INPUT,
        &[
            ("job.batch", "1"),
            ("job.model.step", "\"250 us\""),
            ("job.loader.pytorch.workers", "16"),
            ("job.loader.pytorch.decode", "{ lognormal = { mean = \"2 ms\", cv = 5.0 } }"),
        ],
        &["in_order"],
    ),
    (
        "prefetch depth",
        INPUT,
        &[
            (
                "job.loader",
                "{ tf-queue = { threads = 8, capacity = \"16 samples\", decode = { gamma = { mean = \"1500 us\", cv = 0.3 } } } }",
            ),
            ("job.model.jitter", "{ lognormal = { cv = 1.5 } }"),
        ],
        &["tf-queue.capacity", "threads", "model.jitter", "decode"],
    ),
    (
        "rack uplink",
        RANKS,
        &[
            ("cluster.network.racks", "{ nodes = 1, uplink = \"1 GB/s\" }"),
            ("job.sync.allreduce", "{ gradients = \"50 MB\", algorithm = \"ring\" }"),
        ],
        &["uplink"],
    ),
    (
        "NIC of gradients",
        RANKS,
        &[
            ("cluster.network.nic", "\"1 GB/s\""),
            ("job.sync.allreduce", "{ gradients = \"50 MB\", algorithm = \"ring\" }"),
        ],
        &["nic"],
    ),
    (
        "gradients that wait for the end of backward",
        RANKS,
        &[(
            "job.sync.allreduce",
            "{ gradients = \"50 MB\", buckets = \"5 MB\", algorithm = \"ring\", overlap = false }",
        )],
        &["overlap"],
    ),
    (
        "launches of an averaging",
        RANKS,
        &[
            ("job.model.occupancy", "0.3"),
            ("job.parallel.data", "{ copies_per_node = 2, learners = 2 }"),
            ("job.sync.model-averaging", "{ parameters = \"1 MB\", latency = \"4 ms\" }"),
        ],
        &["model-averaging.latency"],
    ),
    (
        "learners that wait for the average",
        RANKS,
        &[
            ("job.model.occupancy", "0.3"),
            ("job.parallel.data", "{ copies_per_node = 2, learners = 2 }"),
            ("job.sync.model-averaging", "{ parameters = \"60 MB\", overlap = false }"),
        ],
        &["overlap"],
    ),
    (
        "rack uplink behind NICs that are hardly used",
        RANKS,
        &[
            ("run.steps", "12"),
            ("run.warm_up", "2"),
            ("cluster.nodes", "4"),
            ("cluster.node.gpus", "8"),
            ("cluster.node.intra.bandwidth", "\"2 GB/s\""),
            ("cluster.network.racks", "{ nodes = 2, uplink = \"625 MB/s\" }"),
            ("job.nodes", "4"),
            ("job.parallel.data.copies_per_node", "8"),
            ("job.model.jitter", "{ lognormal = { cv = 0.2 } }"),
            (
                "job.sync.reduce-broadcast",
                "{ parameters = \"65 MB\", transport.mpi.cpu.per_message = \"100 us\" }",
            ),
        ],
        &["uplink", "reduce-broadcast.parameters"],
    ),
    (
        "latency inside nodes of GPUs that split layers",
        RANKS,
        &[
            ("cluster.node.gpus", "4"),
            (
                "job.parallel",
                "{ tensor = { ranks = 4, allreduces = 50, activations = \"100 kB\", fidelity = \"flow\" }, \
                 pipeline = { stages = 1, schedule = \"1f1b\", micro_batches = 1 } }",
            ),
            (
                "job.sync.allreduce",
                "{ gradients = \"10 MB\", transport.nccl = { latency_inside = \"100 us\", latency = \"10 us\" } }",
            ),
        ],
        &["latency_inside"],
    ),
    (
        "NICs of a long chain, of which each is hardly used",
        RANKS,
        &[
            ("run.steps", "40"),
            ("run.warm_up", "4"),
            ("cluster.nodes", "32"),
            ("cluster.network.nic", "\"1 GB/s\""),
            ("job.nodes", "32"),
            ("job.parallel.data.copies_per_node", "1"),
            (
                "job.sync.reduce-broadcast",
                "{ parameters = \"20 MB\", reduce = \"ring\", broadcast = \"ring\" }",
            ),
        ],
        &["nic"],
    ),
    (
        "cores that carry messages",
        RANKS,
        &[
            ("run.steps", "100"),
            ("cluster.node.cores", "8"),
            ("cluster.node.gpus", "8"),
            (
                "cluster.node.intra",
                "{ kind = \"switch\", bandwidth = \"2 GB/s\", latency = \"50 us\" }",
            ),
            ("cluster.network", "{ nic = \"625 MB/s\", latency = \"100 us\" }"),
            ("job.parallel.data.copies_per_node", "8"),
            ("job.model.step", "\"80 ms\""),
            (
                "job.sync.allreduce",
                "{ gradients = \"7 MB\", transport.tcp = { per_stream = \"500 MB/s\", cpu.per_message = \"1 ms\" } }",
            ),
        ],
        &["per_message"],
    ),
    (
        "links inside nodes",
        RANKS,
        &[
            ("cluster.node.intra.bandwidth", "\"1 GB/s\""),
            ("job.sync.allreduce", "{ gradients = \"50 MB\", algorithm = \"ring\" }"),
        ],
        &["intra.bandwidth"],
    ),
    (
        "root's NIC",
        RANKS,
        &[
            ("cluster.network.nic", "\"1 GB/s\""),
            (
                "job.sync.reduce-broadcast",
                "{ parameters = \"20 MB\", reduce = \"flat\", broadcast = \"flat\" }",
            ),
        ],
        &["nic"],
    ),
    (
        "root's update",
        RANKS,
        &[
            ("job.model.jitter", "{ lognormal = { cv = 0.05 } }"),
            ("job.sync.reduce-broadcast", "{ parameters = \"50 kB\", update = \"80 ms\" }"),
        ],
        &["reduce-broadcast.update"],
    ),
    (
        "servers' cores",
        RANKS,
        &[(
            "job.sync.parameter-server",
            "{ parameters = \"20 MB\", server = { cores = 1, nic = \"20 GB/s\", update = \"1 GB/s\" } }",
        )],
        &["server.cores", "server.update", "parameter-server.parameters"],
    ),
    (
        "servers' NICs",
        RANKS,
        &[(
            "job.sync.parameter-server",
            "{ parameters = \"20 MB\", server = { cores = 8, nic = \"1 GB/s\" } }",
        )],
        &["server.nic"],
    ),
    (
        "straggler jitter",
        RANKS,
        &[("job.model.jitter", "{ lognormal = { cv = 0.6 } }")],
        &["model.jitter"],
    ),
    (
        "slow node",
        RANKS,
        &[
            ("cluster.nodes", "1"),
            ("cluster.group", "{ old = { nodes = 1, node = { gpu_speed = 0.5 } } }"),
        ],
        &["node.gpu_speed"],
    ),
    (
        "pipeline bubbles",
        RANKS,
        &[
            ("cluster.node.gpus", "4"),
            (
                "job.parallel",
                "{ pipeline = { stages = 4, schedule = \"gpipe\", micro_batches = 2 } }",
            ),
            ("job.model.step", "{ per_sample = \"10 ms\" }"),
        ],
        &["micro_batches"],
    ),
    (
        "checkpoint",
        RANKS,
        &[
            ("storage.c.file-server", "{ bandwidth = \"500 MB/s\" }"),
            ("job.checkpoint", "{ steps = 5, bytes = \"50 MB\", storage = \"c\" }"),
        ],
        &["file-server.bandwidth", "checkpoint.steps", "checkpoint.asynchronous"],
    ),
    (
        "the pinning thread",
        INPUT,
        &[
            ("job.loader.pytorch.pin_memory", "{ bandwidth = \"200 MB/s\" }"),
            ("job.loader.pytorch.to_device", "true"),
        ],
        &["pin_memory.bandwidth"],
    ),
    ("collating", INPUT, &[("job.loader.pytorch.collate", "\"60 ms\"")], &["workers", "collate"]),
    (
        "copies by worker processes",
        INPUT,
        &[("job.loader.pytorch.ipc", "\"25 MB/s\""), ("cluster.node.cores", "4")],
        &["cores", "ipc"],
    ),
    (
        "server bandwidth between failures",
        INPUT,
        &[
            ("storage.s.file-server.bandwidth", "\"200 MB/s\""),
            ("storage.c.file-server", "{ bandwidth = \"1 TB/s\" }"),
            ("job.checkpoint", "{ steps = 20, bytes = \"1 MB\", storage = \"c\" }"),
            ("job.failures", "{ mtbf = \"500 ms\", restart = \"50 ms\" }"),
            ("run.steps", "1500"),
        ],
        &["file-server.bandwidth"],
    ),
    (
        "averaging in GPU memory",
        RANKS,
        &[
            ("cluster.nodes", "1"),
            ("job.nodes", "1"),
            ("cluster.node.gpu_memory_bandwidth", "\"5 GB/s\""),
            ("job.parallel", "{ data = { copies_per_node = 1, learners = 2 } }"),
            ("job.model.occupancy", "0.5"),
            ("job.sync.model-averaging", "{ parameters = \"50 MB\", period = 1 }"),
        ],
        &["gpu_memory_bandwidth", "period"],
    ),
];

/// Returns an error message if the verdict of a row is wrong, and `None` otherwise.
fn wrong((name, base, changes, expected): &Row) -> Option<String> {
    let case = Case::written(base, changes);
    let (_, verdict) = judged(&case);
    let first = verdict.limits.first();
    if !first.is_some_and(|first| expected.iter().any(|key| is(first, key))) {
        let found = first.map_or("nothing", |limit| limit.lever.as_str());
        return Some(format!("{name}: {found}, not {expected:?}: {}", verdict.text));
    }
    broken(&case, &verdict).map(|promise| format!("{name}: {promise}"))
}

#[test]
fn the_verdict_names_the_only_bottleneck_of_a_constructed_scenario() {
    // System: scenarios with one bottleneck. Expectation: the verdict names it first, with the step time of a
    // long run with its changes.
    let found: Vec<String> = ROWS.iter().filter_map(wrong).collect();
    assert!(found.is_empty(), "{} of {}:\n{}", found.len(), ROWS.len(), found.join("\n"));
}
