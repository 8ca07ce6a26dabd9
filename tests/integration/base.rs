//! A small scenario that other modules change key by key.

use forebay::report::Outcome;
use forebay::scenario::Scenario;

use super::runs::{simulate, written};

/// One job on one file server. Every key that is changed elsewhere stands here or has a default.
pub(crate) const BASE: &str = r#"# What does one changed key do?
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
[dataset.d]
samples = 1000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 16
[job.loader.tf-queue]
threads = 4
capacity = "64 samples"
decode = "500 us"
[job.model]
step = "1 ms"
"#;

/// The base scenario with some keys changed.
pub(crate) fn changed(changes: &[(&str, &str)]) -> Scenario {
    written(BASE, changes)
}

/// What one replication of it shows.
pub(crate) fn outcome(changes: &[(&str, &str)]) -> Outcome {
    simulate(&changed(changes))
}
