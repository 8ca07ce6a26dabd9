//! Small scenarios of one job, and a base scenario that other modules change key by key.

use forebay::report::Outcome;
use forebay::scenario::Scenario;

use super::runs::{simulate, written};

/// Returns a scenario of one job that reads `samples` samples of 100 kB with `threads` threads in batches of
/// 16. `machine` is the text before the job and has a storage `s`; `rest` continues the job's loader.
pub(crate) fn one_job(machine: &str, samples: u32, threads: u32, rest: &str) -> String {
    format!(
        r#"{machine}[dataset.d]
samples = {samples}
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 16
[job.loader.tf-queue]
threads = {threads}
capacity = "64 samples"
{rest}"#
    )
}

/// Returns a job on `nodes` nodes with `copies` model copies each, data in memory, steps of 100 ms, and `sync`
/// as its table of `[job.sync]`, over links with these latencies inside nodes and across.
pub(crate) fn model_copies(
    (nodes, copies): (u32, u32),
    steps: u32,
    [inside, across]: [&str; 2],
    sync: &str,
) -> String {
    format!(
        r#"# What does it cost that model copies agree?
name = "sync"
[run]
steps = {steps}
warm_up = "off"
[cluster]
nodes = {nodes}
node = {{ cores = 8, gpus = 8, intra = {{ kind = "switch", bandwidth = "20 GB/s", latency = "{inside}" }} }}
network = {{ nic = "1 GB/s", latency = "{across}" }}
[storage.memory.memory]
[dataset.d]
samples = 1000000
sample_size = "1 kB"
[[job]]
name = "j"
nodes = {nodes}
dataset = "d"
storage = "memory"
batch = 8
model.step = "100 ms"
parallel.data.copies_per_node = {copies}
loader.in-memory = {{}}
[job.sync.{sync}
"#
    )
}

const MACHINE: &str = r#"# What does one changed key do?
name = "base"
[run]
steps = 60
warm_up = "off"
replications = 1
seed = 1
[cluster]
nodes = 8
[cluster.node]
cores = 8
gpus = 4
[cluster.network]
nic = "10 GB/s"
latency = "10 us"
[storage.s.file-server]
bandwidth = "10 GB/s"
per_stream = "400 MB/s"
latency = "500 us"
operations = "50000 /s"
"#;

const WORK: &str = r#"decode = "500 us"
[job.model]
step = "1 ms"
"#;

/// Returns a scenario of one job on one file server. Every key that other modules change is written here or has
/// a default.
pub(crate) fn base() -> String {
    one_job(MACHINE, 1000, 4, WORK)
}

/// Returns the base scenario with some keys changed.
pub(crate) fn changed(changes: &[(&str, &str)]) -> Scenario {
    written(&base(), changes)
}

/// Returns the outcome of one replication of the base scenario with these changes.
pub(crate) fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&changed(changes))
}
