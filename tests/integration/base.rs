//! Small scenarios of one job, and one that other modules change key by key.

use forebay::report::Outcome;
use forebay::scenario::Scenario;

use super::runs::{simulate, written};

/// A scenario of one job, which reads so many samples of 100 kB with so many threads in batches of 16.
/// `machine` comes before and has a storage `s`; `rest` goes on where the job's loader ends.
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

/// A job on `nodes` with `copies` model copies each, data that are there, steps of 100 ms, and a table of `[job.sync]`,
/// over links with these latencies inside nodes and across.
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

/// One job on one file server. Every key that is changed elsewhere stands here or has a default.
pub(crate) fn base() -> String {
    one_job(MACHINE, 1000, 4, WORK)
}

/// The base scenario with some keys changed.
pub(crate) fn changed(changes: &[(&str, &str)]) -> Scenario {
    written(&base(), changes)
}

/// What one replication of it shows.
pub(crate) fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&changed(changes))
}
